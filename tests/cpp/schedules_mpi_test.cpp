// Every schedule by itself: random parts between random ranks, several transfers in flight, messages longer than an int
// can count. It runs on many ranks, because crystal's steps depend on their number.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <random>

#include "weft/exchange/schedule.hpp"
#include "weft/mpi/graph.hpp"

using namespace weft::exchange;
using weft::mpi::Comm;
namespace device = weft::device;

// Counts the messages that are set up: MPI's profiling interface.
namespace {
int sends_made = 0;
}
extern "C" int MPI_Send_init(const void* from, int count, MPI_Datatype type, int rank, int tag, MPI_Comm comm,
                             MPI_Request* request) {
  ++sends_made;
  return PMPI_Send_init(from, count, type, rank, tag, comm, request);
}

namespace {

// How many words each rank sends to each other rank, the same on all ranks.
class Traffic {
 public:
  Traffic(unsigned seed, int ranks) : ranks_(ranks), words_(static_cast<std::size_t>(ranks * ranks)) {
    std::mt19937 random(seed);
    const unsigned kind = seed % 6;
    for (int from = 0; from < ranks; ++from) {
      for (int to = 0; to < ranks; ++to) {
        const bool near = (from - to + ranks) % ranks <= 1 || (to - from + ranks) % ranks <= 1;
        const auto draw = random();
        bool talk = draw % 3 == 0;                           // sparse
        if (kind == 1) talk = true;                          // all ranks, to themselves too
        if (kind == 2) talk = near && from != to;            // a ring
        if (kind == 3) talk = from == 0 || to == 0;          // one rank has everything
        if (kind == 4) talk = from % 2 == 0 && to % 2 == 0;  // the others have no neighbours
        if (kind == 5) talk = from == ranks - 1 && to == 0;  // one message, one way
        if (talk) words_[index(from, to)] = 1 + random() % (draw % 7 == 0 ? 9000 : 5);
      }
    }
  }
  std::size_t words(int from, int to) const { return words_[index(from, to)]; }

 private:
  std::size_t index(int from, int to) const { return static_cast<std::size_t>(from * ranks_ + to); }
  int ranks_;
  std::vector<std::size_t> words_;
};

template <class Word>
Word value(int from, int to, std::size_t i, int round) {
  return static_cast<Word>(1 + from + 100 * to + 10000 * static_cast<int>(i) + 7 * round);
}

// A transfer of words with its buffers. Parts have gaps between them and are not in the order of ranks.
template <class Word>
class Tested {
 public:
  Tested(const Traffic& traffic, const Comm& comm, Schedule schedule, const std::shared_ptr<device::Device>& memory,
         unsigned seed)
      : comm_(comm) {
    std::vector<int> order(static_cast<std::size_t>(comm.size()));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(seed + static_cast<unsigned>(comm.rank())));
    std::size_t send = 0, receive = 0;
    for (const int rank : order) {
      const std::size_t to = traffic.words(comm.rank(), rank), from = traffic.words(rank, comm.rank());
      if (to + from == 0) continue;
      send += seed % 3, receive += seed % 2;  // gaps
      parts_.push_back({rank, send * sizeof(Word), to * sizeof(Word), receive * sizeof(Word), from * sizeof(Word)});
      send += to, receive += from;
    }
    std::sort(parts_.begin(), parts_.end(), [](const Part& a, const Part& b) { return a.rank < b.rank; });
    send_.resize(send);
    receive_.resize(receive + 1);
    transfer_ = make_transfer(schedule, {comm, comm.fresh_tag(), parts_, reinterpret_cast<std::byte*>(send_.data()),
                                         reinterpret_cast<std::byte*>(receive_.data()), memory});
  }
  void start(int round) {
    std::fill(receive_.begin(), receive_.end(), Word{-1});
    transfer_->post();
    for (const Part& part : parts_) {
      for (std::size_t i = 0; i < part.send_bytes / sizeof(Word); ++i)
        send_[part.send_offset / sizeof(Word) + i] = value<Word>(comm_.rank(), part.rank, i, round);
    }
    transfer_->start();
  }
  void finish(int round) {
    transfer_->finish();
    std::vector<Word> expected(receive_.size(), Word{-1});
    for (const Part& part : parts_) {
      for (std::size_t i = 0; i < part.receive_bytes / sizeof(Word); ++i)
        expected[part.receive_offset / sizeof(Word) + i] = value<Word>(part.rank, comm_.rank(), i, round);
    }
    EXPECT_EQ(receive_, expected);
  }

