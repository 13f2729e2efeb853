#include "weft/flow/solver.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>
#include <stdexcept>

#include "weft/device/vector.hpp"
#include "weft/solver/inner_products.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::flow {
namespace {

constexpr int max_halvings = 20;

std::string text_of(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

template <class T>
void check(const Options<T>& options) {
  if (options.time_order < 1 || options.time_order > max_time_order)
    throw std::invalid_argument("flow: time_order must be 1, 2 or 3, not " + std::to_string(options.time_order));
  if (options.first_step_halvings < 0 || options.first_step_halvings > max_halvings)
    throw std::invalid_argument("flow: first_step_halvings must be 0 to " + std::to_string(max_halvings) + ", not " +
                                std::to_string(options.first_step_halvings));
  if (!(options.viscosity > 0 && std::isfinite(options.viscosity)))
    throw std::invalid_argument("flow: the viscosity must be positive, not " + text_of(options.viscosity));
  std::set<std::string> names;
  for (const ScalarOptions<T>& scalar : options.scalars) {
    if (!(scalar.diffusivity > 0 && std::isfinite(scalar.diffusivity)))
      throw std::invalid_argument("flow: the diffusivity of scalar \"" + scalar.name + "\" must be positive, not " +
                                  text_of(scalar.diffusivity));
    if (!names.insert(scalar.name).second)
      throw std::invalid_argument("flow: two scalars have the name \"" + scalar.name + "\"");
  }
  for (const Buoyancy& buoyancy : options.buoyancy) {
    if (names.contains(buoyancy.scalar)) continue;
    std::string known;
    for (const ScalarOptions<T>& scalar : options.scalars) known += (known.empty() ? "" : ", ") + scalar.name;
    throw std::invalid_argument("flow: buoyancy refers to the scalar '" + buoyancy.scalar +
                                "', which is not defined; defined: " + (known.empty() ? "none" : known));
  }
  for (const double tolerance : {options.pressure_tolerance, options.velocity_tolerance, options.scalar_tolerance})
    if (!(tolerance > 0 && std::isfinite(tolerance)))
      throw std::invalid_argument("flow: tolerances must be positive, not " + text_of(tolerance));
  if (options.flow_rate) {
    const auto& d = options.flow_rate->direction;
    if (!(std::abs(std::hypot(d[0], d[1], d[2]) - 1) < 1e-9))
      throw std::invalid_argument("flow: the direction of flow_rate must be a vector of length 1");
    if (!std::isfinite(options.flow_rate->mean))
      throw std::invalid_argument("flow: the mean velocity of flow_rate is not a number");
  }
}

}  // namespace

std::string name(Convection convection) {
  return convection == Convection::over_integrated ? "overintegrated" : "skew-symmetric";
}

template <class T>
struct Solver<T>::Impl {
  Impl(const mesh::Mesh& mesh, const poisson::Options& given_space, const Options<T>& given)
      : options(checked(mesh, given)),
        space(mesh, natural(given_space)),
        stiffness(space, natural(given_space)),
        device(*space.device()),
        scratch(space.device(), 6 * space.entries()),
        terms(space),
        boundaries(space, options.boundaries),
        pressure(stiffness, boundaries.outflow(), boundaries.pressure_mask(), options.pressure, scratch.data()),
        velocity("velocity", stiffness, 3, boundaries.velocity_mask(), scratch.data()),
        state(space.device(), space.entries(), static_cast<int>(std::ssize(options.scalars)), options.time_order),
        stream(space.device()),
        work(scratch.data()),
        right_hand_side(scratch.data() + 3 * space.entries()),
        products(space.device(), space.comm(), space.unknowns(), nullptr, state.components() + 1) {
    for (const ScalarOptions<T>& scalar : options.scalars) {
      scalar_boundaries.push_back(std::make_unique<ScalarBoundaries<T>>(space, scalar.name, scalar.boundaries));
      scalars.push_back(
          std::make_unique<Helmholtz<T>>(scalar.name, stiffness, 1, scalar_boundaries.back()->mask(), scratch.data()));
    }
    scratch.zero();
    const auto source = [](const ScalarOptions<T>& scalar) { return static_cast<bool>(scalar.source); };
    if (options.force || std::ranges::any_of(options.scalars, source))
      places = device::Array<T>(space.device(), space.coordinates());
    if (options.filter.strength > 0) filter.emplace(space, options.filter);
    if (options.flow_rate) {
      response = device::Array<T>(space.device(), static_cast<std::size_t>(3 * space.entries()));
      response_pressure = device::Array<T>(space.device(), static_cast<std::size_t>(space.entries()));
    }
    const auto kernel = [&](const char* name) { return device.kernel<T>("flow", name); };
    extrapolate = kernel("flow_extrapolate");
    subtract = kernel("flow_subtract");
    force = kernel("flow_force");
    buoyancy = kernel("flow_buoyancy");
    constant = kernel("flow_constant");
    uniform_force = kernel("flow_uniform_force");
    axpy = kernel("flow_axpy");
  }

