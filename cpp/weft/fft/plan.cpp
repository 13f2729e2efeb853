#include "weft/fft/plan.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "weft/device/graph.hpp"
#include "weft/fft/gpu_library.hpp"
#include "weft/fft/gpu_stages.hpp"
#include "weft/fft/host_stages.hpp"
#include "weft/fft/node_field.hpp"
#include "weft/fft/transpose.hpp"
#include "weft/fft/work_fields.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::fft {
namespace {

mpi::Comm split(const mpi::Comm& comm, int color, int key) {
  MPI_Comm part = MPI_COMM_NULL;
  mpi::check(MPI_Comm_split(comm.get(), color, key, &part), "MPI_Comm_split");
  mpi::Comm own(part);
  mpi::check(MPI_Comm_free(&part), "MPI_Comm_free");
  return own;
}

template <class T>
Held held_by(const RoundTrip<T>& trip, int spectral) {
  const auto size = [](const auto& list) { return static_cast<int>(list.size()); };
  return {std::max({trip.backward, trip.forward, spectral, size(trip.from), size(trip.to)}),
          std::max({trip.backward + size(trip.physical_from), trip.forward, size(trip.physical_to)})};
}

}  // namespace

std::string name(const Way& way) {
  const char* const methods[] = {"panels", "planes", "3-D plan"};
  const std::string text = methods[static_cast<int>(way.method)] + std::string(", ") + host_library(way.library).name;
  return way.along_x == way.library ? text : text + ", x by " + host_library(way.along_x).name;
}

template <class T>
struct Plan<T>::State {
  using Fields = std::vector<Pieces<Complex>>;

  State(const Options& options_in, std::shared_ptr<device::Device> device_in, const mpi::Comm& comm_in)
      : options(options_in),
        device(std::move(device_in)),
        comm(comm_in),
        decomposition(options.sizes, options.modes_x, options.grid, comm.rank()) {
    options.modes_x = decomposition.modes_x();
    const auto points = static_cast<double>(options.sizes.points());
    if (options.norm == Norm::forward) scale_forward = static_cast<T>(1 / points);
    if (options.norm == Norm::backward) scale_backward = static_cast<T>(1 / points);
    if (options.norm == Norm::ortho) scale_forward = scale_backward = static_cast<T>(1 / std::sqrt(points));
  }

  void require_idle() const {
    if (busy) throw std::logic_error("the plan is in use: a pointwise function cannot run the plan that calls it");
  }

  // If all ranks are able to, an exchange by path ipc reads bricks in place, in memory that both exchanges share.
  // (collective)
  void share_slots() {
    const auto all = [&](const Transpose<T>& exchange) {
      const std::int64_t can = exchange.on_one_node(comm.node()) ? 1 : 0;
      return comm.min(can) == 1;
    };
    const bool of_row = all(*row_exchange), of_column = all(*column_exchange);
    if (!of_row && !of_column) return;
    std::vector<exchange::Part> parts;
    for (const int rank : comm.node()) {
      if (rank != comm.rank()) parts.push_back({rank, 0, 1, 0, 1});
    }
    const std::int64_t values = options.batch * decomposition.field_values();
    slots = std::make_unique<exchange::Ipc>(device, comm, comm.fresh_tag(), std::move(parts),
                                            static_cast<std::size_t>(values) * sizeof(Complex));
    if (of_row) row_exchange->use(*slots);
    if (of_column) column_exchange->use(*slots);
  }

  // Allocates, on all ranks or on none, what runs with that many variables need, and exchanges of up to `most`.
  // (collective)
  void prepare(const Held& held, int most, device::Stream& stream) {
    if (prepared.contains({held, most})) return;
    comm.together([&] {
      stream.synchronize();  // memory may be replaced by a larger one: wait for its users
      stages->prepare(held);
      if (most == 0) return;
      if (!row_exchange->trivial()) row_exchange->reserve(most);
      column_exchange->reserve(most);
    });
    prepared.insert({held, most});
  }

  // The recorded first half of a round trip that is run repeatedly.
  struct Recorded {
    std::optional<device::Graph> graph;
    std::int64_t generation = -1;  // of the stages at the last run
  };
  // Runs `half`, or replays it. Recording starts at the second run, when everything it needs has been allocated.
  template <class Half>
  void replay(Recorded& known, const Half& half, device::Stream& stream) {
    if (known.generation != stages->generation()) {
      known.graph.reset();
      half();
      known.generation = stages->generation();
      return;
    }
    if (!known.graph) known.graph.emplace(stream, half);
    known.graph->replay(stream);
  }

