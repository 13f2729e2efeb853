#include "weft/turbulence/solver.hpp"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>

#include "weft/device/buffer.hpp"
#include "weft/fft/library.hpp"
#include "weft/turbulence/memory.hpp"
#include "weft/turbulence/random.hpp"
#include "weft/turbulence/real_plane.hpp"
#include "weft/turbulence/rows.hpp"
#include "weft/turbulence/tables.hpp"

namespace weft::turbulence {
namespace {

// Steps between corrections of the plane kx = 0. Rounding errors destroy its symmetry, k against -k, and the equations
// do not restore it.
constexpr std::int64_t clean_every = 32;

template <class R>
std::vector<substep<R>> substeps(Scheme scheme, double dt) {
  const auto of = [dt](double part) { return static_cast<R>(part * dt); };
  if (scheme == Scheme::rk2) return {{2, 2, 2, 2, of(0.5), of(1)}, {0, 0, 0, 0, of(0.5), 0}};
  return {{2, 2, 1, 1, of(1.0 / 6), of(0.5)},
          {0, 1, 1, 0, of(1.0 / 3), of(0.5)},
          {0, 1, 2, 1, of(1.0 / 3), of(1)},
          {0, 0, 0, 0, of(1.0 / 6), 0}};
}

}  // namespace

template <class T>
struct Solver<T>::Impl {
  using Value = complex_value<T>;

  Impl(const Options& given, const mpi::Comm& communicator)
      : options(given), comm(communicator), truncation(options.box, options.dealiasing) {
    comm.together([&] { check(options); });
    check_memory(options, comm, sizeof(T));
    const auto& n = options.box.sizes;
    fft::Wanted wanted;
    wanted.options.sizes = {n[0], n[1], n[2]};
    wanted.options.modes_x = truncation.modes_x();
    wanted.options.grid = options.grid.value_or(fft::Grid{1, comm.size()});
    wanted.options.batch = options.batch.value_or(1);
    wanted.options.row = options.row;
    wanted.options.column = options.column;
    wanted.any_grid = !options.grid && comm.size() > 1;
    wanted.any_batch = !options.batch && comm.size() > 1;
    wanted.any_way = false;  // no whole fields here
    const bool any_library = options.device->is_host() && fft::host_libraries() > 1;
    if (wanted.any_grid || wanted.any_batch || any_library) {
      auto tuned = fft::tuned_plan<T>(wanted, options.device, comm);
      plan = std::move(tuned.plan);
      tuning = std::move(tuned.tuning);
    } else {
      plan = std::make_unique<fft::Plan<T>>(wanted.options, options.device, comm);
    }
    options.grid = plan->decomposition().grid();
    options.batch = tuning ? tuning->chosen.batch : wanted.options.batch;
    const fft::Box own = plan->decomposition().spectral();
    part.box = options.box;
    part.x = {own.first[0], own.count[0]};
    part.z = {own.first[2], own.count[2]};
    work_fields = plan->own_work(5 + 3 * scalar_count(), options.column);
    comm.together([&] {
      set_up();
      real_plane = std::make_unique<RealPlane<T>>(part, plan->decomposition(), plan->column(), options.device);
    });
  }

  void set_up() {
    const auto& device = options.device;
    const std::size_t modes = part.modes();
    const int scalars = scalar_count();
    forcing = std::make_unique<Forcing>(options.forcing, truncation, part, options.seed);
    kept = device::Array<std::int32_t>(device, std::span<const std::int32_t>(kept_modes(part, truncation)));
    for (std::int64_t z = 0; z < options.box.sizes[2]; ++z)
      kept_x.push_back(truncation.kept(0, signed_index(z, options.box.sizes[2])));
    fields = device::Array<Complex>(device, modes * (3 + scalars));
    if (options.scheme == Scheme::rk4) sums = device::Array<Complex>(device, modes * (3 + scalars));
    for (const ScalarOptions& scalar : options.scalars)
      sources.emplace_back(device, scalar.gradient == std::array<double, 3>{} ? 0 : modes);
    for (device::Array<Complex>* array : {&fields, &sums}) array->zero();

    wavenumbers.emplace(device, options.box);
    wavenumbers->set(
        [&](int axis, std::int64_t n) { return static_cast<T>(options.box.unit(axis) * static_cast<double>(n)); },
        stream);
    for (int i = 0; i <= scalars; ++i) half_factors.emplace_back(device, options.box);
    for (int i = 0; shifted() && i < 2; ++i) shifts.emplace_back(device, options.box);

    const auto kernel = [&](const char* name) { return device->kernel<T>("turbulence", name); };
    products_kernel = kernel("velocity_products");
    combine_kernel = kernel("combine_products");
    shift_kernel = kernel("shift_modes");
    advance_kernel = kernel("advance_velocity");
    scalar_kernel = kernel("advance_scalar");
    gradient_kernel = kernel("mean_gradient");
    clean_kernel = kernel("clean_modes");

    if (!device->is_host()) {
      const fft::Box points = plan->decomposition().physical();
      partials = device::Array<double>(device, product_blocks(points.count[1] * points.count[2]));
      rates.emplace(device, device::Memory::host, partials.bytes());
    }
    if (options.forcing.kind != ForcingKind::none) forced = ModeList<T>(device, places_of(*forcing), 3);
  }

