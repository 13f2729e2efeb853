#include "weft/mpi/comm.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <sstream>
#include <utility>
#include <vector>

#include "weft/mpi/agreement.hpp"
#include "weft/mpi/error_text.hpp"
#include "weft/mpi/finalized.hpp"
#include "weft/mpi/same.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::mpi {
namespace {

void initialize() {
  int flag = 0;
  MPI_Initialized(&flag);
  if (flag != 0) return;
  int provided = 0;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
  std::atexit([] {
    if (!finalized()) MPI_Finalize();
  });
}

}  // namespace

struct Comm::Handle {
  explicit Handle(MPI_Comm parent) {
    check(MPI_Comm_dup(parent, &comm), "MPI_Comm_dup");
    check(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Comm_group(comm, &ranks);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    describe();
  }
  ~Handle() {
    if (finalized()) return;
    MPI_Group_free(&ranks);
    MPI_Group_free(&world);
    MPI_Comm_free(&comm);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  int world_rank(int of) const {
    int there = -1;
    check(MPI_Group_translate_ranks(ranks, 1, &of, world, &there), "MPI_Group_translate_ranks");
    return there;
  }

  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Group ranks = MPI_GROUP_NULL, world = MPI_GROUP_NULL;
  int rank = 0, size = 1;
  std::int64_t group = 0;
  std::shared_ptr<const trace::Traffic> barrier, allreduce, exscan;  // for the recorder
  int next_tag = 0;
  std::vector<int> node;

 private:
  // The number of a group: 31 bits of an FNV-1a hash of the ranks, followed by 16 bits for a tag.
  void describe() {
    std::vector<int> mine(static_cast<std::size_t>(size)), there(mine.size());
    std::iota(mine.begin(), mine.end(), 0);
    check(MPI_Group_translate_ranks(ranks, size, mine.data(), world, there.data()), "MPI_Group_translate_ranks");
    std::uint32_t hash = 2166136261U;
    for (const int r : there) hash = (hash ^ static_cast<std::uint32_t>(r)) * 16777619U;
    group = static_cast<std::int64_t>(hash >> 1) << 16;
    const auto collective = [&](const char* name) {
      trace::Traffic traffic;
      traffic.group = group;
      traffic.collective = name;
      return std::make_shared<const trace::Traffic>(traffic);
    };
    barrier = collective("barrier");
    allreduce = collective("allreduce");
    exscan = collective("exscan");
  }
};

// The duplicate of a communicator is attached to it as an MPI attribute, so that garbage collection, which happens at
// different times on different ranks, never frees weft's communicator while the caller's exists.
struct Duplicates {
  static int keyval() {
    static const int key = [] {
      int made = MPI_KEYVAL_INVALID;
      check(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, &Duplicates::forget, &made, nullptr),
            "MPI_Comm_create_keyval");
      return made;
    }();
    return key;
  }
  static int forget(MPI_Comm, int, void* value, void*) {
    delete static_cast<std::shared_ptr<Comm::Handle>*>(value);
    return MPI_SUCCESS;
  }
  static std::shared_ptr<Comm::Handle> of(MPI_Comm comm) {
    initialize();
    if (comm == MPI_COMM_NULL) throw std::invalid_argument("the communicator is MPI_COMM_NULL: was it freed?");
    require_not_finalized();
    int between_groups = 0;
    check(MPI_Comm_test_inter(comm, &between_groups), "MPI_Comm_test_inter");
    if (between_groups != 0) {
      throw std::invalid_argument("the communicator is an inter-communicator: pass an intra-communicator");
    }
    void* value = nullptr;
    int found = 0;
    check(MPI_Comm_get_attr(comm, keyval(), &value, &found), "MPI_Comm_get_attr");
    if (found != 0) return *static_cast<std::shared_ptr<Comm::Handle>*>(value);
    auto handle = std::make_shared<Comm::Handle>(comm);
    check(MPI_Comm_set_attr(comm, keyval(), new std::shared_ptr<Comm::Handle>(handle)), "MPI_Comm_set_attr");
    return handle;
  }
};

Comm::Comm() : Comm((initialize(), MPI_COMM_WORLD)) {}
Comm::Comm(MPI_Comm comm) : handle_(Duplicates::of(comm)) {}
Comm Comm::self() {
  initialize();
  return Comm(MPI_COMM_SELF);
}

int Comm::rank() const { return handle_->rank; }
int Comm::size() const { return handle_->size; }
MPI_Comm Comm::get() const { return handle_->comm; }

namespace {

// 0 if not set.
int pretended_ranks_per_node() {
  const char* text = std::getenv("WEFT_RANKS_PER_NODE");
  if (text == nullptr || *text == '\0') return 0;
  const char* end = text + std::strlen(text);
  int value = 0;
  const auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc() || stop != end || value < 1) {
    throw std::invalid_argument("WEFT_RANKS_PER_NODE is '" + std::string(text) +
                                "', but must be a number of ranks, at least 1");
  }
  return value;
}

}  // namespace