  Options options;
  std::shared_ptr<device::Device> device;
  mpi::Comm comm, row, column;
  Decomposition decomposition;
  std::shared_ptr<ExchangeBuffers<T>> buffers;
  bool own_buffers = true;
  std::unique_ptr<exchange::Ipc> slots;
  std::unique_ptr<Transpose<T>> row_exchange, column_exchange;
  std::unique_ptr<NodeField<T>> node_field;
  std::unique_ptr<WorkFields<T>> own_work;
  std::unique_ptr<Stages<T>> stages;
  std::set<std::pair<Held, int>> prepared;  // the same on all ranks
  std::map<int, Recorded> recorded;         // by RoundTrip::recording
  T scale_forward = 1, scale_backward = 1;
  Ways ways;
  bool busy = false;
};

namespace {

// The parts of a run: up to the function in physical space, and from it on.
enum class Half { first, second, both };

// One run of a plan, or half of it. Variables pass from stage to stage in groups: directly through the exchange if one
// message holds all of them, otherwise through the work fields, `batch` at a time.
template <class T>
class Run {
 public:
  using Complex = std::complex<T>;
  using Fields = std::vector<Pieces<Complex>>;

  struct Parts {
    const Decomposition& decomposition;
    int batch;
    Transpose<T>&row, &column;
    Stages<T>& stages;
    T scale_forward, scale_backward;
  };

  // shared: `work`, if all ranks have mapped it.
  Run(const Parts& parts, const RoundTrip<T>& trip, const std::vector<Complex*>& work, WorkFields<T>* shared,
      device::Stream& stream, Half half)
      : p_(parts),
        trip_(trip),
        stream_(stream),
        half_(half),
        work_(work),
        shared_(shared),
        spectral_(trip.spectral == 0 ? trip.forward : trip.spectral),
        plain_((trip.backward == 0 || trip.forward == 0) && !trip.before_y && !trip.physical && !trip.after_z &&
               !trip.after_y && trip.kept.empty()) {}

  void operator()() {
    if (trip_.backward == 0) {
      physical({});
      return;
    }
    const bool together = trip_.before_y && !trip_.before_y_each;
    through(
        p_.column, Toward::middle, trip_.backward, together, false,
        [&](int first, int count, Fields to) { backward_y(first, count, std::move(to)); },
        [&](int first, int count, Fields from) {
          if (p_.row.trivial()) {
            arrived_backward(first, count, from, p_.decomposition.middle());
            return;
          }
          through(
              p_.row, Toward::end, count, false, false,
              [&](int f, int n, Fields to) {
                lines(2, Kind::backward, first + f, slice(from, f, n), nullptr, n, nullptr, std::move(to),
                      p_.scale_backward, 1);
              },
              [&](int f, int n, Fields bricks) {
                arrived_backward(first + f, n, bricks, p_.decomposition.x_pencil());
              });
        });
  }

 private:
  // Whether the current stage belongs to the half that this run executes.
  bool does() const { return half_ == Half::both || (half_ == Half::first) == !past_physical_; }

  static Fields slice(const Fields& fields, int first, int count) {
    return {fields.begin() + first, fields.begin() + first + count};
  }
  Fields work(int first, int count, const Box& box) const {
    Fields fields;
    for (int v = first; v < first + count; ++v) fields.push_back({whole(work_[static_cast<std::size_t>(v)], box)});
    return fields;
  }
  static Fields fields_of(const std::vector<Complex*>& data, const Box& box) {
    Fields fields;
    for (Complex* field : data) fields.push_back({whole(field, box)});
    return fields;
  }

