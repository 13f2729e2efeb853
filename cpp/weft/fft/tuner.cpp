#include "weft/fft/tuner.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <list>
#include <numeric>
#include <span>
#include <stdexcept>
#include <utility>

#include "weft/exchange/tuner.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::fft {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

bool leaves_none_empty(const Options& options, const Grid& grid) {
  const Decomposition all(options.sizes, options.modes_x, grid, 0);
  const Sizes& n = all.sizes();
  return grid.rows <= std::min(n.z, all.modes_x()) && grid.columns <= std::min(n.y, n.z);
}

std::vector<Grid> grids_to_try(const Wanted& wanted, int ranks) {
  if (!wanted.any_grid) return {wanted.options.grid};
  std::vector<Grid> all = grids_of(ranks), full;
  std::ranges::copy_if(all, std::back_inserter(full),
                       [&](const Grid& grid) { return leaves_none_empty(wanted.options, grid); });
  return full.empty() ? all : full;
}

std::string name(const GridTiming& timing) { return fft::name(timing.grid) + " Q=" + std::to_string(timing.batch); }

// Transforms of `variables` fields, forward and backward, of the candidates' plans.
template <class T>
class Trials {
 public:
  Trials(const Wanted& wanted, const std::shared_ptr<device::Device>& device, const mpi::Comm& comm,
         std::vector<GridTiming> candidates)
      : wanted_(wanted), device_(device), comm_(comm), stream_(device), candidates_(std::move(candidates)) {
    std::int64_t points = 0, modes = 0;
    for (const GridTiming& candidate : candidates_) {
      const Decomposition own(wanted.options.sizes, wanted.options.modes_x, candidate.grid, comm.rank());
      points = std::max(points, own.physical().size());
      modes = std::max(modes, own.spectral().size());
    }
    comm.together([&] {
      for (int v = 0; v < wanted.variables; ++v) {
        physical_.emplace_back(device, static_cast<std::size_t>(points));
        spectral_.emplace_back(device, static_cast<std::size_t>(2 * modes));
        physical_.back().zero();  // finite numbers: their values do not matter
        spectral_.back().zero();
      }
    });
    const auto bytes = static_cast<std::int64_t>(sizeof(T)) * wanted.variables * (points + 2 * modes);
    constexpr std::int64_t at_least_a_node = std::int64_t{1} << 30;
    most_waiting_bytes_ = comm.min(std::max(bytes, at_least_a_node / static_cast<std::int64_t>(comm.node().size())));
  }

  exchange::Repetition repetition(std::size_t candidate, int transforms) {
    Plan<T>& plan = plan_of(candidate);
    const auto begin = Clock::now();
    comm_.barrier();
    const auto together = Clock::now();
    for (int i = 0; i < transforms; ++i) transform(plan);
    stream_.synchronize();
    return {.seconds = seconds_since(together), .wall_seconds = seconds_since(begin)};
  }

  std::unique_ptr<Plan<T>> take(std::size_t candidate) {
    plan_of(candidate);
    return std::move(waiting_.front().plan);
  }
  const std::vector<GridTiming>& candidates() const { return candidates_; }

 private:
  struct Waiting {
    std::size_t candidate;
    std::unique_ptr<Plan<T>> plan;
    std::int64_t bytes;  // the largest rank's
  };

  void transform(Plan<T>& plan) {
    std::vector<const T*> from;
    std::vector<T*> back;
    std::vector<std::complex<T>*> to;
    std::vector<const std::complex<T>*> spectral;
    for (int v = 0; v < wanted_.variables; ++v) {
      back.push_back(physical_[v].data());
      to.push_back(reinterpret_cast<std::complex<T>*>(spectral_[v].data()));
    }
    from.assign(back.begin(), back.end());
    spectral.assign(to.begin(), to.end());
    plan.forward(from, to, stream_);
    plan.backward(spectral, back, stream_);
  }