 private:
  const Comm& comm_;
  std::vector<Part> parts_;
  std::vector<Word> send_, receive_;
  std::unique_ptr<Transfer> transfer_;
};

template <class Word>
void every_part_arrives(const std::shared_ptr<device::Device>& memory, unsigned seeds) {
  const Comm comm;
  for (unsigned seed = 0; seed < seeds; ++seed) {
    const Traffic traffic(seed, comm.size());
    for (const Schedule schedule : schedules()) {
      SCOPED_TRACE(name(schedule) + ", seed " + std::to_string(seed));
      Tested<Word> tested(traffic, comm, schedule, memory, seed);
      for (int round = 0; round < 3; ++round) {
        tested.start(round);
        tested.finish(round);
      }
    }
  }
}

}  // namespace

TEST(Schedules, EveryPartArrivesAtItsPlaceRoundAfterRound) {
  every_part_arrives<std::int64_t>(device::open("host"), 12);
  every_part_arrives<std::int32_t>(device::open("host"), 6);
}

TEST(Schedules, TheGpuBranchOfCrystalsPackingMovesTheSame) {
  every_part_arrives<std::int64_t>(device::open("fiber"), 3);
  every_part_arrives<std::int32_t>(device::open("fiber"), 2);
}

TEST(Schedules, TransfersInFlightTogetherDoNotMix) {
  const Comm comm;
  const auto host = device::open("host");
  std::vector<std::unique_ptr<Tested<std::int64_t>>> all;
  for (unsigned seed = 0; seed < 3; ++seed) {
    for (const Schedule schedule : schedules())
      all.push_back(std::make_unique<Tested<std::int64_t>>(Traffic(seed, comm.size()), comm, schedule, host, seed));
  }
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), 0U);
  std::mt19937 random(1);  // the same order on all ranks
  for (int round = 0; round < 3; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t t : order) all[t]->start(round + static_cast<int>(t));
    std::int64_t one = 1;
    comm.sum(&one, 1);  // with a collective of the caller in between
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t t : order) all[t]->finish(round + static_cast<int>(t));
  }
}

TEST(Schedules, CrystalSendsAtMostOneMessageAStepOfTheLogarithmOfTheRanks) {
  const Comm comm;
  sends_made = 0;
  const Tested<std::int64_t> everybody(Traffic(1, comm.size()), comm, Schedule::crystal, device::open("host"), 1);
  EXPECT_LE(sends_made, std::bit_width(static_cast<unsigned>(comm.size() - 1)));
  EXPECT_GE(sends_made, comm.size() > 1 ? 1 : 0);
}

TEST(Schedules, ARankWhosePartsAreWrongStopsAllAndTheNextTransferWorks) {
  const Comm comm;
  const auto host = device::open("host");
  std::vector<std::int64_t> send(4), receive(4);
  const auto route = [&](std::size_t bytes) {
    return Route{comm,
                 comm.fresh_tag(),
                 {{0, 0, bytes, 0, comm.rank() == 0 ? bytes : 0}},
                 reinterpret_cast<std::byte*>(send.data()),
                 reinterpret_cast<std::byte*>(receive.data()),
                 host};
  };
  const auto only_to_itself = [&](std::size_t bytes) {
    Route r = route(bytes);
    r.parts.front().rank = comm.rank();
    r.parts.front().receive_bytes = bytes;
    return r;
  };
  const bool last = comm.rank() == comm.size() - 1;
  EXPECT_THROW(make_transfer(Schedule::crystal, only_to_itself(last ? 6 : 8)), weft::mpi::CollectiveError);
  constexpr std::size_t too_much = std::size_t{1} << 40;  // in units of 4: more than an int
  for (const Schedule schedule : {Schedule::alltoallv, Schedule::neighbor})
    EXPECT_THROW(make_transfer(schedule, only_to_itself(last ? too_much + 4 : 8)), weft::mpi::CollectiveError);
  if (comm.size() > 1) {  // rank 0 does not expect the message of the last rank
    Route wrong = only_to_itself(8);
    if (last) wrong.parts.insert(wrong.parts.begin(), {0, 8, 8, 8, 0});
    EXPECT_THROW(make_transfer(Schedule::crystal, wrong), weft::mpi::CollectiveError);
  }
  Tested<std::int64_t> works(Traffic(0, comm.size()), comm, Schedule::crystal, host, 0);
  works.start(0);
  works.finish(0);
}

