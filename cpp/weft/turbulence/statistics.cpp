#include "weft/turbulence/statistics.hpp"

#include <omp.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "weft/trace/recorder.hpp"
#include "weft/turbulence/host_blocks.hpp"
#include "weft/turbulence/host_planes.hpp"
#include "weft/turbulence/spectra.hpp"

namespace weft::turbulence {
namespace {

constexpr int bins = 400;
// Logarithms are expensive, so the decimal logarithm at every point is computed from log2.
constexpr double log10_of_2 = 0.30102999566398120;

// A kept mode of a block: its position in the block and in the transforms, and its wavenumber.
struct Mode {
  std::int64_t i, y, z;     // block.row(variable, y, z)[i]
  std::int64_t ix, iy, iz;  // indices of the transforms
  double kx, ky, kz;
};

// exp(i k . d) for a shift d of the grid, from one table per direction; does nothing if d is 0.
class Shift {
 public:
  Shift() = default;
  Shift(const Box& box, const std::array<double, 3>& d) : none_(false) {
    for (std::size_t axis = 0; axis < 3; ++axis)
      for (std::int64_t i = 0; i < box.sizes[axis]; ++i)
        tables_[axis].push_back(std::polar(
            1.0, box.unit(static_cast<int>(axis)) * static_cast<double>(signed_index(i, box.sizes[axis])) * d[axis]));
  }
  bool none() const { return none_; }
  std::complex<double> operator()(const Mode& m) const {
    if (none_) return 1;
    return tables_[0][static_cast<std::size_t>(m.ix)] * tables_[1][static_cast<std::size_t>(m.iy)] *
           tables_[2][static_cast<std::size_t>(m.iz)];
  }

 private:
  bool none_ = true;
  std::array<std::vector<std::complex<double>>, 3> tables_;
};

// Sums of one quantity over the points that a thread processes.
class Collector {
 public:
  Collector(std::string name, std::string scaled_by, double scale, bool logarithmic, double lower, double upper) {
    d_.name = std::move(name);
    d_.scaled_by = std::move(scaled_by);
    d_.scale = scale > 0 ? scale : 1;
    d_.logarithmic = logarithmic;
    d_.lower = lower;
    d_.upper = upper;
    d_.counts.assign(bins, 0.0);
    d_.smallest = std::numeric_limits<double>::infinity();
    d_.largest = -d_.smallest;
  }

  void add(double value) {
    const double x = value / d_.scale;
    sums_[0] += x;
    sums_[1] += x * x;
    sums_[2] += x * x * x;
    sums_[3] += x * x * x * x;
    d_.points += 1;
    d_.smallest = std::min(d_.smallest, x);
    d_.largest = std::max(d_.largest, x);
    const double place = d_.logarithmic ? (x > 0 ? log10_of_2 * std::log2(x) : d_.lower) : x;
    const double bin = (place - d_.lower) * (bins / (d_.upper - d_.lower));
    // NaN is counted in the first bin.
    d_.counts[bin > 0 ? static_cast<std::size_t>(std::min(bin, bins - 1.0)) : 0] += 1;
  }

  void add(const Collector& other) {
    for (std::size_t m = 0; m < sums_.size(); ++m) sums_[m] += other.sums_[m];
    for (std::size_t b = 0; b < d_.counts.size(); ++b) d_.counts[b] += other.d_.counts[b];
    d_.points += other.d_.points;
    d_.smallest = std::min(d_.smallest, other.d_.smallest);
    d_.largest = std::max(d_.largest, other.d_.largest);
  }

  Distribution result(const mpi::Comm& comm) {
    std::vector<double> all(sums_.begin(), sums_.end());
    all.push_back(d_.points);
    all.insert(all.end(), d_.counts.begin(), d_.counts.end());
    comm.sum(all.data(), static_cast<int>(all.size()));
    d_.points = all[4];
    d_.moments.assign(all.begin(), all.begin() + 4);
    for (double& moment : d_.moments) moment /= d_.points;
    std::copy(all.begin() + 5, all.end(), d_.counts.begin());
    d_.largest = comm.max(d_.largest);
    d_.smallest = -comm.max(-d_.smallest);
    return d_;
  }