  static std::size_t product_blocks(std::int64_t rows) {
    return static_cast<std::size_t>((rows + rows_per_block - 1) / rows_per_block);
  }
  static std::vector<std::int64_t> places_of(const Forcing& forcing) {
    std::vector<std::int64_t> places;
    for (const ForcedMode& mode : forcing.modes()) places.push_back(mode.place);
    return places;
  }

  int scalar_count() const { return static_cast<int>(options.scalars.size()); }
  bool shifted() const { return options.dealiasing == Dealiasing::phase_shift; }
  std::size_t modes() const { return part.modes(); }
  Complex* field(int f) { return fields.data() + f * modes(); }
  spectral_part rows() const {
    return {static_cast<int>(part.x.begin), static_cast<int>(part.z.begin), static_cast<int>(part.x.count),
            static_cast<int>(part.box.sizes[1]), kept.data()};
  }

  // `count` neighbouring fields of the rank, of which `data` is the first, as one block.
  fft::Block<Complex> whole(Complex* data, int count) const {
    fft::Block<Complex> block;
    block.data = data;
    block.variables = count;
    block.box = plan->decomposition().spectral();
    block.y_stride = part.x.count;
    block.z_stride = part.x.count * part.box.sizes[1];
    block.variable_stride = static_cast<std::int64_t>(modes());
    return block;
  }

  // --- a step --------------------------------------------------------------------------------------------------------

  void one_step() {
    if (shifted()) set_shifts();
    const int stages = options.scheme == Scheme::rk2 ? 2 : 4;
    for (int stage = 0; stage < stages; ++stage) substep_of(stage, stages);
    now.time += dt;
    if (std::abs(now.end - now.time) < 1e-9 * dt) now.time = now.end;  // rounding leaves no step to take
    ++now.steps;
    if (options.forcing.kind == ForcingKind::band) hold_band();
    if (now.steps % clean_every == 0) real_plane->clean(fields.data(), 3 + scalar_count(), stream);
    stream.synchronize();
  }

  // The shift of the first substep, in cells along each direction: random, the same on all ranks.
  std::array<double, 3> draw_shift() const {
    const auto low = static_cast<std::uint32_t>(now.steps);
    const auto high = static_cast<std::uint32_t>(now.steps >> 32);
    const auto draw = static_cast<std::uint32_t>(Draw::phase_shift);
    const auto [x, y] = uniform({low, high, 0, draw}, options.seed);
    const auto [z, unused] = uniform({low, high, 1, draw}, options.seed);
    return {x, y, z};
  }

  // The shifts of the predictor and of the corrector. Called at the beginning of a step, when no work of the previous
  // step is pending.
  void set_shifts() {
    const std::array<double, 3> first = draw_shift();
    for (int i = 0; i < 2; ++i) set_shift(shifts[i], first, i == 0 ? 0.0 : 0.5);
  }
  void set_shift(Tables<Value>& shift, const std::array<double, 3>& first, double more) {
    shift.set(
        [&](int axis, std::int64_t n) {
          const double cells = first[axis] + more;
          const double angle =
              2 * std::numbers::pi * static_cast<double>(n) * cells / static_cast<double>(options.box.sizes[axis]);
          return Value{static_cast<T>(std::cos(angle)), static_cast<T>(std::sin(angle))};
        },
        stream);
  }

