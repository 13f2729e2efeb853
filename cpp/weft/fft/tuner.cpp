#include "weft/fft/tuner.hpp"

#include <omp.h>

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <limits>
#include <list>
#include <map>
#include <numbers>
#include <set>
#include <span>
#include <stdexcept>
#include <utility>

#include "weft/exchange/tuner.hpp"
#include "weft/fft/kept_choice.hpp"
#include "weft/fft/library.hpp"
#include "weft/fft/transpose.hpp"
#include "weft/mpi/crowd.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::fft {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

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

template <class T>
std::unique_ptr<Plan<T>> made(const Wanted& wanted, const Setting& setting,
                              const std::shared_ptr<device::Device>& device, const mpi::Comm& comm,
                              std::shared_ptr<ExchangeBuffers<T>> buffers = nullptr) {
  Options options = wanted.options;
  options.grid = setting.grid;
  options.batch = setting.batch;
  options.row = exchange::Asked(setting.row);
  options.column = exchange::Asked(setting.column);
  options.library = std::max(0, setting.library);
  options.ways = setting.ways;
  return std::make_unique<Plan<T>>(options, device, comm, std::move(buffers));
}

// The property in which the candidates of a race differ, as text.
std::string name_in_race(const std::string& what, const Setting& setting) {
  if (what == "library") return host_library(setting.library).name;
  if (what.starts_with("forward")) return name(setting.ways->forward);
  if (what.starts_with("backward")) return name(setting.ways->backward);
  if (what.starts_with("overwriting")) return name(setting.ways->overwriting);
  if (what == "node") return setting.ways ? name(setting.ways->forward) : "panels";
  return name(setting);
}

// What a race times: both directions, or a single one.
enum class Timed { both, forward, backward, overwriting };

// Where a candidate's share of a race is shorter than a few transforms, the first run of each counts, and only those
// whose first run takes at most this many times as long as the fastest are run once more.
constexpr double close_seconds = 1.15;
// A first run is repeated if it spends more than this share of its time on making plans.
constexpr double most_planning = 0.05;

// How often a race is run at most if its times are disturbed.
constexpr int most_races = 3;

std::string in_words(const KeptChoice& choice) {
  if (!choice.disturbed()) return "";
  char text[64];
  std::snprintf(text, sizeof text, " (disturbed: the median is %.2f times the least)", choice.spread);
  return text;
}

// Fields above this size are transformed by panels only: one call takes seconds, and the fields of the races would take
// gigabytes.
constexpr std::int64_t largest_whole_bytes = std::int64_t{1} << 30;

// Times transforms of `variables` fields, forward and backward, for plans with any settings.
template <class T>
class Trials {
 public:
  using Complex = std::complex<T>;

  Trials(const Wanted& wanted, const std::shared_ptr<device::Device>& device, const mpi::Comm& comm,
         const std::vector<Grid>& grids)
      : wanted_(wanted), device_(device), comm_(comm), stream_(device) {
    std::int64_t field = 0;
    for (const Grid& grid : grids) {
      const Decomposition own(wanted.options.sizes, wanted.options.modes_x, grid, comm.rank());
      points_ = std::max(points_, own.physical().size());
      modes_ = std::max(modes_, own.spectral().size());
      field = std::max(field, own.field_values());
    }
    comm.together([&] {
      for (int v = 0; v < wanted.variables; ++v) {
        physical_.emplace_back(device, static_cast<std::size_t>(points_));
        spectral_.emplace_back(device, static_cast<std::size_t>(2 * modes_));
        physical_.back().zero();
        spectral_.back().zero();
      }
      const int batch = wanted.any_batch ? wanted.variables : wanted.options.batch;
      buffers_ = std::make_shared<ExchangeBuffers<T>>(device, batch * field);
    });
    most_waiting_bytes_ = comm.min(static_cast<std::int64_t>(
        wanted.waiting_share * static_cast<double>(device->free_bytes()) / static_cast<double>(comm.node().size())));
  }