 private:
  Distribution d_;
  std::array<double, 4> sums_{};
};

// The sums of each thread, all with the same initial values. The same threads process the same points in every run.
template <class Sums>
class ByThread {
 public:
  explicit ByThread(const Sums& start) : all_(static_cast<std::size_t>(omp_get_max_threads()), start) {}
  Sums& mine() { return all_[static_cast<std::size_t>(omp_get_thread_num())]; }
  // Returns the first thread's sums after add(sums, those of another thread) has added the others in order.
  template <class Add>
  Sums& together(const Add& add) {
    for (std::size_t t = 1; t < all_.size(); ++t) add(all_[0], all_[t]);
    return all_[0];
  }

 private:
  std::vector<Sums> all_;
};

// The solver's scratch memory, with neighbouring fields joined, extended if it is not enough. Allocated like a stack.
template <class T>
class Memory {
 public:
  using Complex = std::complex<T>;

  explicit Memory(const State<T>& state) : device_(state.plan.device()) {
    for (Complex* field : state.scratch) {
      if (!segments_.empty() && segments_.back().data + segments_.back().size == field)
        segments_.back().size += state.field_values;
      else
        segments_.push_back({field, state.field_values, 0});
    }
  }

  Complex* take(std::int64_t count) {
    for (Segment& segment : segments_) {
      if (segment.size - segment.used < count) continue;
      segment.used += count;
      return segment.data + segment.used - count;
    }
    extra_.emplace_back(device_, static_cast<std::size_t>(count));
    extra_bytes += static_cast<std::int64_t>(extra_.back().bytes());
    segments_.push_back({extra_.back().data(), count, count});
    return extra_.back().data();
  }

  // Memory taken during the lifetime of a Mark is freed at its end.
  class Mark {
   public:
    explicit Mark(Memory& memory) : memory_(memory) {
      for (const Segment& segment : memory.segments_) used_.push_back(segment.used);
    }
    ~Mark() {
      used_.resize(memory_.segments_.size(), 0);
      for (std::size_t i = 0; i < used_.size(); ++i) memory_.segments_[i].used = used_[i];
    }
    Mark(const Mark&) = delete;
    Mark& operator=(const Mark&) = delete;

   private:
    Memory& memory_;
    std::vector<std::int64_t> used_;
  };

  std::int64_t extra_bytes = 0;

 private:
  struct Segment {
    Complex* data;
    std::int64_t size, used;
  };
  std::shared_ptr<device::Device> device_;
  std::vector<Segment> segments_;
  std::vector<device::Array<Complex>> extra_;
};

template <class T>
class Pass {
 public:
  using Complex = std::complex<T>;
  using Modes = fft::Block<Complex>;
  using Points = fft::Block<T>;

  Pass(State<T>& state, const Asked& asked)
      : state_(state),
        asked_(asked),
        kept_(kept_modes(state.part, *state.truncation)),
        spectra_(spectra(state)),
        memory_(state) {}

  Statistics<T> run() {
    if (asked_.points) gradients();
    if (asked_.pressure || asked_.transfer) products();
    result_.extra_bytes = memory_.extra_bytes;
    return std::move(result_);
  }

 private:
  using Mark = typename Memory<T>::Mark;

  Complex* spectral_field() { return memory_.take(state_.part.modes()); }
  T* physical_field() {
    return reinterpret_cast<T*>(memory_.take((state_.plan.decomposition().physical().size() + 1) / 2));
  }
  // Runs a round trip with the work memory that it needs.
  void run(fft::RoundTrip<T>& trip) {
    const Mark mark(memory_);
    trip.concurrent = true;
    for (int i = 0; i < state_.plan.work_fields(trip); ++i) trip.work.push_back(memory_.take(state_.field_values));
    state_.plan.run(trip, state_.stream);
    state_.stream.synchronize();
  }