  void substep_of(int stage, int stages) {
    const int scalars = scalar_count();
    const bool first = stage == 0, last = stage == stages - 1;
    largest = 0;

    fft::RoundTrip<T> trip;
    for (int f = 0; f < 3 + scalars; ++f) trip.from.push_back(first ? field(f) : work_fields[f]);
    if (shifted()) {
      trip.before_y = [this, stage](const fft::Block<Complex>& block, device::Stream& s) {
        for_rows(*options.device, shift_kernel,
                 shift_arguments<T>{view(block), block.variables, rows(), shifts[stage % 2].factors()}, shift_row<T>,
                 s);
      };
      trip.before_y_each = true;
    }
    trip.backward = 3 + scalars;
    trip.physical = [this](const fft::Block<T>& block, device::Stream& s) { products(block, s); };
    if (first) trip.after_physical = [this](device::Stream& s) { begin_step(s); };
    trip.forward = 5 + 3 * scalars;
    trip.after_z = [this, scalars](const fft::Block<Complex>& block, device::Stream& s) {
      const mode_factors<T> k = wavenumbers->factors();
      for_rows(*options.device, combine_kernel, combine_arguments<T>{view(block), scalars, k.x, k.z}, combine_row<T>,
               s);
    };
    trip.spectral = 4 + 2 * scalars;
    trip.after_y = [this, stage](const fft::Block<Complex>& block, device::Stream& s) { advance(stage, block, s); };
    if (!last) trip.to.assign(work_fields.begin(), work_fields.begin() + 3 + scalars);
    trip.own_work = true;
    trip.kept = kept_x;
    trip.concurrent = true;
    trip.recording = 1 + stage;  // what depends on the time step comes after the products
    timed(trip.before_y);
    timed(trip.physical);
    timed(trip.after_z);
    timed(trip.after_y);
    plan->run(trip, stream);
  }

  // Makes a pointwise function add the host time that it takes within the transforms' passes to pointwise_seconds. A
  // thread adds its time divided by the number of threads.
  template <class V>
  void timed(fft::Pointwise<V>& function) {
    if (!function || !options.device->is_host()) return;
    function = [this, inner = std::move(function)](const fft::Block<V>& block, device::Stream& s) {
      const auto begin = std::chrono::steady_clock::now();
      inner(block, s);
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
      std::atomic_ref(pointwise_seconds) += taken.count() / omp_get_num_threads();
    };
  }

  void products(const fft::Block<T>& block, device::Stream& s) {
    products_arguments<T> a{view(block), scalar_count(), inverse_spacing(0), inverse_spacing(1), inverse_spacing(2)};
    const std::int64_t count = block.box.count[1] * block.box.count[2];
    if (options.device->is_host()) {
      T most = 0;
      for (int z = 0; z < a.block.count_z; ++z)
        for (int y = 0; y < a.block.count_y; ++y) most = products_row(a, y, z, most);
      note(static_cast<double>(most));
      return;
    }
    products_kernel(s, static_cast<std::int64_t>(product_blocks(count)), row_shape, a, partials.data());
  }
  T inverse_spacing(int axis) const { return static_cast<T>(1 / options.box.spacing(axis)); }
  void note(double rate) {
#pragma omp critical(turbulence_rate)
    if (!(rate <= largest) && largest == largest) largest = rate;
  }

  // Called between the predictor's physical pass and the forward transforms, when the largest bracket of Eq. 8 is
  // known.
  void begin_step(device::Stream& s) {
    if (!options.device->is_host()) {
      const auto* const found = rates->as<double>();
      options.device->copy(rates->data(), partials.data(), partials.bytes(), device::CopyKind::device_to_host, s);
      s.synchronize();
      for (std::size_t i = 0; i < partials.size(); ++i) note(found[i]);
    }
    // MPI_MAX does not define the result for NaN.
    const double rate = comm.max(std::isfinite(largest) ? largest : std::numeric_limits<double>::infinity());
    const TimeStep next = next_step(options, now, rate);
    now.courant = next.courant;
    set_step(next.dt);
    if (options.forcing.kind == ForcingKind::stochastic) {
      const double work_done =
          with_forced([&](std::vector<Complex3>& velocity) { return forcing->push(velocity, dt, now.steps); });
      double total = work_done;
      comm.sum(&total, 1);
      energy_input += total;
    }
  }