  // Appends the candidates, with their times, to the timings. Returns the usable ones, the fastest first, without those
  // that were run only once because they are clearly slower. Only the winner's inverse transform is checked; if it does
  // not reproduce a field, the next candidate wins. A single candidate wins without being run. CollectiveError with the
  // first failure if no candidate is usable.
  std::vector<Setting> race(const std::string& what, std::vector<Setting> candidates, PlanTuning& tuning,
                            double seconds, Timed timed = Timed::both) {
    const auto slow = [&](const Setting& setting) { return by_slow_library(setting); };
    candidates.erase(std::remove_if(candidates.begin() + 1, candidates.end(), slow), candidates.end());
    if (candidates.size() == 1) return candidates;
    std::vector<SettingTiming> rows;
    std::vector<std::size_t> usable;
    std::vector<double> firsts;
    double fastest = std::numeric_limits<double>::infinity();
    for (const Setting& candidate : candidates) {
      rows.push_back({.setting = candidate, .what = what});
      SettingTiming& row = rows.back();
      try {
        firsts.push_back(first_run(candidate, timed));
      } catch (const mpi::CollectiveError& error) {
        row.failure = error.what();
        continue;
      }
      usable.push_back(rows.size() - 1);
      fastest = std::min(fastest, firsts.back());
    }
    if (usable.empty()) throw mpi::CollectiveError(rows.front().failure);
    const auto count = static_cast<double>(candidates.size());
    const double share = seconds / count, least = 2 * close_seconds * fastest;
    exchange::TuningLimits limits{.repetitions = share < least ? 2 : 30,
                                  .seconds = std::max(share, least),
                                  .fastest_decides = !mpi::any_crowded(comm_)};
    limits.seconds_in_all = limits.seconds * count;
    const exchange::Ranking ranking = exchange::race(
        usable.size(), [&](std::size_t c, int times) { return repetition(candidates[usable[c]], times, timed); },
        [&](std::span<double> values) { slowest(values); }, limits, firsts);
    for (std::size_t c = 0; c < usable.size(); ++c) {
      SettingTiming& row = rows[usable[c]];
      row.median_seconds = ranking.entries[c].median_seconds;
      row.least_seconds = ranking.entries[c].least_seconds;
      row.repetitions = ranking.entries[c].repetitions;
      row.stopped_early = ranking.entries[c].stopped_early;
      if (what == "library" && row.repetitions == 1) slow_libraries_.insert(row.setting.library);
    }
    const std::size_t winner = usable[ranking.winner];
    std::vector<std::size_t> order = usable;
    std::ranges::stable_sort(order, {}, [&](std::size_t c) { return std::pair(c != winner, rows[c].median_seconds); });
    while (!order.empty() && !(rows[order.front()].failure = failure_of(candidates[order.front()], timed)).empty())
      order.erase(order.begin());
    if (order.empty()) throw mpi::CollectiveError(rows.front().failure);
    const SettingTiming& best = rows[order.front()];
    spread_ = best.median_seconds / best.least_seconds;
    exchange::Ranking of_usable;
    std::vector<std::string> names;
    std::vector<Setting> ordered;
    for (const std::size_t c : order) {
      const SettingTiming& row = rows[c];
      of_usable.entries.push_back({row.median_seconds, row.least_seconds, row.repetitions, row.stopped_early});
      names.push_back(name_in_race(what, row.setting));
      if (row.repetitions > 1 || ordered.empty()) ordered.push_back(row.setting);
    }
    tuning.reason += (tuning.reason.empty() ? "" : "; ") + what + ": " + of_usable.reason(names);
    std::ranges::move(rows, std::back_inserter(tuning.timings));
    return ordered;
  }
  // The median of the last winner's times relative to the smallest: a measure of disturbance.
  double spread() const { return spread_; }