  // Calls f(mode) for the kept modes of a block; sets the others to 0.
  template <class F>
  void each_mode(const Modes& block, int variables, const F& f) const {
    const SpectralPart& part = state_.part;
    const Box& box = part.box;
    const std::int64_t before = block.box.first[0] - part.x.begin;
    Mode m;
    for (m.z = 0; m.z < block.box.count[2]; ++m.z) {
      m.iz = block.box.first[2] + m.z;
      m.kz = box.unit(2) * static_cast<double>(signed_index(m.iz, box.sizes[2]));
      for (m.y = 0; m.y < block.box.count[1]; ++m.y) {
        m.iy = block.box.first[1] + m.y;
        m.ky = box.unit(1) * static_cast<double>(signed_index(m.iy, box.sizes[1]));
        const std::int64_t row = (m.iz - part.z.begin) * box.sizes[1] + m.iy;
        const std::int64_t count =
            std::clamp<std::int64_t>(kept_[static_cast<std::size_t>(row)] - before, 0, block.box.count[0]);
        for (m.i = 0; m.i < count; ++m.i) {
          m.ix = block.box.first[0] + m.i;
          m.kx = box.unit(0) * static_cast<double>(m.ix);
          f(m);
        }
        for (int v = 0; v < variables; ++v)
          std::fill(block.row(v, m.y, m.z) + count, block.row(v, m.y, m.z) + block.box.count[0], Complex{});
      }
    }
  }
  // The position of a mode in a plane of the rank's fields.
  std::int64_t in_plane(const Mode& m) const { return m.iy * state_.part.x.count + m.ix - state_.part.x.begin; }
  HostPlanes<T> host_planes(std::vector<Complex*> fields) const {
    return {state_.plan.device(), std::move(fields), state_.part.box.sizes[1] * state_.part.x.count};
  }

  static Complex times_i(double k, Complex u) { return {static_cast<T>(-k * u.imag()), static_cast<T>(k * u.real())}; }

  // Eq. 10: s_ij s_ij = sum of A_ii^2 + sum over i < j of (A_ij + A_ji)^2 / 2 and Omega = sum over i < j of (A_ji -
  // A_ij)^2, with A_ij = du_i/dx_j and A_33 = -A_11 - A_22. Takes four round trips of two variables.
  void gradients() {
    const double mean_dissipation = state_.viscosity * spectra_.enstrophy;
    std::vector<Collector> collectors;
    collectors.emplace_back("dissipation", "mean", mean_dissipation, true, -8, 4);
    collectors.emplace_back("enstrophy", "mean", spectra_.enstrophy, true, -8, 4);
    for (std::size_t c = 0; c < 3; ++c)
      collectors.emplace_back(std::array{"du/dx", "dv/dy", "dw/dz"}[c], "root mean square",
                              std::sqrt(spectra_.gradient_square[c]), false, -20, 20);
    ByThread<std::vector<Collector>> by_thread(collectors);
    const Mark mark(memory_);
    T* strain = physical_field();
    T* rotation = physical_field();

    fft::RoundTrip<T> diagonal;
    diagonal.from = {state_.velocity[0], state_.velocity[1]};
    diagonal.before_y = on_host<Complex>(2, 2, [&](const Modes& block) {
      each_mode(block, 2, [&](const Mode& m) {
        block.row(0, m.y, m.z)[m.i] = times_i(m.kx, block.row(0, m.y, m.z)[m.i]);
        block.row(1, m.y, m.z)[m.i] = times_i(m.ky, block.row(1, m.y, m.z)[m.i]);
      });
    });
    diagonal.backward = 2;
    diagonal.physical = on_host<T>(2, 2, [&](const Points& block) {
      std::vector<Collector>& mine = by_thread.mine();
      each_line(block, [&](std::int64_t, std::int64_t, T* ux, T* vy, T*, T*) {
        for (std::int64_t i = 0; i < block.box.count[0]; ++i) {
          const T wz = -(ux[i] + vy[i]);
          mine[2].add(static_cast<double>(ux[i]));
          mine[3].add(static_cast<double>(vy[i]));
          mine[4].add(static_cast<double>(wz));
          ux[i] = ux[i] * ux[i] + vy[i] * vy[i] + wz * wz;
          vy[i] = 0;
        }
      });
    });
    diagonal.physical_to = {strain, rotation};
    run(diagonal);

    for (const auto& [i, j] : {std::array{0, 1}, std::array{0, 2}, std::array{1, 2}}) {
      const bool last = i == 1;
      fft::RoundTrip<T> trip;
      trip.from = {state_.velocity[static_cast<std::size_t>(i)], state_.velocity[static_cast<std::size_t>(j)]};
      trip.before_y = on_host<Complex>(2, 2, [&, i = i, j = j](const Modes& block) {
        each_mode(block, 2, [&](const Mode& m) {
          const std::array<double, 3> k{m.kx, m.ky, m.kz};
          block.row(0, m.y, m.z)[m.i] = times_i(k[static_cast<std::size_t>(j)], block.row(0, m.y, m.z)[m.i]);
          block.row(1, m.y, m.z)[m.i] = times_i(k[static_cast<std::size_t>(i)], block.row(1, m.y, m.z)[m.i]);
        });
      });
      trip.backward = 2;
      trip.physical_from = {strain, rotation};
      trip.physical = on_host<T>(4, last ? 0 : 2, [&, last](const Points& block) {
        std::vector<Collector>& mine = by_thread.mine();
        each_line(block, [&](std::int64_t y, std::int64_t z, T* a, T* b, T* s, T* o) {
          for (std::int64_t n = 0; n < block.box.count[0]; ++n) {
            const T sum = a[n] + b[n], difference = b[n] - a[n];
            a[n] = s[n] + T(0.5) * sum * sum;
            b[n] = o[n] + difference * difference;
          }
          if (!last) return;
          for (std::int64_t n = 0; n < block.box.count[0]; ++n) {
            mine[0].add(2 * state_.viscosity * static_cast<double>(a[n]));
            mine[1].add(static_cast<double>(b[n]));
          }
          keep_slice(block.box.first[1] + y, block.box.first[2] + z, b, block.box.first[0], block.box.count[0]);
        });
      });
      if (!last) trip.physical_to = {strain, rotation};
      if (last) begin_slice();
      run(trip);
    }
    const auto add = [](std::vector<Collector>& sums, const std::vector<Collector>& more) {
      for (std::size_t c = 0; c < sums.size(); ++c) sums[c].add(more[c]);
    };
    for (Collector& collector : by_thread.together(add))
      result_.distributions.push_back(collector.result(state_.plan.comm()));
  }