  // Passes variables from one stage through an exchange to the next. A stage that needs all variables together
  // (`produce_all`, `consume_all`) gets them at once, other stages `batch` at a time.
  template <class Produce, class Consume>
  void through(Transpose<T>& exchange, Toward toward, int variables, bool produce_all, bool consume_all,
               const Produce& produce, const Consume& consume) {
    const Box from = exchange.box(toward == Toward::middle ? Toward::end : Toward::middle), to = exchange.box(toward);
    if (shared_ != nullptr) {
      const auto in_middle = [&] {
        Fields fields;
        for (int v = 0; v < variables; ++v) fields.push_back(shared_->planes_of_all(v));
        return fields;
      };
      produce(0, variables, toward == Toward::middle ? work(0, variables, from) : in_middle());
      shared_->meet(toward, variables, stream_);
      consume(0, variables, toward == Toward::middle ? in_middle() : work(0, variables, to));
      return;
    }
    if (variables <= p_.batch) {
      produce(0, variables, exchange.outgoing(toward, variables, stream_));
      exchange.carry(toward, variables, stream_);
      consume(0, variables, exchange.incoming(toward, variables));
      exchange.drained(toward, variables, stream_);
      return;
    }
    if (exchange.trivial()) {
      produce(0, variables, work(0, variables, from));
      consume(0, variables, work(0, variables, to));
      return;
    }
    if (produce_all) produce(0, variables, work(0, variables, from));
    for (int first = 0; first < variables; first += p_.batch) {
      const int count = std::min(p_.batch, variables - first);
      if (produce_all) {
        copy("pack", work(first, count, from), exchange.outgoing(toward, count, stream_));
      } else {
        produce(first, count, exchange.outgoing(toward, count, stream_));
      }
      exchange.carry(toward, count, stream_);
      if (consume_all) {
        copy("unpack", exchange.incoming(toward, count), work(first, count, to));
      } else {
        consume(first, count, exchange.incoming(toward, count));
      }
      exchange.drained(toward, count, stream_);
    }
    if (consume_all) consume(0, variables, work(0, variables, to));
  }

  void copy(const char* what, const Fields& from, const Fields& to) {
    if (does()) p_.stages.copy(what, from, to, stream_);
  }

  void lines(std::size_t direction, Kind kind, int first, Fields from, const Pointwise<Complex>* before, int transforms,
             const Pointwise<Complex>* after, Fields to, T scale_from, T scale_to) {
    LinesPass<T> pass{.direction = direction,
                      .kind = kind,
                      .box = direction == 1 ? p_.decomposition.spectral() : p_.decomposition.middle(),
                      .first_variable = first,
                      .from = std::move(from),
                      .before = before,
                      .transforms = transforms,
                      .after = after,
                      .to = std::move(to),
                      .scale_from = scale_from,
                      .scale_to = scale_to,
                      .kept = trip_.kept,
                      .concurrent = trip_.concurrent,
                      .plain = plain_};
    if (does()) p_.stages.lines(pass, stream_);
  }

  void backward_y(int first, int count, Fields to) {
    Fields from;
    const bool all = trip_.before_y && !trip_.before_y_each;
    const int inputs = all ? static_cast<int>(trip_.from.size()) : count;
    for (int v = 0; v < inputs; ++v) {
      auto* const field = const_cast<Complex*>(trip_.from[static_cast<std::size_t>(first + v)]);
      from.push_back({whole(field, p_.decomposition.spectral())});
    }
    lines(1, Kind::backward, first, std::move(from), &trip_.before_y, count, nullptr, std::move(to), 1, 1);
  }

  // Some variables have arrived in this rank's rows; the pass in physical space begins when all have.
  void arrived_backward(int first, int count, const Fields& bricks, const Box& box) {
    if (count == trip_.backward) {
      physical(bricks);
      return;
    }
    copy("unpack", bricks, work(first, count, box));
    if (first + count == trip_.backward) physical(work(0, trip_.backward, box));
  }

  void physical(const Fields& from) {
    const bool slabs = p_.row.trivial();
    const auto pass = [&](Fields to) {
      PhysicalPass<T> physical{.box = p_.decomposition.physical(),
                               .from = from,
                               .physical_from = trip_.physical_from,
                               .physical = &trip_.physical,
                               .physical_to = trip_.physical_to,
                               .forward = trip_.forward,
                               .to = std::move(to),
                               .with_z = slabs,
                               .kept = trip_.kept,
                               .concurrent = trip_.concurrent,
                               .plain = plain_};
      if (slabs) {
        physical.after_z = &trip_.after_z;
        physical.scale_from = p_.scale_backward;
        physical.scale_to = p_.scale_forward;
      }
      if (does()) p_.stages.physical(physical, stream_);
      past_physical_ = true;
      if (does() && trip_.after_physical) trip_.after_physical(stream_);
    };
    if (trip_.forward == 0) {
      pass({});
      return;
    }
    if (slabs) {
      forward_column(spectral_, 0, [&](int, int, Fields to) { pass(std::move(to)); }, true);
      return;
    }
    const bool together = static_cast<bool>(trip_.after_z);
    through(
        p_.row, Toward::middle, trip_.forward, true, together, [&](int, int, Fields to) { pass(std::move(to)); },
        [&](int first, int count, Fields bricks) {
          forward_column(
              together ? spectral_ : count, first,
              [&](int f, int n, Fields to) {
                const int transforms = together ? trip_.forward : n;
                lines(2, Kind::forward, first + f, together ? bricks : slice(bricks, f, n), nullptr, transforms,
                      &trip_.after_z, std::move(to), 1, p_.scale_forward);
              },
              together);
        });
  }