 private:
  struct Waiting {
    std::string name;
    std::unique_ptr<Plan<T>> plan;
  };

  // Replaces every value by its maximum over all ranks.
  void slowest(std::span<double> values) const {
    mpi::check(
        MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_DOUBLE, MPI_MAX, comm_.get()),
        "MPI_Allreduce");
  }
  // The slowest rank's time for the first run of a candidate that allocates no buffers and makes hardly any plans.
  double first_run(const Setting& setting, Timed timed) {
    if (!device_->is_host()) repetition(setting, 1, timed);  // a GPU compiles kernels too
    for (;;) {
      const double before = planning_seconds();
      const std::int64_t bytes = buffers_->bytes();
      const double run = repetition(setting, 1, timed).seconds;
      double values[] = {run, planning_seconds() - before, static_cast<double>(buffers_->bytes() - bytes)};
      slowest(values);
      if (values[1] <= most_planning * values[0] && values[2] == 0) return values[0];
    }
  }
  // Whether whole fields are transformed without panels by a library that is clearly slower in panels.
  bool by_slow_library(const Setting& setting) const {
    const auto slow = [&](const Way& way) {
      return way.method != Method::panels && slow_libraries_.contains(way.library);
    };
    return setting.ways &&
           (slow(setting.ways->forward) || slow(setting.ways->backward) || slow(setting.ways->overwriting));
  }
  exchange::Repetition repetition(const Setting& setting, int transforms, Timed timed) {
    Plan<T>& plan = plan_of(setting);
    if (comm_.size() == 1 && device_->is_host()) return of_processor(plan, transforms, timed);
    const auto begin = Clock::now();
    comm_.barrier();
    const auto together = Clock::now();
    for (int i = 0; i < transforms; ++i) transform(plan, timed);
    stream_.synchronize();
    return {.seconds = seconds_since(together), .wall_seconds = seconds_since(begin)};
  }
  // A single rank waits for no other, so processor time is measured: it is not disturbed by other programs on the
  // machine.
  exchange::Repetition of_processor(Plan<T>& plan, int transforms, Timed timed) {
    double seconds = 0;
    for (int i = 0; i < transforms; ++i) {
      // Repeatedly overwritten coefficients would grow without bound.
      if (timed == Timed::overwriting) {
        for (auto& values : spectral_) values.zero();
      }
      const double begin = processor_seconds();
      transform(plan, timed);
      seconds += processor_seconds() - begin;
    }
    return {.seconds = seconds, .wall_seconds = seconds};
  }

  void transform(Plan<T>& plan, Timed timed) {
    std::vector<const T*> from;
    std::vector<T*> back;
    std::vector<Complex*> to;
    std::vector<const Complex*> spectral;
    for (int v = 0; v < wanted_.variables; ++v) {
      back.push_back(physical_[v].data());
      to.push_back(reinterpret_cast<Complex*>(spectral_[v].data()));
    }
    from.assign(back.begin(), back.end());
    spectral.assign(to.begin(), to.end());
    if (timed == Timed::both || timed == Timed::forward) plan.forward(from, to, stream_);
    if (timed == Timed::both || timed == Timed::backward) plan.backward(spectral, back, stream_);
    if (timed == Timed::overwriting) plan.backward_overwriting(to, back, stream_);
  }

  // What is wrong if a candidate's inverse transform does not reproduce a field; else empty. The same on all ranks.
  std::string failure_of(const Setting& setting, Timed timed) {
    const Timed back = timed == Timed::overwriting ? Timed::overwriting : Timed::backward;
    const auto [known, fresh] = failures_.try_emplace({name(setting), back});
    if (!fresh) return known->second;
    try {
      Plan<T>& plan = plan_of(setting);
      each_plane(plan.decomposition(), [&](const std::vector<T>& plane, std::size_t first) {
        for (auto& values : physical_)
          device_->copy_now(values.data() + first, plane.data(), plane.size() * sizeof(T),
                            device::CopyKind::host_to_device);
      });
      transform(plan, Timed::forward);
      transform(plan, back);
      stream_.synchronize();
      T worst = 0;
      each_plane(plan.decomposition(),
                 [&, found = std::vector<T>()](const std::vector<T>& plane, std::size_t first) mutable {
                   found.resize(plane.size());
                   for (auto& values : physical_) {
                     device_->copy_now(found.data(), values.data() + first, plane.size() * sizeof(T),
                                       device::CopyKind::device_to_host);
                     for (std::size_t i = 0; i < plane.size(); ++i) {
                       const T error = std::abs(found[i] - plane[i]);
                       if (!(error <= worst)) worst = error;  // also if it is not a number
                     }
                   }
                 });
      comm_.together([&] {
        if (!(worst <= 1000 * std::numeric_limits<T>::epsilon()))
          throw std::runtime_error("the inverse transform does not reproduce a field: it differs by " +
                                   std::to_string(worst));
      });
    } catch (const mpi::CollectiveError& error) {
      known->second = error.what();
    }
    return known->second;
  }
  // Calls use(plane, first) for each plane of z, whose points begin with number `first`, of a field without modes that
  // a truncation could remove: cos(2 pi (y + z)) + cos(2 pi (y - 2 z)) plus a constant.
  template <class Use>
  static void each_plane(const Decomposition& own, Use use) {
    const Box box = own.physical();
    if (box.empty()) return;
    const auto angle = [](std::int64_t i, std::int64_t n) {
      return 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(n);
    };
    std::vector<T> plane(static_cast<std::size_t>(box.count[0] * box.count[1]));
    for (std::int64_t z = 0; z < box.count[2]; ++z) {
      const double b = angle(box.first[2] + z, own.sizes().z);
      auto row = plane.begin();
      for (std::int64_t y = 0; y < box.count[1]; ++y) {
        const double a = angle(box.first[1] + y, own.sizes().y);
        row = std::fill_n(row, box.count[0], static_cast<T>(0.5 + std::cos(a + b) + std::cos(a - 2 * b)));
      }
      use(plane, static_cast<std::size_t>(z) * plane.size());
    }
  }

  // Plans, the most recently used first. Settings that differ in the ways to transform whole fields take one plan. A
  // plan that was dropped is created again and run once, so that its memory is allocated: most of it in the first run,
  // so what waits is measured only when another plan is to be made.
  Plan<T>& plan_of(const Setting& setting) {
    Setting passes = setting;
    passes.ways.reset();
    const std::string named = name(passes);
    const auto found = std::ranges::find(waiting_, named, &Waiting::name);
    if (found != waiting_.end()) {
      waiting_.splice(waiting_.begin(), waiting_, found);
    } else {
      std::int64_t bytes = 0;
      const auto dropped = std::ranges::find_if(waiting_, [&](const Waiting& w) {
        for (const auto& [what, held] : w.plan->memory_bytes()) bytes += held;
        return comm_.max(bytes) > most_waiting_bytes_;
      });
      waiting_.erase(dropped, waiting_.end());
      waiting_.push_front({named, made<T>(wanted_, setting, device_, comm_, buffers_)});
      if (!made_.insert(named).second) {
        transform(*waiting_.front().plan, Timed::both);
        stream_.synchronize();
      }
    }
    Plan<T>& plan = *waiting_.front().plan;
    const Ways ways = setting.ways.value_or(comm_.size() > 1 ? Ways{} : plan.ways());
    if (plan.ways() != ways) plan.use(ways);
    return plan;
  }

  const Wanted& wanted_;
  const std::shared_ptr<device::Device>& device_;
  const mpi::Comm& comm_;
  device::Stream stream_;
  std::int64_t points_ = 0, modes_ = 0;
  std::vector<device::Array<T>> physical_, spectral_;
  std::list<Waiting> waiting_;
  std::shared_ptr<ExchangeBuffers<T>> buffers_;  // of all plans
  std::set<int> slow_libraries_;
  std::set<std::string> made_;                                     // the names of all plans made so far
  std::map<std::pair<std::string, Timed>, std::string> failures_;  // of all settings checked so far
  std::int64_t most_waiting_bytes_ = 0;
  double spread_ = 1;
};

