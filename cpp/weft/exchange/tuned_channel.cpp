#include "weft/exchange/tuned_channel.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <optional>
#include <stdexcept>
#include <utility>

#include "weft/exchange/equal_exchanges.hpp"
#include "weft/exchange/tuning_cache.hpp"
#include "weft/mpi/agreement.hpp"
#include "weft/mpi/crowd.hpp"
#include "weft/mpi/same.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::exchange {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// The data sent from one rank to another in a trial: bytes that are finite numbers in any type, and vary with the
// position.
char content(int from, int to, std::size_t at) {
  return static_cast<char>((static_cast<std::size_t>(31 * from + 17 * to) + 7 * at + at / 251) & 0x3f);
}

// If ranks share processors, the time of a transfer depends on how they wait for each other, and so on the work done
// meanwhile. A pass over a vector is the least work that any solver does.
constexpr std::size_t most_work_bytes = 2 << 20;

// Runs transfers of a candidate's channel between vectors owned by the trial.
class Trials {
 public:
  Trials(const std::shared_ptr<device::Device>& device, const mpi::Comm& comm, const std::vector<Part>& parts, Use use,
         std::size_t work_bytes)
      : comm_(comm), stream_(device), use_(use) {
    std::size_t send = 0, receive = 0;
    for (const Part& part : parts) {
      send = std::max(send, part.send_offset + part.send_bytes);
      receive = std::max(receive, part.receive_offset + part.receive_bytes);
    }
    std::vector<char> sent(send);
    expected_.resize(receive);
    for (const Part& part : parts) {
      for (std::size_t i = 0; i < part.send_bytes; ++i) {
        sent[part.send_offset + i] = content(comm.rank(), part.rank, i);
      }
      for (std::size_t i = 0; i < part.receive_bytes; ++i) {
        expected_[part.receive_offset + i] = content(part.rank, comm.rank(), i);
      }
    }
    comm.together([&] {
      from_ = device::Array<char>(device, sent);
      to_ = device::Array<char>(device, receive);
      worked_on_.resize(work_bytes / sizeof(double));
    });
  }

  // Runs the first transfer of a channel and returns this rank's time for it. Throws if the data that arrive differ
  // from those sent. Call it on all ranks.
  double prove(Channel& channel) {
    std::exception_ptr unprepared;
    try {
      to_.zero();
      if (use_ == Use::halo) copy(channel.send(stream_), from_.data(), from_.bytes());
      stream_.synchronize();
    } catch (const std::exception&) {
      unprepared = std::current_exception();
    }
    const auto begin = Clock::now();
    transfer(channel);  // even after an error, because the others wait for it
    if (unprepared) std::rethrow_exception(unprepared);
    stream_.synchronize();
    const double seconds = seconds_since(begin);
    if (use_ == Use::gather) copy(to_.data(), channel.receive(), to_.bytes());
    stream_.synchronize();
    if (to_.download() != expected_) throw std::runtime_error("the received values differ from those sent");
    return seconds;
  }

  Repetition repetition(Channel& channel, int transfers) {
    const auto begin = Clock::now();
    comm_.barrier();
    const auto together = Clock::now();
    for (int t = 0; t < transfers; ++t) transfer(channel);
    stream_.synchronize();
    return {.seconds = seconds_since(together), .wall_seconds = seconds_since(begin)};
  }

 private:
  void copy(void* to, const void* from, std::size_t bytes) {
    if (bytes == 0) return;
    stream_.device().copy(to, from, bytes, device::CopyKind::device_to_device, stream_);
  }
  // The same steps as in Exchange.
  void transfer(Channel& channel) {
    if (use_ == Use::halo) {
      channel.send(stream_);
      channel.start(stream_);
      work();
      channel.finish(to_.data(), stream_);
    } else {
      channel.start(from_.data(), stream_);
      work();
      channel.finish(stream_);
      channel.drained(stream_);
    }
  }

  void work() {
    for (double& value : worked_on_) value = 0.5 * value + 1;
  }

  const mpi::Comm& comm_;
  device::Stream stream_;
  Use use_;
  std::vector<double> worked_on_;
  device::Array<char> from_, to_;
  std::vector<char> expected_;
};

class Tuner {
 public:
  Tuner(const std::shared_ptr<device::Device>& device, const mpi::Comm& comm, const std::vector<Part>& parts,
        const Carried& carried)
      : device_(device), comm_(comm), parts_(parts), carried_(carried) {}

  std::unique_ptr<Channel> make(const Choice& choice) const {
    return std::make_unique<Channel>(device_, comm_, choice, comm_.fresh_tag(), parts_, carried_.what);
  }