  // Sends `count` variables, starting with number `first`, through the column exchange to their spectral fields.
  template <class Produce>
  void forward_column(int count, int first, const Produce& produce, bool produce_all) {
    const bool together = static_cast<bool>(trip_.after_y);
    through(p_.column, Toward::end, count, produce_all, together && count == spectral_, produce,
            [&](int f, int n, const Fields& bricks) { arrived_forward(first + f, n, bricks, together); });
  }

  void arrived_forward(int first, int count, const Fields& bricks, bool together) {
    const Box box = p_.decomposition.spectral();
    if (!together || count == spectral_) {
      Fields to = fields_of(trip_.to, box);
      if (!together) to = slice(to, first, count);
      lines(1, Kind::forward, first, bricks, nullptr, count, &trip_.after_y, std::move(to), 1, 1);
      return;
    }
    copy("unpack", bricks, work(first, count, box));
    if (first + count == spectral_) arrived_forward(0, spectral_, work(0, spectral_, box), together);
  }

  const Parts& p_;
  const RoundTrip<T>& trip_;
  device::Stream& stream_;
  Half half_;
  const std::vector<Complex*>& work_;
  WorkFields<T>* shared_;
  bool past_physical_ = false;
  int spectral_;
  bool plain_;
};

}  // namespace

template <class T>
Plan<T>::Plan(const Options& options, std::shared_ptr<device::Device> device, const mpi::Comm& comm,
              std::shared_ptr<ExchangeBuffers<T>> buffers) {
  comm.together([&] {
    check_grid(options.grid, comm.size());
    if (options.batch < 1) throw std::invalid_argument("a message must hold at least one variable");
    if (device->is_host() && !host_library().problem.empty()) throw std::runtime_error(host_library().problem);
    if (!device->is_host() && !gpu_library(device->backend()).problem.empty())
      throw std::runtime_error(gpu_library(device->backend()).problem);
    state_ = std::make_unique<State>(options, std::move(device), comm);
  });
  State& s = *state_;
  const Grid& grid = s.options.grid;
  s.row = split(comm, grid.column_rank(comm.rank()), grid.row_rank(comm.rank()));
  s.column = split(comm, grid.row_rank(comm.rank()), grid.column_rank(comm.rank()));
  comm.together([&] {
    const std::int64_t values = s.options.batch * s.decomposition.field_values();
    s.own_buffers = !buffers;
    s.buffers = buffers ? std::move(buffers) : std::make_shared<ExchangeBuffers<T>>(s.device, values);
    if (s.buffers->values() < values) throw std::invalid_argument("the buffers of exchanges are too small");
    s.row_exchange = std::make_unique<Transpose<T>>(s.decomposition, Direction::row, s.options.batch, s.options.row,
                                                    s.device, s.row, *s.buffers);
    s.column_exchange = std::make_unique<Transpose<T>>(s.decomposition, Direction::column, s.options.batch,
                                                       s.options.column, s.device, s.column, *s.buffers);
    if (s.device->is_host()) {
      s.stages = std::make_unique<HostStages<T>>(s.decomposition, s.options.library);
    } else {
      s.stages = std::make_unique<GpuStages<T>>(s.decomposition, s.device);
    }
  });
  const Ways by_size = has_ways() ? s.stages->ways_by_size() : Ways{};
  use(s.options.ways && (has_ways() || comm.size() > 1) ? *s.options.ways : by_size);
}
template <class T>
Plan<T>::~Plan() = default;

template <class T>
int Plan<T>::work_fields(const RoundTrip<T>& trip) const {
  const int most = std::max({trip.backward, trip.forward, trip.spectral});
  return most > state_->options.batch ? most : 0;
}