// Settings that use the same choice for both exchanges.
std::vector<Setting> with_choices(const Setting& setting, const std::vector<exchange::Choice>& choices) {
  std::vector<Setting> all{setting};
  for (const exchange::Choice& choice : choices) {
    Setting other = setting;
    other.row = other.column = choice;
    if (name(other) != name(setting)) all.push_back(other);
  }
  return all;
}

// What a kept choice depends on.
template <class T>
std::string key_of(const Options& options, const mpi::Comm& comm) {
  const Sizes& n = options.sizes;
  const int threads = omp_get_max_threads();
  return std::to_string(8 * sizeof(T)) + " bits, " + std::to_string(n.x) + " x " + std::to_string(n.y) + " x " +
         std::to_string(n.z) + " points, modes_x " + std::to_string(options.modes_x) + ", " +
         std::to_string(comm.size()) + " ranks" +
         (threads > 1 ? " of " + std::to_string(threads) + " threads" : std::string()) + "\n";
}

// The races of one tuning. What they time is allocated by the first of them.
template <class T>
class Races {
 public:
  Races(const Wanted& wanted, const std::shared_ptr<device::Device>& device, const mpi::Comm& comm,
        const std::vector<Grid>& grids, PlanTuning& tuning)
      : wanted_(wanted), device_(device), comm_(comm), grids_(grids), tuning_(tuning) {}