  // Used last in front. One that was dropped is made anew and run once, so that its memory is there.
  Plan<T>& plan_of(std::size_t candidate) {
    const auto found = std::ranges::find(waiting_, candidate, &Waiting::candidate);
    if (found != waiting_.end()) {
      waiting_.splice(waiting_.begin(), waiting_, found);
      return *waiting_.front().plan;
    }
    const GridTiming& c = candidates_[candidate];
    Options options = wanted_.options;
    options.grid = c.grid;
    options.batch = c.batch;
    options.row = exchange::Asked(c.row);
    options.column = exchange::Asked(c.column);
    auto plan = std::make_unique<Plan<T>>(options, device_, comm_);
    std::int64_t bytes = 0;
    for (const auto& [what, held] : plan->memory_bytes()) bytes += held;
    waiting_.push_front({candidate, std::move(plan), comm_.max(bytes)});
    const auto all = [&] {
      return std::accumulate(waiting_.begin(), waiting_.end(), std::int64_t{0},
                             [](std::int64_t sum, const Waiting& w) { return sum + w.bytes; });
    };
    while (waiting_.size() > 1 && all() > most_waiting_bytes_) waiting_.pop_back();
    transform(*waiting_.front().plan);
    stream_.synchronize();
    return *waiting_.front().plan;
  }

  const Wanted& wanted_;
  const std::shared_ptr<device::Device>& device_;
  const mpi::Comm& comm_;
  device::Stream stream_;
  std::vector<GridTiming> candidates_;
  std::vector<device::Array<T>> physical_, spectral_;
  std::list<Waiting> waiting_;
  std::int64_t most_waiting_bytes_ = 0;
};

}  // namespace

template <class T>
TunedPlan<T> tuned_plan(const Wanted& wanted, const std::shared_ptr<device::Device>& device, const mpi::Comm& comm) {
  const trace::Span span("tune transforms", trace::Category::cpu);
  const auto begin = Clock::now();
  std::vector<Grid> grids;
  comm.together([&] {
    if (wanted.variables < 1) throw std::invalid_argument("at least one variable must be transformed");
    grids = grids_to_try(wanted, comm.size());
  });
  TunedPlan<T> tuned;
  std::vector<GridTiming> candidates;
  for (const Grid& grid : grids) {
    Options options = wanted.options;
    options.grid = grid;
    if (wanted.any_batch) options.batch = wanted.variables;
    tuned.plan.reset();  // its memory first
    tuned.plan = std::make_unique<Plan<T>>(options, device, comm);
    GridTiming candidate{
        .grid = grid, .batch = options.batch, .row = tuned.plan->row_choice(), .column = tuned.plan->column_choice()};
    for (int batch = wanted.any_batch ? 1 : options.batch; batch <= options.batch; ++batch) {
      // Of those that need as many messages the smallest takes the least memory.
      const auto messages = [&](int q) { return (wanted.variables + q - 1) / q; };
      if (wanted.any_batch && batch > 1 && messages(batch) == messages(batch - 1)) continue;
      candidate.batch = batch;
      candidates.push_back(candidate);
    }
  }
  const auto keep = [&](const GridTiming& c) {
    tuned.tuning.grid = c.grid;
    tuned.tuning.batch = c.batch;
    tuned.tuning.row = c.row;
    tuned.tuning.column = c.column;
  };
  if (candidates.size() == 1) {
    keep(candidates.front());
    return tuned;
  }
  tuned.plan.reset();
  Trials<T> trials(wanted, device, comm, candidates);
  const exchange::TuningLimits limits{.repetitions = 30,
                                      .seconds = wanted.seconds / static_cast<double>(candidates.size())};
  const exchange::Ranking ranking = exchange::race(
      candidates.size(), [&](std::size_t c, int transforms) { return trials.repetition(c, transforms); },
      [&](std::span<double> seconds) {
        mpi::check(MPI_Allreduce(MPI_IN_PLACE, seconds.data(), static_cast<int>(seconds.size()), MPI_DOUBLE, MPI_MAX,
                                 comm.get()),
                   "MPI_Allreduce");
      },
      limits);
  std::vector<std::string> names;
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    const auto& entry = ranking.entries[c];
    candidates[c].median_seconds = entry.median_seconds;
    candidates[c].repetitions = entry.repetitions;
    candidates[c].stopped_early = entry.stopped_early;
    names.push_back(name(candidates[c]));
  }
  keep(candidates[ranking.winner]);
  tuned.plan = trials.take(ranking.winner);
  tuned.tuning.reason = ranking.reason(names);
  tuned.tuning.timings = std::move(candidates);
  tuned.tuning.seconds = comm.max(seconds_since(begin));
  return tuned;
}

template TunedPlan<double> tuned_plan(const Wanted&, const std::shared_ptr<device::Device>&, const mpi::Comm&);
template TunedPlan<float> tuned_plan(const Wanted&, const std::shared_ptr<device::Device>&, const mpi::Comm&);

}  // namespace weft::fft