  // Sets the step to `next`, and the integrating factors of half a step.
  void set_step(double next) {
    dt = next;
    if (dt == factors_dt) return;
    factors_dt = dt;
    for (int i = 0; i <= scalar_count(); ++i) {
      const double diffusivity = options.viscosity / (i == 0 ? 1.0 : options.scalars[i - 1].schmidt);
      half_factors[i].set(
          [&](int axis, std::int64_t n) {
            const double k = options.box.unit(axis) * static_cast<double>(n);
            return static_cast<T>(std::exp(-diffusivity * k * k * dt / 2));
          },
          stream);
    }
  }

  void advance(int stage, const fft::Block<Complex>& block, device::Stream& s) {
    const auto& device = *options.device;
    const substep<T> step = substeps<T>(options.scheme, dt)[stage];
    const bool first = stage == 0, last = step.gamma == 0, two = options.scheme == Scheme::rk2;
    const std::int64_t field_size = static_cast<std::int64_t>(modes());
    Complex* const base = first || two ? fields.data() : sums.data();
    Complex* const sum = last || two ? fields.data() : sums.data();
    const mode_factors<Value> shift =
        shifted() ? shifts[stage % 2].factors() : mode_factors<Value>{nullptr, nullptr, nullptr};
    const auto gradient = [&](int i, const block_view<Value>& velocity) {
      const auto& g = options.scalars[i].gradient;
      for_rows(device, gradient_kernel,
               gradient_arguments<T>{velocity, rows(), static_cast<T>(g[0]), static_cast<T>(g[1]), static_cast<T>(g[2]),
                                     as_values(sources[i].data())},
               gradient_row<T>, s);
    };
    if (first) {
      for (int i = 0; i < scalar_count(); ++i)
        if (!sources[i].empty()) gradient(i, same_modes(block, fields.data()));
    }
    for_rows(device, advance_kernel,
             advance_arguments<T>{view(block), rows(), wavenumbers->factors(), half_factors[0].factors(), shift, step,
                                  as_values(base), as_values(fields.data()), as_values(sum), field_size},
             advance_row<T>, s);
    for (int i = 0; i < scalar_count(); ++i) {
      const std::int64_t offset = (3 + i) * field_size;
      for_rows(device, scalar_kernel,
               scalar_arguments<T>{view(block), rows(), wavenumbers->factors(), half_factors[1 + i].factors(), shift,
                                   step, as_values(base) + offset, as_values(field(3 + i)), as_values(sum) + offset, i,
                                   as_values(sources[i].data())},
               scalar_row<T>, s);
      if (!last && !sources[i].empty()) gradient(i, view(block));
    }
  }

  // The modes of a block, as a part of the rank's fields.
  block_view<Value> same_modes(const fft::Block<Complex>& block, Complex* first_field) const {
    fft::Block<Complex> same = whole(first_field, 3);
    same.data += (block.box.first[2] - same.box.first[2]) * same.z_stride +
                 (block.box.first[1] - same.box.first[1]) * same.y_stride + (block.box.first[0] - same.box.first[0]);
    same.box = block.box;
    return view(same);
  }

  // --- forcing -------------------------------------------------------------------------------------------------------

  template <class F>
  double with_forced(const F& change) {
    std::vector<Complex3> values(forcing->modes().size());
    const std::vector<Complex>& lists = forced.gather(fields.data(), static_cast<std::int64_t>(modes()), stream);
    const std::size_t n = values.size();
    for (std::size_t m = 0; m < n; ++m)
      for (int c = 0; c < 3; ++c) values[m][c] = std::complex<double>(lists[c * n + m]);
    const double work_done = change(values);
    std::vector<Complex> changed(3 * n);
    for (std::size_t m = 0; m < n; ++m)
      for (int c = 0; c < 3; ++c) changed[c * n + m] = Complex(values[m][c]);
    forced.scatter(changed, fields.data(), static_cast<std::int64_t>(modes()), stream);
    return work_done;
  }

  void hold_band() {
    energy_input += with_forced([&](std::vector<Complex3>& velocity) { return forcing->hold(velocity, comm); });
  }

  // --- fields --------------------------------------------------------------------------------------------------------