  // The usable candidates, the fastest first.
  std::vector<Setting> run(const std::string& what, const std::vector<Setting>& candidates) {
    return trials().race(what, candidates, tuning_, wanted_.seconds / 4);
  }
  // Returns the candidate that an earlier run chose; otherwise runs a race and keeps its winner. A disturbed race is
  // repeated, because its result would count for all later runs.
  Setting keep(const std::string& what, const std::vector<Setting>& candidates, Timed timed) {
    if (candidates.size() == 1) return candidates.front();
    std::string key = key_of<T>(wanted_.options, comm_) + "race " + what + "\n";
    for (const Setting& candidate : candidates) key += "candidate " + name_in_race(what, candidate) + "\n";
    const auto named = [&](const std::string& known) {
      return std::ranges::find(candidates, known, [&](const Setting& s) { return name_in_race(what, s); });
    };
    if (const auto known = kept_choice(key, comm_)) {
      if (const auto found = named(known->name); found != candidates.end()) {
        tuning_.reason += (tuning_.reason.empty() ? "" : "; ") + what + ": " + name_in_race(what, *found) +
                          ", as in an earlier run" + in_words(*known);
        return *found;
      }
    }
    Setting best;
    PlanTuning of_best;
    KeptChoice choice;
    for (int races = 0; races < most_races && (races == 0 || choice.disturbed()); ++races) {
      PlanTuning raced;
      const Setting winner = trials().race(what, candidates, raced, wanted_.seconds / 8, timed).front();
      if (races > 0 && trials().spread() >= choice.spread) continue;
      choice = {name_in_race(what, winner), trials().spread()};
      best = winner;
      of_best = std::move(raced);
    }
    tuning_.reason += (tuning_.reason.empty() ? "" : "; ") + of_best.reason + in_words(choice);
    std::ranges::move(of_best.timings, std::back_inserter(tuning_.timings));
    const auto stays = named(keep_choice(key, choice, comm_).name);
    return stays != candidates.end() ? *stays : best;
  }

 private:
  Trials<T>& trials() {
    if (!trials_) trials_.emplace(wanted_, device_, comm_, grids_);
    return *trials_;
  }