  // f(y, z, variables 0 to 3 of a line)
  template <class F>
  void each_line(const Points& block, const F& f) const {
    for (std::int64_t z = 0; z < block.box.count[2]; ++z)
      for (std::int64_t y = 0; y < block.box.count[1]; ++y)
        f(y, z, block.row(0, y, z), block.row(1, y, z), block.row(2, y, z), block.row(3, y, z));
  }

  void begin_slice() {
    if (asked_.slice < 0) return;
    const fft::Box mine = state_.plan.decomposition().physical();
    Slice& slice = result_.enstrophy;
    const auto& sizes = state_.part.box.sizes;
    slice.stride = (std::max(sizes[0], sizes[1]) + asked_.slice_points - 1) / asked_.slice_points;
    slice.columns = (sizes[0] + slice.stride - 1) / slice.stride;
    slice.first_row = (mine.first[1] + slice.stride - 1) / slice.stride;
    if (asked_.slice < mine.first[2] || asked_.slice >= mine.first[2] + mine.count[2]) return;
    slice.rows = (mine.first[1] + mine.count[1] + slice.stride - 1) / slice.stride - slice.first_row;
    slice.values.assign(static_cast<std::size_t>(slice.rows * slice.columns), 0.0F);
  }

  void keep_slice(std::int64_t y, std::int64_t z, const T* line, std::int64_t first, std::int64_t count) {
    Slice& slice = result_.enstrophy;
    if (z != asked_.slice || slice.rows == 0 || y % slice.stride != 0) return;
    float* to = slice.values.data() + (y / slice.stride - slice.first_row) * slice.columns;
    for (std::int64_t x = (first + slice.stride - 1) / slice.stride * slice.stride; x < first + count;
         x += slice.stride)
      to[x / slice.stride] = static_cast<float>(line[x - first]);
  }

  // The products of the velocity on one or two grids. If truncation is by phase shifts, two grids half a cell apart are
  // used; their mean is free of the remaining aliases (Patterson & Orszag 1971).
  void products() {
    const bool twice = state_.truncation->dealiasing() == Dealiasing::phase_shift;
    const double share = twice ? 0.5 : 1;
    const auto shells = static_cast<std::size_t>(shell_count(*state_.truncation, state_.part.box));
    result_.transfer.assign(shells, 0.0);
    const Mark mark(memory_);
    Complex* pressure = asked_.pressure ? spectral_field() : nullptr;
    for (int grid = 0; grid < (twice ? 2 : 1); ++grid) {
      const Box& box = state_.part.box;
      const Shift shift =
          grid == 0 ? Shift() : Shift(box, {box.spacing(0) / 2, box.spacing(1) / 2, box.spacing(2) / 2});
      stress(shift, share, grid == 0, pressure);
      if (pressure != nullptr) square(shift, share, pressure);
    }
    if (asked_.transfer)
      state_.plan.comm().sum(result_.transfer.data(), static_cast<int>(shells));
    else
      result_.transfer.clear();
    if (pressure != nullptr) pressure_at_points(pressure);
  }