template <class T>
void Plan<T>::run(const RoundTrip<T>& trip, device::Stream& stream) {
  State& s = *state_;
  s.require_idle();
  const int spectral = trip.spectral == 0 ? trip.forward : trip.spectral;
  const auto size = [](const auto& list) { return static_cast<int>(list.size()); };
  const auto need = [](bool condition, const std::string& text) {
    if (!condition) throw std::invalid_argument("Fourier transforms: " + text);
  };
  need(trip.backward > 0 || trip.from.empty(), "spectral fields are given, but no variable is transformed backward");
  need(trip.before_y || size(trip.from) == trip.backward, "backward transforms need as many spectral fields");
  need(!trip.before_y_each || size(trip.from) == trip.backward,
       "with before_y on single variables, the numbers of given and of transformed variables must be equal");
  need(trip.physical || std::max(trip.forward, size(trip.physical_to)) <= trip.backward + size(trip.physical_from),
       "fewer variables in physical space than are stored or transformed forward");
  need(trip.after_z || spectral == trip.forward, "the transform in z must return as many variables as it is given");
  need(trip.after_y ? size(trip.to) <= spectral : size(trip.to) == spectral,
       "forward transforms need as many spectral fields to go to");
  need(trip.kept.empty() || static_cast<std::int64_t>(trip.kept.size()) == s.options.sizes.z,
       "kept must give the number of kx for every kz");
  need(!trip.own_work || s.own_work, "the plan has no work fields of its own");
  const std::vector<Complex*>& work = trip.own_work ? s.own_work->own() : trip.work;
  const bool shared = trip.own_work && s.own_work->shared() && trip.backward > 0 && trip.forward > 0;
  const int needed = shared ? std::max(trip.backward, spectral) : work_fields(trip);
  need(size(work) >= needed,
       std::to_string(needed) + " work fields are needed, " + std::to_string(work.size()) + " given");
  s.prepare(held_by(trip, spectral), shared ? 0 : std::max({trip.backward, trip.forward, spectral}), stream);
  s.busy = true;
  try {
    const typename Run<T>::Parts parts{s.decomposition, s.options.batch, *s.row_exchange, *s.column_exchange,
                                       *s.stages,       s.scale_forward, s.scale_backward};
    const auto run = [&](Half half) { Run<T>(parts, trip, work, shared ? s.own_work.get() : nullptr, stream, half)(); };
    if (trip.recording != 0 && s.comm.size() == 1 && device::Graph::supported(*s.device) && !trace::enabled()) {
      s.replay(s.recorded[trip.recording], [&] { run(Half::first); }, stream);
      run(Half::second);
    } else {
      run(Half::both);
    }
  } catch (...) {
    s.busy = false;
    throw;
  }
  s.busy = false;
}

template <class T>
const std::vector<std::complex<T>*>& Plan<T>::own_work(int count, const exchange::Asked& column) {
  State& s = *state_;
  const bool shared = s.device->is_host() && s.comm.size() > 1 && s.row_exchange->trivial() &&
                      exchange::of_one_node(exchange::candidates(column.text, *s.device, s.comm), s.comm);
  s.own_work = std::make_unique<WorkFields<T>>(s.decomposition, s.device, s.comm, count, shared);
  return s.own_work->own();
}

template <class T>
bool Plan<T>::whole(const Way& way) const {
  state_->require_idle();
  return way.method != Method::panels;
}

template <class T>
void Plan<T>::forward(const std::vector<const T*>& physical, const std::vector<Complex*>& spectral,
                      device::Stream& stream) {
  if (physical.size() != spectral.size())
    throw std::invalid_argument("forward transforms need as many spectral fields as physical ones");
  if (const Way& way = state_->ways.forward; whole(way)) {
    for (std::size_t v = 0; v < physical.size(); ++v) {
      if (state_->node_field)
        state_->stages->node_forward(way, *state_->node_field, physical[v], spectral[v], state_->scale_forward, stream);
      else
        state_->stages->whole_forward(way, physical[v], spectral[v], state_->scale_forward, stream);
    }
    return;
  }
  const auto batch = static_cast<std::size_t>(state_->options.batch);
  for (std::size_t first = 0; first < physical.size(); first += batch) {
    const std::size_t end = std::min(first + batch, physical.size());
    RoundTrip<T> trip;
    trip.physical_from.assign(physical.begin() + first, physical.begin() + end);
    trip.to.assign(spectral.begin() + first, spectral.begin() + end);
    trip.forward = static_cast<int>(end - first);
    run(trip, stream);
  }
}