  const Wanted& wanted_;
  const std::shared_ptr<device::Device>& device_;
  const mpi::Comm& comm_;
  const std::vector<Grid>& grids_;
  PlanTuning& tuning_;
  std::optional<Trials<T>> trials_;
};

// The libraries that a race tries: not FFTW by estimate if there is FFTW by measurement, which finds the same plans or
// faster ones.
std::vector<int> libraries_to_try() {
  std::vector<int> all;
  for (int library = 0; library < host_libraries(); ++library) {
    if (library + 1 == host_libraries() || !host_library(library + 1).measured) all.push_back(library);
  }
  return all;
}

// Chooses the library along x for transforms by planes in one direction; `set` stores it in a setting.
template <class Keep, class Set>
void choose_along_x(const std::string& what, Way Ways::* direction, Timed timed, const Keep& keep, const Set& set,
                    PlanTuning& tuning) {
  if (!tuning.chosen.ways || ((*tuning.chosen.ways).*direction).method != Method::planes) return;
  std::vector<Setting> candidates{tuning.chosen};
  for (const int library : libraries_to_try()) {
    candidates.push_back(tuning.chosen);
    set(*candidates.back().ways, library);
    if (name(candidates.back()) == name(tuning.chosen)) candidates.pop_back();
  }
  tuning.chosen = keep(what + " along x", candidates, timed);
}

// Chooses the ways to transform whole fields on one rank; each is found by `keep`, a race whose winner is kept for
// later runs.
template <class T, class Keep>
void choose_ways(const Wanted& wanted, const std::shared_ptr<device::Device>& device, const mpi::Comm& comm, bool kept,
                 const Keep& keep, PlanTuning& tuning) {
  const std::unique_ptr<Plan<T>> by_size = made<T>(wanted, tuning.chosen, device, comm);
  if (!by_size->has_ways()) return;
  const Ways before = by_size->ways();
  tuning.chosen.ways = before;
  const auto bytes = static_cast<std::int64_t>(sizeof(T)) * wanted.options.sizes.points();
  if (!kept || !wanted.any_way || bytes > largest_whole_bytes) return;
  const auto modes_bytes = by_size->field_values() * static_cast<std::int64_t>(sizeof(std::complex<T>));
  const auto choose = [&](const char* what, Way Ways::* direction, bool others, Timed timed) {
    std::vector<Setting> candidates{tuning.chosen};
    const auto add = [&](const Way& way) {
      Setting other = tuning.chosen;
      (*other.ways).*direction = way;
      if (name(other) != name(tuning.chosen)) candidates.push_back(other);
    };
    add({Method::panels, tuning.chosen.library});
    for (const int library : others ? libraries_to_try() : std::vector<int>()) {
      add({Method::planes, library});
      const HostLibrary& found = host_library(library);
      if (found.own || (found.measured && modes_bytes > measured_bytes)) continue;
      if (timed == Timed::forward || found.backward_3d) add({Method::plan_3d, library});
    }
    tuning.chosen = keep(what, candidates, timed);
    const auto set = [&](Ways& ways, int library) { (ways.*direction).along_x = library; };
    choose_along_x(what, direction, timed, keep, set, tuning);
  };
  choose("forward", &Ways::forward, true, Timed::forward);
  // Ways other than panels need a copy of the coefficients, and only small fields are worth the memory.
  choose("backward", &Ways::backward, before.backward.method == Method::planes, Timed::backward);
  choose("overwriting", &Ways::overwriting, true, Timed::overwriting);
}