const std::vector<int>& Comm::node() const {
  std::vector<int>& ranks = handle_->node;
  if (!ranks.empty()) return ranks;
  int pretended = 0;
  const char* text = std::getenv("WEFT_RANKS_PER_NODE");
  require_same(*this, "WEFT_RANKS_PER_NODE", text == nullptr ? "" : text,
               [&] { pretended = pretended_ranks_per_node(); });
  MPI_Comm node = MPI_COMM_NULL;
  check(MPI_Comm_split_type(get(), MPI_COMM_TYPE_SHARED, rank(), MPI_INFO_NULL, &node), "MPI_Comm_split_type");
  int count = 0, place = 0;
  MPI_Comm_size(node, &count);
  MPI_Comm_rank(node, &place);
  std::vector<int> all(static_cast<std::size_t>(count));
  const int mine = rank();
  check(MPI_Allgather(&mine, 1, MPI_INT, all.data(), 1, MPI_INT, node), "MPI_Allgather");
  MPI_Comm_free(&node);
  if (pretended > 0) {
    const int first = place / pretended * pretended;
    all.erase(all.begin() + std::min(first + pretended, count), all.end());
    all.erase(all.begin(), all.begin() + first);
  }
  return ranks = std::move(all);
}

void Comm::barrier() const {
  const trace::Span span("barrier", trace::Category::mpi, 0, &handle_->barrier);
  check(MPI_Barrier(get()), "MPI_Barrier");
}

namespace {
template <class T>
void allreduce(T* values, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
               const std::shared_ptr<const trace::Traffic>& traffic) {
  const trace::Span span("allreduce", trace::Category::mpi, static_cast<std::int64_t>(sizeof(T)) * count, &traffic);
  check(MPI_Allreduce(MPI_IN_PLACE, values, count, type, op, comm), "MPI_Allreduce");
}
}  // namespace

void Comm::sum(double* values, int count) const {
  allreduce(values, count, MPI_DOUBLE, MPI_SUM, get(), handle_->allreduce);
}
void Comm::sum(std::int64_t* values, int count) const {
  allreduce(values, count, MPI_INT64_T, MPI_SUM, get(), handle_->allreduce);
}
double Comm::max(double value) const {
  allreduce(&value, 1, MPI_DOUBLE, MPI_MAX, get(), handle_->allreduce);
  return value;
}
std::int64_t Comm::max(std::int64_t value) const {
  allreduce(&value, 1, MPI_INT64_T, MPI_MAX, get(), handle_->allreduce);
  return value;
}
std::int64_t Comm::min(std::int64_t value) const {
  allreduce(&value, 1, MPI_INT64_T, MPI_MIN, get(), handle_->allreduce);
  return value;
}

std::int64_t Comm::exclusive_scan(std::int64_t value) const {
  const trace::Span span("exscan", trace::Category::mpi, sizeof value, &handle_->exscan);
  std::int64_t below = 0;  // MPI leaves this undefined on rank 0
  check(MPI_Exscan(&value, &below, 1, MPI_INT64_T, MPI_SUM, get()), "MPI_Exscan");
  return rank() == 0 ? 0 : below;
}

std::int64_t Comm::group(int tag) const { return handle_->group + tag; }
const std::shared_ptr<const trace::Traffic>& Comm::barrier_traffic() const { return handle_->barrier; }
int Comm::world_rank(int rank) const { return handle_->world_rank(rank); }

int Comm::fresh_tag() const {
  handle_->next_tag = handle_->next_tag % 32767 + 1;  // the standard promises tags up to 32 767
  return handle_->next_tag;
}

void Comm::together(const std::function<void()>& work) const { mpi::together(*this, work, {}); }

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  throw std::runtime_error(std::string(call) + " failed: " + error_text(code));
}

std::string library_version() {
  // 8192: the largest length that an MPI library other than that of mpi.h may write.
  std::array<char, std::max(MPI_MAX_LIBRARY_VERSION_STRING, 8192)> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  // "MPICH Version:      5.0.2\n..." and "Open MPI v5.0.11, package: ..."
  std::istringstream words(std::string(text.data(), static_cast<std::size_t>(length)));
  std::string line, word, version;
  std::getline(words, line);
  line = line.substr(0, line.find(','));
  for (std::istringstream parts(line); parts >> word;) {
    if (word == "Version:") continue;
    if (word.size() > 1 && word[0] == 'v' && word[1] >= '0' && word[1] <= '9') word.erase(0, 1);
    version += (version.empty() ? "" : " ") + word;
  }
  return version;
}

}  // namespace weft::mpi