  static Options<T> checked(const mesh::Mesh& mesh, const Options<T>& options) {
    mesh.comm.together([&] { check(options); });
    return options;
  }

  // All fields share one function space without boundary conditions, which are applied as masks on its vectors.
  static poisson::Options natural(poisson::Options options) {
    options.lambda = 0;
    options.dirichlet = {};
    return options;
  }

  // N = (v, (u . grad) u - f) for a level, and likewise for the scalars.
  void make_explicit_terms(int level, double time) {
    const trace::Span span("convection", trace::Category::cpu);
    T* out = state.explicit_terms(level);
    if (options.convection == Convection::over_integrated)
      terms.convect(state.velocity(level), state.fields(level), state.components(), out, stream);
    else
      terms.convect_skew(state.velocity(level), state.fields(level), state.components(), out, stream);
    if (options.force) add_force(options.force, 3, time, out);
    for (const Buoyancy& b : options.buoyancy) {
      const auto is_its = [&](const ScalarOptions<T>& scalar) { return scalar.name == b.scalar; };
      const auto k = static_cast<int>(std::ranges::find_if(options.scalars, is_its) - options.scalars.begin());
      buoyancy(stream, blocks(), device::vector_shape, owned(), stride(), b.vector[0], b.vector[1], b.vector[2],
               b.reference, space.mass(), state.scalar(k, level), out);
    }
    for (int k = 0; k < state.scalars; ++k)
      if (options.scalars[k].source) add_force(options.scalars[k].source, 1, time, out + (3 + k) * stride());
  }
  void add_force(const Function<T>& function, int components, double time, T* out) {
    const trace::Span span("forcing", trace::Category::cpu);
    function(places.data(), stride(), owned(), time, work, stream);
    force(stream, blocks(), device::vector_shape, owned(), stride(), components, space.mass(), work, out);
  }

  void step(double dt) {
    if (!(dt > 0 && std::isfinite(dt)))
      throw std::invalid_argument("flow: the time step must be positive, not " + std::to_string(dt));
    const trace::Span span("step", trace::Category::cpu);
    const double end = state.time + dt;
    if (state.known == 1 && options.time_order > 1) {
      advance(std::ldexp(dt, -options.first_step_halvings));
      for (int part = options.first_step_halvings; part > 0; --part) advance(std::ldexp(dt, -part));
    } else {
      advance(dt);
    }
    state.time = end;
    ++state.step;
    if (averages_every > 0 && state.step % averages_every == 0) averages->add(state, stream);
  }

  void advance(double dt) {
    const int order = options.time_order;
    const std::array<double, max_time_order> steps{dt, state.dt[0], state.dt[1]};
    const TimeScheme scheme = time_scheme(std::span(steps).first(std::min(order, state.known)));
    const double time = state.time + dt;
    T *f = state.explicit_terms(order - 1), *u = state.fields(order - 1);
    make_explicit_terms(0, state.time);
    advance_explicitly(scheme, f, u);
    boundaries.prescribe(time, u, stream);
    for (int k = 0; k < state.scalars; ++k) scalar_boundaries[k]->prescribe(time, u + (3 + k) * stride(), stream);
    try {
      solve_pressure(scheme, u);
      solve_velocity(scheme, f, u);
      solve_scalars(scheme, time, f, u);
      keep_flow_rate(scheme, u);
    } catch (const mpi::CollectiveError& error) {
      name_what_is_not_finite(u);
      throw mpi::CollectiveError("flow: step " + std::to_string(state.step + 1) + ", at time " + text_of(state.time) +
                                 ": " + error.what());
    }
    if (filter) apply_filter(u);
    state.turn_fields();
    state.turn_explicit_terms();
    std::shift_right(state.dt.begin(), state.dt.end(), 1);
    state.time = time;
    state.dt[0] = dt;
    state.known = std::min(order, state.known + 1);
  }