  TunedChannel best_of(const std::vector<Choice>& candidates, std::size_t work_bytes, bool crowded) const {
    const trace::Span span("tune exchange", trace::Category::cpu);
    const auto begin = Clock::now();
    Trials trials(device_, comm_, parts_, carried_.use, work_bytes);
    std::vector<std::unique_ptr<Channel>> channels(candidates.size());
    std::vector<std::string> failures(candidates.size());
    for (std::size_t c = 0; c < candidates.size(); ++c) {
      try {
        channels[c] = make(candidates[c]);
      } catch (const mpi::CollectiveError& error) {
        failures[c] = error.what();
      }
    }
    std::vector<std::function<void()>> proofs;
    std::vector<std::int64_t> least(candidates.size());  // first transfers in ns, negative: those of the slowest rank
    for (std::size_t c = 0; c < candidates.size(); ++c) {
      proofs.push_back([&, c] {
        if (channels[c]) least[c] = -static_cast<std::int64_t>(1e9 * trials.prove(*channels[c]));
      });
    }
    const std::vector<std::string> errors = mpi::attempt(comm_, proofs, least);
    std::vector<std::size_t> usable;
    std::vector<Choice> running;
    std::vector<double> first;
    for (std::size_t c = 0; c < candidates.size(); ++c) {
      if (channels[c]) failures[c] = errors[c];
      if (!failures[c].empty()) continue;
      usable.push_back(c);
      running.push_back(candidates[c]);
      first.push_back(-1e-9 * static_cast<double>(least[c]));
    }
    if (usable.empty()) throw mpi::CollectiveError(std::string(carried_.what) + ": " + failures.front());
    Tuning tuning = tune(
        running, [&](std::size_t c, int transfers) { return trials.repetition(*channels[usable[c]], transfers); },
        [&](std::span<double> seconds) { slowest(seconds); }, limits(crowded), first);
    for (std::size_t c = 0; c < candidates.size(); ++c) {
      if (tuning.timings.size() <= c || name(tuning.timings[c].choice) != name(candidates[c])) {
        tuning.timings.insert(tuning.timings.begin() + static_cast<std::ptrdiff_t>(c),
                              {.choice = candidates[c], .failure = failures[c]});
      }
    }
    tuning.seconds = comm_.max(seconds_since(begin));
    const auto winner = std::ranges::find(candidates, name(tuning.chosen), [](const Choice& c) { return name(c); });
    auto channel = std::move(channels[static_cast<std::size_t>(winner - candidates.begin())]);
    return {.channel = std::move(channel), .tuning = std::move(tuning)};
  }

 private:
  // If ranks share processors, they leave one barrier and reach the next several time slices apart. Only the mean of
  // many transfers then tells how long one takes.
  static TuningLimits limits(bool crowded) {
    TuningLimits found;
    if (crowded) {
      found.repetition_seconds = 5e-3;
      found.least_transfers = 16;
      found.most_transfers = 256;
      found.seconds_in_all = 0.5;
      found.few = 2;  // each is the mean of many transfers
      found.hopeless = 3;
      found.fastest_decides = false;
    }
    return found;
  }
  void slowest(std::span<double> seconds) const {
    mpi::check(
        MPI_Allreduce(MPI_IN_PLACE, seconds.data(), static_cast<int>(seconds.size()), MPI_DOUBLE, MPI_MAX, comm_.get()),
        "MPI_Allreduce");
  }

  const std::shared_ptr<device::Device>& device_;
  const mpi::Comm& comm_;
  const std::vector<Part>& parts_;
  const Carried& carried_;
};

}  // namespace

TunedChannel tuned_channel(const Asked& asked, const std::shared_ptr<device::Device>& device, const mpi::Comm& comm,
                           const std::vector<Part>& parts, const Carried& carried) {
  const std::int64_t alone = parts.empty() ? 1 : 0;
  std::int64_t least[] = {alone, mpi::crowded(comm) ? 0 : 1};
  // Otherwise the two ends of a message could disagree on its length, or ranks could wait in different collectives.
  mpi::require_same(
      comm, carried.what,
      std::to_string(carried.fields) + " field(s) of " + carried.type + (asked.cache ? ", cached" : "") +
          (asked.choice ? ", by " + asked.text : ""),
      [] {}, least);
  const bool all_alone = least[0] == 1, crowded = least[1] == 0;
  std::vector<std::int64_t> message_bytes;
  for (const Part& part : parts) message_bytes.push_back(static_cast<std::int64_t>(part.send_bytes));
  const std::vector<Choice> candidates =
      asked.choice ? std::vector{*asked.choice} : exchange::candidates(asked.text, *device, comm, message_bytes);
  const Tuner tuner(device, comm, parts, carried);
  TunedChannel tuned;
  if (candidates.size() == 1 || all_alone) {
    tuned.tuning.chosen = candidates.front();
    if (candidates.size() > 1) tuned.tuning.chosen.reason = "no rank has neighbours";
    tuned.channel = tuner.make(candidates.front());
  } else {
    const std::size_t work_bytes = crowded ? std::min(carried.worked_on_bytes, most_work_bytes) : 0;
    const std::string use = carried.use == Use::halo ? "halo" : "gather";
    const std::uint64_t kind = kind_of_exchange(comm, *device, parts, candidates, use, work_bytes, crowded);
    std::optional<TuningKey> key;
    std::optional<Tuning> known;
    if (asked.cache) {
      key = tuning_key(comm, *device, parts, candidates, use, carried.type, carried.fields);
      known = read_tuning(*key, candidates, comm);
    }
    const bool on_disk = known.has_value();
    if (const Tuning* earlier = known_tuning(comm, kind); earlier != nullptr && !on_disk) {
      known = *earlier;
      known->reused = true;
    }
    if (known) {
      tuned.channel = tuner.make(known->chosen);
      tuned.tuning = std::move(*known);
    } else {
      tuned = tuner.best_of(candidates, work_bytes, crowded);
    }
    keep_tuning(comm, kind, tuned.tuning);
    if (key && !on_disk) write_tuning(*key, tuned.tuning, comm);
  }
  tuned.trivial = collective(tuned.tuning.chosen.schedule) ? all_alone : alone == 1;
  return tuned;
}

}  // namespace weft::exchange