// Compares transforms by planes in memory shared by the ranks of a node, with each library, with what was chosen
// before.
template <class Keep>
void choose_planes_of_node(const Wanted& wanted, const std::vector<Grid>& grids,
                           const std::vector<exchange::Choice>& columns, const mpi::Comm& comm, const Keep& keep,
                           PlanTuning& tuning) {
  const Grid slabs{1, comm.size()};
  const auto shared = exchange::of_one_node(columns, comm);
  if (!shared || std::ranges::find(grids, slabs) == grids.end() ||
      !keeps_all_modes(wanted.options.sizes, wanted.options.modes_x))
    return;
  std::vector<Setting> candidates{tuning.chosen};
  for (const int library : libraries_to_try()) {
    const Way way{Method::planes, library};
    candidates.push_back(tuning.chosen);
    candidates.back().grid = slabs;
    candidates.back().column = *shared;
    candidates.back().ways = Ways{way, way, way};
  }
  tuning.chosen = keep("node", candidates, Timed::both);
  choose_along_x(
      "forward", &Ways::forward, Timed::forward, keep, [](Ways& ways, int library) { ways.forward.along_x = library; },
      tuning);
  choose_along_x(
      "backward", &Ways::backward, Timed::backward, keep,
      [](Ways& ways, int library) { ways.backward.along_x = ways.overwriting.along_x = library; }, tuning);
}

// The choices that the exchanges of rows and of columns may have.
struct Choices {
  std::vector<exchange::Choice> rows, columns;
  bool alike;  // whether both exchanges were asked for in the same way
};
// (collective)
Choices choices_of(const Options& options, device::Device& device, const mpi::Comm& comm) {
  const auto of = [&](const exchange::Asked& asked) {
    return asked.choice ? std::vector{*asked.choice} : exchange::candidates(asked.text, device, comm);
  };
  const bool alike = !options.row.choice && !options.column.choice && options.row.text == options.column.text;
  return {.rows = of(options.row), .columns = of(options.column), .alike = alike};
}
exchange::Choice default_choice(const exchange::Asked& asked, device::Device& device, const mpi::Comm& comm) {
  return asked.choice ? *asked.choice : exchange::choose(asked.text, device, comm);
}

// Chooses the library of transforms by panels, for all settings.
template <class Keep>
void choose_library(std::vector<Setting>& settings, const Keep& keep) {
  std::vector<Setting> libraries;
  for (const int each : libraries_to_try()) {
    libraries.push_back(settings.front());
    libraries.back().library = each;
  }
  const int library = keep("library", libraries, Timed::both).library;
  for (Setting& setting : settings) setting.library = library;
}

// Chooses the exchanges: one choice for both if they were asked for alike, tried on the two fastest grids.
template <class T>
void choose_exchanges(const std::vector<Setting>& by_grid, const Choices& choices, Races<T>& races,
                      PlanTuning& tuning) {
  const auto& [rows, columns, alike] = choices;
  if (rows.size() <= 1 && columns.size() <= 1) return;
  if (alike) {
    std::vector<Setting> candidates;
    for (std::size_t i = 0; i < std::min<std::size_t>(2, by_grid.size()); ++i) {
      const auto more = with_choices(by_grid[i], rows);
      candidates.insert(candidates.end(), more.begin(), more.end());
    }
    tuning.chosen = races.run("exchange", candidates).front();
  }
  const auto by_itself = [&](const char* what, const std::vector<exchange::Choice>& to_try, auto member) {
    std::vector<Setting> others{tuning.chosen};
    for (const exchange::Choice& choice : to_try) {
      Setting other = tuning.chosen;
      other.*member = choice;
      if (name(other) != name(tuning.chosen)) others.push_back(other);
    }
    tuning.chosen = races.run(what, others).front();
  };
  const Grid grid = tuning.chosen.grid;
  if (grid.rows > 1 && (grid.columns > 1 || !alike)) by_itself("row exchange", rows, &Setting::row);
  if (grid.columns > 1 && !alike) by_itself("column exchange", columns, &Setting::column);
}