  void advance_explicitly(const TimeScheme& s, T* f, T* u) {
    const trace::Span span("convection", trace::Category::cpu);
    const auto older = [&](int level, T* data) { return level + 1 < options.time_order ? data : nullptr; };
    const int middle = std::min(1, options.time_order - 1);
    const T *n0 = older(0, state.explicit_terms(0)), *n1 = older(1, state.explicit_terms(middle)),
            *u0 = older(0, state.fields(0)), *u1 = older(1, state.fields(middle));
    extrapolate(stream, blocks(), device::vector_shape, owned(), stride(), state.components(), options.time_order,
                s.a[0], s.a[1], s.a[2], s.b[0], s.b[1], s.b[2], space.mass(), space.inverse_mass(), n0, n1, f, u0, u1,
                u, work);
  }

  void solve_pressure(const TimeScheme& s, T* u) {
    const trace::Span span("pressure", trace::Category::cpu);
    T* rhs = right_hand_side;
    terms.weak_divergence(work, rhs, stream);
    boundaries.add_flux(-s.gamma, u, rhs, stream);
    boundaries.add_wall_vorticity(options.viscosity, u, rhs, stream);
    figures.pressure = pressure.solve(rhs, state.pressure(), options.pressure_tolerance, stream);
  }

  void solve_velocity(const TimeScheme& s, T* f, T* u) {
    const trace::Span span("velocity", trace::Category::cpu);
    terms.gradient(state.pressure(), work, stream);
    subtract(stream, blocks(), device::vector_shape, owned(), stride(), 3, work, f);
    boundaries.add_backflow(u, f, stream);
    velocity.set(options.viscosity, s.gamma, stream);
    figures.velocity = velocity.solve(f, u, options.velocity_tolerance, stream);
  }

  void solve_scalars(const TimeScheme& s, double time, T* f, T* u) {
    if (state.scalars == 0) return;
    const trace::Span span("scalars", trace::Category::cpu);
    figures.scalars.clear();
    for (int k = 0; k < state.scalars; ++k) {
      T *rhs = f + (3 + k) * stride(), *x = u + (3 + k) * stride();
      scalar_boundaries[k]->add_fluxes(time, rhs, stream);
      scalars[k]->set(options.scalars[k].diffusivity, s.gamma, stream);
      figures.scalars.push_back(scalars[k]->solve(rhs, x, options.scalar_tolerance, stream).front());
    }
  }

  // A step responds linearly to a uniform force. So the response to a unit force is computed once for each gamma, and
  // the multiple of it that restores the mean velocity is added.
  void keep_flow_rate(const TimeScheme& s, T* u) {
    if (!options.flow_rate) return;
    const trace::Span span("flow rate", trace::Category::cpu);
    if (s.gamma != response_gamma) find_response(s);
    figures.forcing = (options.flow_rate->mean - mean_along(u)) / response_mean;
    axpy(stream, blocks(), device::vector_shape, owned(), stride(), 3, figures.forcing, response.data(), u);
    axpy(stream, blocks(), device::vector_shape, owned(), stride(), 1, figures.forcing, response_pressure.data(),
         state.pressure());
  }
  void find_response(const TimeScheme& s) {
    const auto [dx, dy, dz] = options.flow_rate->direction;
    constant(stream, blocks(), device::vector_shape, owned(), stride(), dx, dy, dz, work);
    terms.weak_divergence(work, right_hand_side, stream);
    device.fill_zero(response_pressure.data(), response_pressure.bytes(), stream);
    device.fill_zero(response.data(), response.bytes(), stream);
    pressure.solve(right_hand_side, response_pressure.data(), options.pressure_tolerance, stream);
    T* f = state.explicit_terms(options.time_order - 1);  // borrowed: the next step recomputes it
    terms.gradient(response_pressure.data(), f, stream);
    uniform_force(stream, blocks(), device::vector_shape, owned(), stride(), dx, dy, dz, space.mass(), f);
    velocity.set(options.viscosity, s.gamma, stream);
    velocity.solve(f, response.data(), options.velocity_tolerance, stream);
    response_gamma = s.gamma;
    response_mean = mean_along(response.data());
    // For comparison: without pressure and walls, the response would be direction / gamma.
    if (!(response_mean * s.gamma > 1e-6))
      throw mpi::CollectiveError(
          "flow: a uniform force along the direction of flow_rate moves nothing: it needs a mesh that is periodic "
          "along it");
  }
  double mean_along(const T* u) {
    const auto& d = options.flow_rate->direction;
    const T* b = space.mass();
    const std::array<std::pair<const T*, const T*>, 3> pairs{{{b, u}, {b, u + stride()}, {b, u + 2 * stride()}}};
    const std::vector<double> sums = products(pairs, stream);
    return (d[0] * sums[0] + d[1] * sums[1] + d[2] * sums[2]) / space.volume();
  }