  fft::Pointwise<Complex> shifted(int variables, const Shift& shift) const {
    if (shift.none()) return {};
    return on_host<Complex>(variables, variables, [this, variables, &shift](const Modes& block) {
      each_mode(block, variables, [&](const Mode& m) {
        const auto factor = static_cast<Complex>(shift(m));
        for (int v = 0; v < variables; ++v) block.row(v, m.y, m.z)[m.i] *= factor;
      });
    });
  }

  // uu - vv, ww - vv, uv, uw, vw: T(k) = Re(u* . N) with N_j = -i k_m t_jm, up to a gradient, which does not
  // contribute; and the pressure's source -k_i k_j t_ij / k^2, to which square() adds what was subtracted from the
  // diagonal.
  void stress(const Shift& shift, double share, bool first, Complex* pressure) {
    fft::RoundTrip<T> trip;
    trip.from.assign(state_.velocity.begin(), state_.velocity.end());
    trip.before_y = shifted(3, shift);
    trip.backward = 3;
    trip.physical = on_host<T>(3, 5, [](const Points& block) {
      for (std::int64_t z = 0; z < block.box.count[2]; ++z) {
        for (std::int64_t y = 0; y < block.box.count[1]; ++y) {
          std::array<T*, 5> p;
          for (int v = 0; v < 5; ++v) p[static_cast<std::size_t>(v)] = block.row(v, y, z);
          for (std::int64_t i = 0; i < block.box.count[0]; ++i) {
            const T u = p[0][i], v = p[1][i], w = p[2][i];
            p[0][i] = u * u - v * v;
            p[1][i] = w * w - v * v;
            p[2][i] = u * v;
            p[3][i] = u * w;
            p[4][i] = v * w;
          }
        }
      }
    });
    trip.forward = 5;
    const double width = shell_width(state_.part.box);
    HostPlanes<T> velocity = host_planes(state_.velocity), sum = host_planes({pressure});
    ByThread<std::vector<double>> transfer(std::vector<double>(result_.transfer.size()));
    trip.after_y = on_host<Complex>(5, pressure != nullptr ? 1 : 0, [&, first](const Modes& block) {
      std::vector<double>& rates = transfer.mine();
      std::vector<Complex*> u, p;
      std::int64_t loaded = -1;
      each_mode(block, 1, [&](const Mode& m) {
        if (m.iz != loaded) {
          loaded = m.iz;
          u = velocity.load(m.iz - state_.part.z.begin);
          if (pressure != nullptr && !first) p = sum.load(m.iz - state_.part.z.begin);
        }
        std::array<std::complex<double>, 5> t;
        const std::complex<double> back = share * std::conj(shift(m));
        for (int v = 0; v < 5; ++v)
          t[static_cast<std::size_t>(v)] = back * std::complex<double>(block.row(v, m.y, m.z)[m.i]);
        const auto& [xx, zz, xy, xz, yz] = t;
        const std::array<std::complex<double>, 3> n{m.kx * xx + m.ky * xy + m.kz * xz, m.kx * xy + m.kz * yz,
                                                    m.kx * xz + m.ky * yz + m.kz * zz};
        const double k2 = m.kx * m.kx + m.ky * m.ky + m.kz * m.kz;
        // Re(u* . (-i n)) = Im(u* . n)
        double rate = 0;
        for (std::size_t c = 0; c < 3; ++c) rate += (std::conj(std::complex<double>(u[c][in_plane(m)])) * n[c]).imag();
        rates[static_cast<std::size_t>(std::sqrt(k2) / width + 0.5)] += (m.ix > 0 ? 2 : 1) * rate;
        if (pressure == nullptr) return;
        std::complex<double> sum_of_grids = k2 > 0 ? -(m.kx * n[0] + m.ky * n[1] + m.kz * n[2]) / k2 : 0;
        if (!first) sum_of_grids += std::complex<double>(p[0][in_plane(m)]);
        block.row(0, m.y, m.z)[m.i] = static_cast<Complex>(sum_of_grids);
      });
    });
    if (pressure != nullptr) trip.to = {pressure};
    run(trip);
    const auto add = [](std::vector<double>& sums, const std::vector<double>& more) {
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += more[i];
    };
    add(result_.transfer, transfer.together(add));
  }