  void set(int first_field, int count, const PlaneFunction& modes_of_plane) {
    comm.together([&] {
      const std::int64_t plane = part.x.count * part.box.sizes[1];
      std::vector<std::complex<double>> values(count * plane);
      std::vector<Complex> rounded(plane);
      const std::vector<std::int32_t> kept_on_host = kept_modes(part, truncation);
      for (std::int64_t iz = 0; iz < part.z.count; ++iz) {
        std::ranges::fill(values, 0);
        modes_of_plane(part, iz, values.data());
        clean_plane(values.data(), count, iz, kept_on_host);
        for (int c = 0; c < count; ++c) {
          std::ranges::transform(std::span(values).subspan(c * plane, plane), rounded.begin(),
                                 [](const std::complex<double>& v) { return Complex(v); });
          if (plane > 0)
            options.device->copy(field(first_field + c) + iz * plane, rounded.data(), plane * sizeof(Complex),
                                 device::CopyKind::host_to_device, stream);
          stream.synchronize();
        }
      }
    });
  }

  // Computed in double precision, so that a run in single precision begins with the same values, rounded.
  void clean_plane(std::complex<double>* values, int count, std::int64_t iz,
                   const std::vector<std::int32_t>& kept_rows) {
    const std::int64_t ny = part.box.sizes[1], nx = part.x.count;
    for (std::int64_t iy = 0; iy < ny; ++iy) {
      std::complex<double>* row = values + iy * nx;
      for (std::int64_t ix = 0; ix < nx; ++ix) {
        const std::array<double, 3> k{options.box.unit(0) * static_cast<double>(part.x.begin + ix),
                                      options.box.unit(1) * static_cast<double>(part.ny(iz * ny + iy)),
                                      options.box.unit(2) * static_cast<double>(part.nz(iz * ny + iy))};
        const double square = k[0] * k[0] + k[1] * k[1] + k[2] * k[2];
        std::complex<double> along = 0;
        for (int c = 0; c < count; ++c) along += k[c] * row[c * ny * nx + ix];
        for (int c = 0; c < count; ++c) {
          std::complex<double>& value = row[c * ny * nx + ix];
          if (ix >= kept_rows[iz * ny + iy])
            value = 0;
          else if (count == 3 && square > 0)
            value -= k[c] * along / square;
        }
      }
    }
  }

  void set_physical(int first_field, int count, const T* values) {
    const std::int64_t points = plan->decomposition().physical().size();
    std::vector<const T*> from;
    std::vector<Complex*> to;
    for (int c = 0; c < count; ++c) {
      from.push_back(values + c * points);
      to.push_back(field(first_field + c));
    }
    plan->forward(from, to, stream);
    clean(first_field, count);
  }

  void get_physical(int first_field, int count, T* values) {
    const std::int64_t points = plan->decomposition().physical().size();
    std::vector<const Complex*> from;
    std::vector<T*> to;
    for (int c = 0; c < count; ++c) {
      from.push_back(field(first_field + c));
      to.push_back(values + c * points);
    }
    plan->backward(from, to, stream);
    stream.synchronize();
  }

  void clean(int first_field, int count) {
    const fft::Block<Complex> block = whole(field(first_field), count);
    for_rows(*options.device, clean_kernel, clean_arguments<T>{view(block), rows(), wavenumbers->factors(), count},
             clean_row<T>, stream);
    real_plane->clean(field(first_field), count, stream);
    stream.synchronize();
  }

  Options options;
  mpi::Comm comm;
  Truncation truncation;
  SpectralPart part;
  device::Stream stream{options.device};
  std::unique_ptr<fft::Plan<T>> plan;
  std::optional<fft::PlanTuning> tuning;
  std::unique_ptr<Forcing> forcing;
  std::unique_ptr<RealPlane<T>> real_plane;
  ModeList<T> forced;
  device::Array<std::int32_t> kept;
  std::vector<std::int64_t> kept_x;  // [Nz] modes of the longest row of each kz
  device::Array<Complex> fields, sums;
  std::vector<device::Array<Complex>> sources;  // by scalar, empty without a mean gradient
  std::vector<Complex*> work_fields;
  std::optional<Tables<T>> wavenumbers;
  std::vector<Tables<T>> half_factors;  // of the velocity and of each scalar
  std::vector<Tables<Value>> shifts;    // of the predictor's and the corrector's grid
  device::Array<double> partials;       // of the largest bracket of Eq. 8, on a GPU
  std::optional<device::Buffer> rates;  // the same, on the host
  device::Kernel<products_arguments<T>, double*> products_kernel;
  device::Kernel<combine_arguments<T>> combine_kernel;
  device::Kernel<shift_arguments<T>> shift_kernel;
  device::Kernel<advance_arguments<T>> advance_kernel;
  device::Kernel<scalar_arguments<T>> scalar_kernel;
  device::Kernel<gradient_arguments<T>> gradient_kernel;
  device::Kernel<clean_arguments<T>> clean_kernel;