  void apply_filter(T* u) {
    filter->apply(3, boundaries.velocity_mask(), u, work, stream);
    for (int k = 0; k < state.scalars; ++k)
      filter->apply(1, scalar_boundaries[k]->mask(), u + (3 + k) * stride(), work, stream);
  }

  // Throws BlownUp if a solve failed because a field is not finite. `u`: the new fields, as far as they have been
  // computed.
  void name_what_is_not_finite(const T* u) {
    const auto look = [&](const T* x, int fields, const std::string& name) {
      for (int c = 0; c < fields; ++c)
        if (!std::isfinite(products.norm(x + c * stride(), stream)))
          throw BlownUp(
              "flow: " + name + " is no longer finite in step " + std::to_string(state.step + 1) + ", at time " +
                  text_of(state.time) +
                  "; use a smaller time step, a finer mesh or a filter, and check the boundary and forcing values",
              state.step + 1, name);
    };
    look(state.velocity(), 3, "the velocity");
    for (int k = 0; k < state.scalars; ++k) look(state.scalar(k), 1, "the scalar " + options.scalars[k].name);
    look(u, 3, "the velocity");
    for (int k = 0; k < state.scalars; ++k) look(u + (3 + k) * stride(), 1, "the scalar " + options.scalars[k].name);
    // The extrapolated values are finite, so the error arose in the explicit terms of this step.
    look(work, 3, "the acceleration (convection and forces)");
    look(state.pressure(), 1, "the pressure");
  }

  // After a flow has blown up, the pressure and the levels that are no longer known would spoil a new start: schemes of
  // lower order multiply these levels by 0.
  void remove_what_is_not_finite() {
    const auto look = [&](T* x, int fields) {
      for (int c = 0; c < fields; ++c)
        if (!std::isfinite(products.norm(x + c * stride(), stream)))
          device.fill_zero(x + c * stride(), stride() * sizeof(T), stream);
    };
    look(state.pressure(), 1);
    for (int level = state.known; level < options.time_order; ++level) {
      look(state.fields(level), state.components());
      look(state.explicit_terms(level), state.components());
    }
  }

  std::int64_t owned() const { return space.unknowns(); }
  std::int64_t stride() const { return space.entries(); }
  std::int64_t blocks() const { return device::vector_blocks(space.unknowns()); }