  // pressure -= v^2
  void square(const Shift& shift, double share, Complex* pressure) {
    fft::RoundTrip<T> trip;
    trip.from = {state_.velocity[1]};
    trip.before_y = shifted(1, shift);
    trip.backward = 1;
    trip.physical = on_host<T>(1, 1, [](const Points& block) {
      for (std::int64_t z = 0; z < block.box.count[2]; ++z)
        for (std::int64_t y = 0; y < block.box.count[1]; ++y)
          for (std::int64_t i = 0; i < block.box.count[0]; ++i) block.row(0, y, z)[i] *= block.row(0, y, z)[i];
    });
    trip.forward = 1;
    HostPlanes<T> sum = host_planes({pressure});
    trip.after_y = on_host<Complex>(1, 1, [&](const Modes& block) {
      std::vector<Complex*> p;
      std::int64_t loaded = -1;
      each_mode(block, 1, [&](const Mode& m) {
        if (m.iz != loaded) {
          loaded = m.iz;
          p = sum.load(m.iz - state_.part.z.begin);
        }
        Complex& value = block.row(0, m.y, m.z)[m.i];
        const std::complex<double> square = share * std::conj(shift(m)) * std::complex<double>(value);
        const bool mean = m.ix == 0 && m.iy == 0 && m.iz == 0;
        value = mean ? Complex{} : static_cast<Complex>(std::complex<double>(p[0][in_plane(m)]) - square);
      });
    });
    trip.to = {pressure};
    run(trip);
  }

  void pressure_at_points(Complex* pressure) {
    double variance = 0;
    const SpectralPart& part = state_.part;
    HostPlanes<T> planes = host_planes({pressure});
    for (std::int64_t z = 0; z < part.z.count; ++z) {
      const auto plane = planes.load(z);
      for (std::int64_t y = 0; y < part.box.sizes[1]; ++y)
        for (std::int64_t i = 0; i < kept_[static_cast<std::size_t>(z * part.box.sizes[1] + y)]; ++i)
          variance += (part.x.begin + i == 0 ? 1 : 2) * std::norm(std::complex<double>(plane[0][y * part.x.count + i]));
    }
    state_.plan.comm().sum(&variance, 1);
    ByThread collectors(Collector("pressure", "root mean square", std::sqrt(variance), false, -20, 20));
    const fft::Box mine = state_.plan.decomposition().physical();
    if (asked_.keep_pressure) result_.pressure.resize(static_cast<std::size_t>(mine.size()));
    fft::RoundTrip<T> trip;
    trip.from = {pressure};
    trip.backward = 1;
    trip.physical = on_host<T>(1, 0, [&](const Points& block) {
      Collector& sums = collectors.mine();
      for (std::int64_t z = 0; z < block.box.count[2]; ++z)
        for (std::int64_t y = 0; y < block.box.count[1]; ++y) {
          const T* const line = block.row(0, y, z);
          for (std::int64_t i = 0; i < block.box.count[0]; ++i) sums.add(static_cast<double>(line[i]));
          if (asked_.keep_pressure) keep(line, y, z, block.box, mine, result_.pressure);
        }
    });
    run(trip);
    const auto add = [](Collector& first, const Collector& more) { first.add(more); };
    result_.distributions.push_back(collectors.together(add).result(state_.plan.comm()));
  }

  // Stores the values of a line of points in the rank's part [z][y][x].
  static void keep(const T* line, std::int64_t y, std::int64_t z, const fft::Box& block, const fft::Box& mine,
                   std::vector<T>& values) {
    const std::int64_t row = (block.first[2] + z - mine.first[2]) * mine.count[1] + block.first[1] + y - mine.first[1];
    std::copy_n(line, block.count[0], values.begin() + row * mine.count[0] + block.first[0] - mine.first[0]);
  }

  State<T>& state_;
  const Asked& asked_;
  std::vector<std::int32_t> kept_;
  Spectra spectra_;
  Statistics<T> result_;
  Memory<T> memory_;
};

}  // namespace

template <class T>
Statistics<T> statistics(State<T>& state, const Asked& asked) {
  const trace::Span span("statistics", trace::Category::cpu);
  return Pass<T>(state, asked).run();
}

template Statistics<double> statistics(State<double>&, const Asked&);
template Statistics<float> statistics(State<float>&, const Asked&);

}  // namespace weft::turbulence