  Clock now;
  double dt = 0, energy_input = 0, largest = 0, pointwise_seconds = 0;
  double factors_dt = 0;  // the time step of half_factors; dt may be set from outside
};

template <class T>
Solver<T>::Solver(const Options& options, const mpi::Comm& comm) : impl_(std::make_unique<Impl>(options, comm)) {}
template <class T>
Solver<T>::~Solver() = default;

template <class T>
void Solver<T>::step(std::int64_t steps, double end) {
  impl_->now.end = end;
  for (std::int64_t i = 0; i < steps && impl_->now.time < end; ++i) impl_->one_step();
}

template <class T>
void Solver<T>::set_velocity(const PlaneFunction& modes) {
  impl_->set(0, 3, modes);
}
template <class T>
void Solver<T>::set_scalar(int number, const PlaneFunction& modes) {
  impl_->set(3 + number, 1, modes);
}
template <class T>
void Solver<T>::set_velocity(const T* values) {
  impl_->set_physical(0, 3, values);
}
template <class T>
void Solver<T>::set_scalar(int number, const T* values) {
  impl_->set_physical(3 + number, 1, values);
}
template <class T>
void Solver<T>::velocity(T* values) {
  impl_->get_physical(0, 3, values);
}
template <class T>
void Solver<T>::scalar(int number, T* values) {
  impl_->get_physical(3 + number, 1, values);
}
template <class T>
void Solver<T>::clean() {
  impl_->clean(0, 3);
  for (int i = 0; i < impl_->scalar_count(); ++i) impl_->clean(3 + i, 1);
}

template <class T>
State<T> Solver<T>::state() {
  Impl& s = *impl_;
  State<T> state{.part = s.part,
                 .truncation = &s.truncation,
                 .velocity = {s.field(0), s.field(1), s.field(2)},
                 .scalars = {},
                 .viscosity = s.options.viscosity,
                 .scalar_options = &s.options.scalars,
                 .time = s.now.time,
                 .dt = s.dt,
                 .courant = s.now.courant,
                 .step = s.now.steps,
                 .energy_input = s.energy_input,
                 .scratch = s.work_fields,
                 .field_values = s.plan->field_values(),
                 .plan = *s.plan,
                 .stream = s.stream};
  for (int i = 0; i < s.scalar_count(); ++i) state.scalars.push_back(s.field(3 + i));
  return state;
}

template <class T>
Forcing& Solver<T>::forcing() {
  return *impl_->forcing;
}
template <class T>
fft::Plan<T>& Solver<T>::plan() {
  return *impl_->plan;
}
template <class T>
const std::optional<fft::PlanTuning>& Solver<T>::tuning() const {
  return impl_->tuning;
}
template <class T>
const Options& Solver<T>::options() const {
  return impl_->options;
}
template <class T>
double Solver<T>::pointwise_seconds() const {
  return impl_->pointwise_seconds;
}
template <class T>
const Truncation& Solver<T>::truncation() const {
  return impl_->truncation;
}

template <class T>
std::map<std::string, std::int64_t> Solver<T>::memory_bytes() const {
  const Impl& s = *impl_;
  std::map<std::string, std::int64_t> bytes = s.plan->memory_bytes();
  bytes["fields"] = static_cast<std::int64_t>(s.fields.bytes());
  if (!s.sums.empty()) bytes["Runge-Kutta sums"] = static_cast<std::int64_t>(s.sums.bytes());
  std::int64_t sources = 0;
  for (const auto& source : s.sources) sources += static_cast<std::int64_t>(source.bytes());
  if (sources > 0) bytes["mean gradients"] = sources;
  bytes["tables"] = static_cast<std::int64_t>(s.kept.bytes() + s.partials.bytes()) + s.wavenumbers->bytes();
  for (const auto& shift : s.shifts) bytes["tables"] += shift.bytes();
  for (const auto& factors : s.half_factors) bytes["tables"] += factors.bytes();
  return bytes;
}

template class Solver<double>;
template class Solver<float>;

}  // namespace weft::turbulence
