#include "weft/exchange/tuning_cache.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <sstream>
#include <utility>

#include "weft/device/disk_cache.hpp"
#include "weft/exchange/digest.hpp"

namespace weft::exchange {
namespace {

const device::DiskCache& cache() {
  static const device::DiskCache kept("tuning", 1);
  return kept;
}

std::uint64_t pattern_digest(const std::vector<Part>& parts, const mpi::Comm& comm) {
  Digest digest;
  digest.add(static_cast<std::uint64_t>(comm.rank()));
  for (const Part& part : parts) {
    digest.add(static_cast<std::uint64_t>(part.rank));
    for (const std::size_t number : {part.send_offset, part.send_bytes, part.receive_offset, part.receive_bytes}) {
      digest.add(number);
    }
  }
  return digest.of_all(comm);
}

std::uint64_t machine_digest(const device::Device& device, const mpi::Comm& comm) {
  Digest digest;
  digest.add(static_cast<std::uint64_t>(comm.rank()));
  char node[256] = {};
  gethostname(node, sizeof node - 1);
  digest.add(std::string(node));
  for (const int rank : comm.node()) digest.add(static_cast<std::uint64_t>(rank));
  cpu_set_t processors;
  CPU_ZERO(&processors);
  digest.add(sched_getaffinity(0, sizeof processors, &processors) == 0 ? CPU_COUNT(&processors) : 0U);
  const auto host = device::open("host");
  for (const device::Info* info : {&host->info(), &device.info()}) {
    digest.add(device::name(info->backend) + info->name + info->architecture);
    digest.add(static_cast<std::uint64_t>(info->ordinal));
  }
  return digest.of_all(comm);
}

// Reads one word and accepts only a complete number.
template <class T>
bool read_number(std::istream& words, T& value) {
  std::string word;
  if (!(words >> word)) return false;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc{} && end == word.data() + word.size();
}

}  // namespace

std::string TuningKey::text() const {
  std::ostringstream text;
  text << "weft " << weft << "\nmpi " << mpi << "\nuse " << use << "\ntype " << type << "\nranks " << ranks
       << "\nfields " << fields << "\npattern " << std::hex << pattern << "\nmachine " << machine << "\n";
  for (const std::string& candidate : candidates) text << "candidate " << candidate << "\n";
  return text.str();
}

TuningKey tuning_key(const mpi::Comm& comm, const device::Device& device, const std::vector<Part>& parts,
                     const std::vector<Choice>& candidates, const std::string& use, const std::string& type,
                     int fields) {
  TuningKey key{.weft = WEFT_VERSION,
                .mpi = mpi::library_version(),
                .use = use,
                .type = type,
                .ranks = comm.size(),
                .fields = fields,
                .pattern = pattern_digest(parts, comm),
                .machine = machine_digest(device, comm),
                .candidates = {}};
  for (const Choice& candidate : candidates) key.candidates.push_back(name(candidate));
  return key;
}

std::string to_text(const Tuning& tuning) {
  std::ostringstream text;
  text.precision(17);
  text << "chosen " << name(tuning.chosen) << "\nreason " << tuning.chosen.reason << "\nseconds " << tuning.seconds
       << "\n";
  for (const Timing& t : tuning.timings) {
    text << "timing " << name(t.choice) << " " << t.median_seconds << " " << t.repetitions << " "
         << (t.stopped_early ? 1 : 0) << " " << t.failure << "\n";
  }
  text << "end\n";
  return text.str();
}

std::optional<Tuning> tuning_from(const std::string& text, const std::vector<Choice>& candidates) {
  Tuning tuning;
  tuning.cached = true;
  const auto named = [&](const std::string& wanted) -> const Choice* {
    for (const Choice& candidate : candidates) {
      if (name(candidate) == wanted) return &candidate;
    }
    return nullptr;
  };
  std::istringstream lines(text);
  std::string chosen, line;
  bool ended = false;
  while (std::getline(lines, line)) {
    if (ended) return std::nullopt;
    std::istringstream words(line);
    std::string what;
    words >> what;
    if (what == "chosen") {
      words >> chosen;
    } else if (what == "reason") {
      std::getline(words >> std::ws, tuning.chosen.reason);
    } else if (what == "seconds") {
      if (!read_number(words, tuning.seconds)) return std::nullopt;
    } else if (what == "timing") {
      std::string candidate;
      words >> candidate;
      const std::size_t place = tuning.timings.size();
      Timing timing;
      int stopped = 0;
      if (place >= candidates.size() || name(candidates[place]) != candidate ||
          !read_number(words, timing.median_seconds) || !read_number(words, timing.repetitions) ||
          !read_number(words, stopped)) {
        return std::nullopt;
      }
      std::getline(words >> std::ws, timing.failure);
      timing.choice = candidates[place];
      timing.stopped_early = stopped != 0;
      tuning.timings.push_back(std::move(timing));
    } else if (what == "end") {
      ended = true;
    } else {
      return std::nullopt;
    }
  }
  const Choice* known = named(chosen);
  if (!ended || known == nullptr || tuning.timings.size() != candidates.size()) return std::nullopt;
  const auto timing = std::ranges::find(tuning.timings, chosen, [](const Timing& t) { return name(t.choice); });
  if (!timing->failure.empty()) return std::nullopt;
  std::string reason = std::move(tuning.chosen.reason);
  tuning.chosen = *known;
  tuning.chosen.reason = std::move(reason);
  return tuning;
}

std::optional<Tuning> read_tuning(const TuningKey& key, const std::vector<Choice>& candidates, const mpi::Comm& comm) {
  std::string text;
  std::int64_t length = -1;
  if (comm.rank() == 0) {
    const auto found = cache().read(key.text());
    const bool whole = found.value && tuning_from(*found.value, candidates);
    if (whole) {
      text = *found.value;
      length = static_cast<std::int64_t>(text.size());
    } else if (found.damaged || found.value) {
      std::fprintf(stderr, "weft: the exchange's timings in %s are damaged; timing again\n",
                   cache().path(key.text()).c_str());
    }
  }
  mpi::check(MPI_Bcast(&length, 1, MPI_INT64_T, 0, comm.get()), "MPI_Bcast");
  if (length < 0) return std::nullopt;
  text.resize(static_cast<std::size_t>(length));
  mpi::check(MPI_Bcast(text.data(), static_cast<int>(length), MPI_CHAR, 0, comm.get()), "MPI_Bcast");
  return tuning_from(text, candidates);
}

void write_tuning(const TuningKey& key, const Tuning& tuning, const mpi::Comm& comm) {
  if (comm.rank() == 0) cache().write(key.text(), to_text(tuning));
}

}  // namespace weft::exchange