// Chooses how many of the variables are transformed at a time.
template <class T>
void choose_batch(int variables, Races<T>& races, PlanTuning& tuning) {
  if (variables == 1) return;
  std::vector<Setting> batches{tuning.chosen};
  for (int batch = 2; batch <= variables; ++batch) {
    // Among batches that need the same number of messages, the smallest takes the least memory.
    const auto messages = [&](int q) { return (variables + q - 1) / q; };
    if (messages(batch) == messages(batch - 1)) continue;
    batches.push_back(tuning.chosen);
    batches.back().batch = batch;
  }
  tuning.chosen = races.run("batch", batches).front();
}

}  // namespace

std::string name(const Setting& setting) {
  std::string text = name(setting.grid) + " Q=" + std::to_string(setting.batch);
  if (setting.library > 0) text += " " + host_library(setting.library).name;
  if (setting.ways)
    text += " forward " + name(setting.ways->forward) + ", backward " + name(setting.ways->backward) +
            ", overwriting " + name(setting.ways->overwriting);
  if (setting.grid.size() == 1) return text;
  const std::string row = exchange::name(setting.row), column = exchange::name(setting.column);
  if (setting.grid.columns == 1) return text + " " + row;
  if (setting.grid.rows == 1 || row == column) return text + " " + column;
  return text + " " + row + ", " + column;
}

template <class T>
TunedPlan<T> tuned_plan(const Wanted& wanted, const std::shared_ptr<device::Device>& device, const mpi::Comm& comm) {
  const trace::Span span("tune transforms", trace::Category::cpu);
  const auto begin = Clock::now();
  std::vector<Grid> grids;
  comm.together([&] {
    if (wanted.variables < 1) throw std::invalid_argument("at least one variable must be transformed");
    grids = grids_to_try(wanted, comm.size());
  });
  const Choices choices = choices_of(wanted.options, *device, comm);
  std::vector<Setting> settings;
  for (const Grid& grid : grids) {
    settings.push_back({.grid = grid,
                        .batch = wanted.any_batch ? 1 : wanted.options.batch,
                        .row = default_choice(wanted.options.row, *device, comm),
                        .column = default_choice(wanted.options.column, *device, comm),
                        .library = device->is_host() ? 0 : -1});
  }
  TunedPlan<T> tuned;
  PlanTuning& tuning = tuned.tuning;
  const bool alone = comm.size() == 1;
  const bool kept = device->is_host() && choices_are_kept(comm);
  {
    Races<T> races(wanted, device, comm, grids, tuning);
    const auto keep = [&](const std::string& what, const std::vector<Setting>& candidates, Timed timed) {
      return races.keep(what, candidates, timed);
    };
    if (kept && wanted.any_library && host_libraries() > 1) choose_library(settings, keep);
    const std::vector<Setting> by_grid = settings.size() > 1 ? races.run("grid", settings) : settings;
    tuning.chosen = by_grid.front();
    if (!alone) choose_exchanges(by_grid, choices, races, tuning);
    // A GPU alone transforms whole fields one by one, whatever Q is.
    const bool by_fields = alone && !device->is_host() && keeps_all_modes(wanted.options.sizes, wanted.options.modes_x);
    if (wanted.any_batch && !by_fields) choose_batch(wanted.variables, races, tuning);
    if (alone && device->is_host()) choose_ways<T>(wanted, device, comm, kept, keep, tuning);
    if (!alone && kept && wanted.any_way) choose_planes_of_node(wanted, grids, choices.columns, comm, keep, tuning);
  }  // created anew, the plan allocates only what its own runs need
  tuned.plan = made<T>(wanted, tuning.chosen, device, comm);
  tuning.seconds = comm.max(seconds_since(begin));
  return tuned;
}

template TunedPlan<double> tuned_plan(const Wanted&, const std::shared_ptr<device::Device>&, const mpi::Comm&);
template TunedPlan<float> tuned_plan(const Wanted&, const std::shared_ptr<device::Device>&, const mpi::Comm&);

}  // namespace weft::fft