  Options<T> options;
  space::Space<T> space;
  poisson::Operator<T> stiffness;
  device::Device& device;
  // [6][entries], for use within a call; solves overwrite it. Within a step it holds work [3][entries] (accelerations,
  // forces and pressure gradients) and the right-hand side of the pressure, which the pressure solve does not overwrite
  // before it has read it.
  device::Array<T> scratch;
  Terms<T> terms;
  Boundaries<T> boundaries;
  std::vector<std::unique_ptr<ScalarBoundaries<T>>> scalar_boundaries;
  Pressure<T> pressure;
  Helmholtz<T> velocity;
  std::vector<std::unique_ptr<Helmholtz<T>>> scalars;
  std::optional<Filter<T>> filter;
  State<T> state;
  device::Stream stream;
  T *const work, *const right_hand_side;
  device::Array<T> places;                       // [3][entries], if functions of position are evaluated in each step
  device::Array<T> response, response_pressure;  // to a uniform force, if the flow rate is fixed
  double response_gamma = 0, response_mean = 0;
  solver::InnerProducts<T> products;
  StepFigures figures;
  std::optional<Averages<T>> averages;
  int averages_every = 0;  // 0: no samples
  device::Kernel<long, long, int, int, T, T, T, T, T, T, const T*, const T*, const T*, const T*, T*, const T*, const T*,
                 T*, T*>
      extrapolate;
  device::Kernel<long, long, int, const T*, T*> subtract;
  device::Kernel<long, long, int, const T*, const T*, T*> force;
  device::Kernel<long, long, T, T, T, T, const T*, const T*, T*> buoyancy;
  device::Kernel<long, long, T, T, T, T*> constant;
  device::Kernel<long, long, T, T, T, const T*, T*> uniform_force;
  device::Kernel<long, long, int, T, const T*, T*> axpy;
};

template <class T>
Solver<T>::Solver(const mesh::Mesh& mesh, const poisson::Options& space_options, const Options<T>& options)
    : impl_(std::make_unique<Impl>(mesh, space_options, options)) {}

template <class T>
Solver<T>::~Solver() = default;

template <class T>
void Solver<T>::step(double dt) {
  impl_->step(dt);
}

template <class T>
void Solver<T>::start(std::span<const double> times, std::int64_t step) {
  State<T>& state = impl_->state;
  if (times.empty() || std::ssize(times) > state.order)
    throw std::invalid_argument("flow: times are given for " + std::to_string(times.size()) + " of " +
                                std::to_string(state.order) + " levels");
  for (std::size_t level = 1; level < times.size(); ++level) {
    state.dt[level - 1] = times[level - 1] - times[level];
    if (!(state.dt[level - 1] > 0)) throw std::invalid_argument("flow: the times of the levels must decrease");
  }
  state.time = times.front();
  state.known = static_cast<int>(std::ssize(times));
  state.step = step;
  impl_->remove_what_is_not_finite();
  for (std::size_t level = 1; level < times.size(); ++level)
    impl_->make_explicit_terms(static_cast<int>(level), times[level]);
  impl_->stream.synchronize();
}

template <class T>
void Solver<T>::average(int every) {
  const bool go_on = impl_->averages && !averaging();
  impl_->averages_every = std::max(1, every);
  if (!go_on) hold_averages().begin(impl_->state.time);
}
template <class T>
bool Solver<T>::averaging() const {
  return impl_->averages_every > 0;
}
template <class T>
Averages<T>* Solver<T>::averages() {
  return impl_->averages ? &*impl_->averages : nullptr;
}
template <class T>
Averages<T>& Solver<T>::hold_averages() {
  if (!impl_->averages) impl_->averages.emplace(impl_->space.device(), impl_->space.entries(), impl_->state.scalars);
  return *impl_->averages;
}

template <class T>
void Solver<T>::forget() {
  impl_->pressure.reset();
  impl_->response_gamma = 0;
}

template <class T>
space::Space<T>& Solver<T>::space() {
  return impl_->space;
}
template <class T>
State<T>& Solver<T>::state() {
  return impl_->state;
}
template <class T>
Terms<T>& Solver<T>::terms() {
  return impl_->terms;
}
template <class T>
const poisson::Operator<T>& Solver<T>::stiffness() const {
  return impl_->stiffness;
}
template <class T>
Pressure<T>& Solver<T>::pressure() {
  return impl_->pressure;
}
template <class T>
const Boundaries<T>& Solver<T>::boundaries() const {
  return impl_->boundaries;
}
template <class T>
void Solver<T>::prescribe(T* u) {
  impl_->boundaries.prescribe(impl_->state.time, u, impl_->stream);
}
template <class T>
const Options<T>& Solver<T>::options() const {
  return impl_->options;
}
template <class T>
const StepFigures& Solver<T>::figures() const {
  return impl_->figures;
}
template <class T>
device::Stream& Solver<T>::stream() {
  return impl_->stream;
}

template <class T>
std::vector<std::pair<std::string, exchange::Tuning>> Solver<T>::tunings() const {
  auto all = impl_->space.tunings();
  for (auto& [use, tuning] : impl_->pressure.tunings()) all.emplace_back("pressure " + use, std::move(tuning));
  return all;
}

template <class T>
std::map<std::string, std::int64_t> Solver<T>::memory_bytes() const {
  const Impl& own = *impl_;
  auto bytes = own.stiffness.memory_bytes();
  bytes["work of a step and its solves"] = static_cast<std::int64_t>(own.scratch.bytes());
  for (const auto& [name, value] : own.terms.memory_bytes()) bytes["terms: " + name] = value;
  for (const auto& [name, value] : own.pressure.memory_bytes()) bytes[name] = value;
  bytes["fields, pressure and explicit terms of all levels"] = own.state.bytes();
  bytes["velocity solver"] = own.velocity.memory_bytes();
  for (std::size_t k = 0; k < own.scalars.size(); ++k)
    bytes["solver of scalar " + own.options.scalars[k].name] = own.scalars[k]->memory_bytes();
  std::int64_t boundaries = own.boundaries.bytes();
  for (const auto& scalar : own.scalar_boundaries) boundaries += scalar->bytes();
  bytes["boundary conditions"] = boundaries;
  if (own.places.size() > 0) bytes["coordinates"] = static_cast<std::int64_t>(own.places.bytes());
  if (own.averages) bytes["time averages"] = own.averages->bytes();
  if (own.filter) bytes["filter"] = own.filter->bytes();
  if (own.options.flow_rate)
    bytes["response to a uniform force"] =
        static_cast<std::int64_t>(own.response.bytes() + own.response_pressure.bytes());
  return bytes;
}

template class Solver<float>;
template class Solver<double>;

}  // namespace weft::flow