TEST(Schedules, ATopologyIsMadeOnceForTheSameNeighbours) {
  const Comm comm;
  const int next = (comm.rank() + 1) % comm.size(), before = (comm.rank() + comm.size() - 1) % comm.size();
  std::vector<int> ring{std::min(next, before)};
  if (next != before) ring.push_back(std::max(next, before));
  auto first = weft::mpi::graph(comm, ring), none = weft::mpi::graph(comm, {});
  EXPECT_NE(first, none);
  EXPECT_EQ(weft::mpi::graph(comm, ring), first);
  EXPECT_EQ(weft::mpi::graph(comm, {}), none);
  // A list that is new on only one rank counts as new.
  auto other = weft::mpi::graph(comm, comm.rank() == 0 ? std::vector<int>{0} : std::vector<int>{});
  EXPECT_NE(other, none);

  // The next call frees what no rank uses any more, and keeps what some rank still uses.
  if (comm.size() == 1) return;  // then `other` is the ring
  const std::size_t before_release = weft::mpi::graph_count(comm);
  other.reset();
  if (comm.rank() > 0) none.reset();
  EXPECT_EQ(weft::mpi::graph(comm, ring), first);
  EXPECT_EQ(weft::mpi::graph_count(comm), before_release - 1);
  none.reset();
  first.reset();
  EXPECT_NE(weft::mpi::graph(comm, ring), nullptr);  // found and used again
  EXPECT_EQ(weft::mpi::graph_count(comm), before_release - 2);
}

namespace {

// An address range of `bytes` in which one MiB of memory repeats, for long messages without much memory. The last page
// has its own memory.
class LongBuffer {
 public:
  explicit LongBuffer(std::size_t bytes) : bytes_(bytes) {
    const int file = memfd_create("weft test", 0);
    if (file < 0 || ftruncate(file, window + page) != 0) throw std::runtime_error("no memory file");
    void* reserved = mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED) throw std::runtime_error("no address space");
    data_ = static_cast<std::byte*>(reserved);
    for (std::size_t at = 0; at < bytes_ - page; at += window)
      place(at, std::min<std::size_t>(window, bytes_ - at), file, 0);
    place(bytes_ - page, page, file, window);
    close(file);
  }
  ~LongBuffer() { munmap(data_, bytes_); }
  std::byte* data() const { return data_; }
  std::byte* last_page() const { return data_ + bytes_ - page; }
  static constexpr std::size_t page = 4096;

 private:
  static constexpr std::size_t window = std::size_t{1} << 20;
  void place(std::size_t at, std::size_t bytes, int file, std::size_t from) {
    if (mmap(data_ + at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, static_cast<off_t>(from)) ==
        MAP_FAILED)
      throw std::runtime_error("no mapping");
  }
  std::size_t bytes_;
  std::byte* data_;
};

}  // namespace

TEST(Schedules, MessagesAndPlacesLongerThanAnIntCanCountArriveWhole) {
  const Comm comm;
  if (comm.size() != 2) GTEST_SKIP() << "for two ranks";
  // One way 2 GiB and two pages, the last of which is beyond what an int can count; the other way one page.
  constexpr std::size_t bytes = (std::size_t{1} << 31) + 2 * LongBuffer::page;
  const LongBuffer send(bytes), receive(bytes);
  for (const Schedule schedule : schedules()) {
    SCOPED_TRACE(name(schedule));
    const bool first = comm.rank() == 0;
    const std::size_t far = bytes - LongBuffer::page;
    const Part part = first ? Part{1, 0, bytes, far, LongBuffer::page} : Part{0, far, LongBuffer::page, 0, bytes};
    auto transfer =
        make_transfer(schedule, {comm, comm.fresh_tag(), {part}, send.data(), receive.data(), device::open("host")});
    std::memset(send.data(), 1, LongBuffer::page);
    std::memset(send.last_page(), 2 + comm.rank(), LongBuffer::page);
    std::memset(receive.last_page(), 0, LongBuffer::page);
    transfer->post();
    transfer->start();
    transfer->finish();
    const std::byte* end = receive.last_page();
    EXPECT_TRUE(std::all_of(end, end + LongBuffer::page, [&](std::byte b) { return b == std::byte(3 - comm.rank()); }));
  }
}