template <class T>
void Plan<T>::backward(const std::vector<const Complex*>& spectral, const std::vector<T*>& physical,
                       device::Stream& stream) {
  if (physical.size() != spectral.size())
    throw std::invalid_argument("backward transforms need as many physical fields as spectral ones");
  if (const Way& way = state_->ways.backward; whole(way)) {
    if (state_->node_field) {
      for (std::size_t v = 0; v < spectral.size(); ++v)
        state_->stages->node_backward(way, *state_->node_field, spectral[v], physical[v], state_->scale_backward,
                                      stream);
      return;
    }
    Complex* const work = state_->buffers->sent();
    for (std::size_t v = 0; v < spectral.size(); ++v)
      state_->stages->whole_backward(way, spectral[v], work, physical[v], state_->scale_backward, stream);
    return;
  }
  const auto batch = static_cast<std::size_t>(state_->options.batch);
  for (std::size_t first = 0; first < physical.size(); first += batch) {
    const std::size_t end = std::min(first + batch, physical.size());
    RoundTrip<T> trip;
    trip.from.assign(spectral.begin() + first, spectral.begin() + end);
    trip.physical_to.assign(physical.begin() + first, physical.begin() + end);
    trip.backward = static_cast<int>(end - first);
    run(trip, stream);
  }
}

template <class T>
void Plan<T>::backward_overwriting(const std::vector<Complex*>& spectral, const std::vector<T*>& physical,
                                   device::Stream& stream) {
  if (const Way& way = state_->ways.overwriting;
      !state_->node_field && whole(way) && spectral.size() == physical.size()) {
    for (std::size_t v = 0; v < spectral.size(); ++v)
      state_->stages->whole_backward(way, spectral[v], spectral[v], physical[v], state_->scale_backward, stream);
    return;
  }
  backward({spectral.begin(), spectral.end()}, physical, stream);
}

template <class T>
const Ways& Plan<T>::ways() const {
  return state_->ways;
}
template <class T>
void Plan<T>::use(const Ways& ways) {
  State& s = *state_;
  s.require_idle();
  const std::array all{ways.forward, ways.backward, ways.overwriting};
  const auto planes = [](const Way& way) { return way.method == Method::planes; };
  s.comm.together([&] {
    s.stages->prepare_whole(ways);
    if (s.comm.size() > 1 && std::ranges::find(all, Method::plan_3d, &Way::method) != all.end())
      throw std::invalid_argument("3-D plans transform the field of one rank: take planes or panels on several");
  });
  if (s.comm.size() > 1 && std::ranges::any_of(all, planes) && !s.node_field)
    s.node_field = std::make_unique<NodeField<T>>(s.decomposition, s.device, s.comm);
  // If all transforms go by planes, only round trips exchange bricks.
  if (!std::ranges::all_of(all, planes) && !s.slots && s.prepared.empty()) s.share_slots();
  s.ways = ways;
}
template <class T>
bool Plan<T>::has_ways() const {
  return state_->comm.size() == 1 && state_->decomposition.keeps_all_modes();
}
template <class T>
std::int64_t Plan<T>::field_values() const {
  return state_->decomposition.field_values();
}
template <class T>
const Options& Plan<T>::options() const {
  return state_->options;
}
template <class T>
const Decomposition& Plan<T>::decomposition() const {
  return state_->decomposition;
}
template <class T>
const std::shared_ptr<device::Device>& Plan<T>::device() const {
  return state_->device;
}
template <class T>
const mpi::Comm& Plan<T>::comm() const {
  return state_->comm;
}
template <class T>
const mpi::Comm& Plan<T>::row() const {
  return state_->row;
}
template <class T>
const mpi::Comm& Plan<T>::column() const {
  return state_->column;
}
template <class T>
const exchange::Choice& Plan<T>::row_choice() const {
  return state_->row_exchange->choice();
}
template <class T>
const exchange::Choice& Plan<T>::column_choice() const {
  return state_->column_exchange->choice();
}
template <class T>
std::int64_t Plan<T>::row_message_bytes(int variables) const {
  return state_->row_exchange->largest_message(variables);
}
template <class T>
std::int64_t Plan<T>::column_message_bytes(int variables) const {
  return state_->column_exchange->largest_message(variables);
}
template <class T>
std::map<std::string, std::int64_t> Plan<T>::memory_bytes() const {
  const State& s = *state_;
  std::map<std::string, std::int64_t> bytes{
      {"exchange buffers", (s.slots ? static_cast<std::int64_t>(s.slots->bytes()) : 0) +
                               (s.node_field ? s.node_field->bytes() : 0) + (s.own_buffers ? s.buffers->bytes() : 0) +
                               s.row_exchange->own_bytes() + s.column_exchange->own_bytes()},
      {"panels", s.stages->memory_bytes()}};
  if (s.own_work) bytes["work"] = s.own_work->bytes();
  return bytes;
}

template class Plan<float>;
template class Plan<double>;

}  // namespace weft::fft
