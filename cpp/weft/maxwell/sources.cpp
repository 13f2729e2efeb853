#include "weft/maxwell/sources.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "weft/element/gll.hpp"
#include "weft/kernels/cross.hpp"
#include "weft/mesh/points.hpp"
#include "weft/mesh/tensor.hpp"

namespace weft::maxwell {
namespace {

constexpr device::Shape shape{256};
std::int64_t blocks(std::int64_t items) { return (items + 255) / 256; }

// f = 1 at all times.
constexpr Pulse steady_pulse{.frequency = 0, .phase = std::numbers::pi / 2, .delay = 0, .width = 0, .ramp = 0};

using Vector = std::array<double, 3>;
double dot(const Vector& a, const Vector& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }
std::string text_of(const Vector& v) {
  std::ostringstream text;
  text << "(" << v[0] << ", " << v[1] << ", " << v[2] << ")";
  return text.str();
}

void check(const Pulse& pulse) {
  for (const double value : {pulse.frequency, pulse.phase, pulse.delay, pulse.width, pulse.ramp})
    if (!std::isfinite(value)) throw std::invalid_argument("maxwell: a pulse has a value that is not a number");
  if (pulse.width < 0 || pulse.ramp < 0)
    throw std::invalid_argument("maxwell: width and ramp of a pulse must be at least 0");
}

// The position of a point in the reference element, by Newton's method on the interpolant of the coordinates; nothing
// if it is outside.
std::optional<Vector> reference_place(const double* coordinates, const element::Gll& gll, const Vector& x) {
  const int n = gll.order + 1;
  std::size_t nearest = 0;
  double smallest = std::numeric_limits<double>::infinity();
  for (int p = 0; p < n * n * n; ++p) {
    const double* at = coordinates + 3 * p;
    const double distance = std::hypot(at[0] - x[0], at[1] - x[1], at[2] - x[2]);
    if (distance < smallest) {
      smallest = distance;
      nearest = p;
    }
  }
  Vector r{gll.points[nearest % n], gll.points[nearest / n % n], gll.points[nearest / (n * n)]};
  constexpr int most_steps = 50;
  constexpr double slack = 1e-9;
  for (int step = 0; step < most_steps; ++step) {
    // The position at that point and its derivatives, one direction after the other.
    std::array<std::vector<double>, 3> value, slope;
    for (int d = 0; d < 3; ++d) {
      const std::array<double, 1> at{r[d]};
      value[d] = element::interpolation(gll.points, at);
      slope[d].assign(n, 0);
      for (int m = 0; m < n; ++m)
        for (int i = 0; i < n; ++i) slope[d][m] += value[d][i] * gll.derivative[i * n + m];
    }
    Vector place{};
    std::array<Vector, 3> column{};
    for (int p = 0; p < n * n * n; ++p) {
      const int i = p % n, j = p / n % n, k = p / (n * n);
      for (int c = 0; c < 3; ++c) {
        const double u = coordinates[3 * p + c];
        place[c] += value[0][i] * value[1][j] * value[2][k] * u;
        column[0][c] += slope[0][i] * value[1][j] * value[2][k] * u;
        column[1][c] += value[0][i] * slope[1][j] * value[2][k] * u;
        column[2][c] += value[0][i] * value[1][j] * slope[2][k] * u;
      }
    }
    const Vector miss{x[0] - place[0], x[1] - place[1], x[2] - place[2]};
    const double jacobian = dot(column[0], cross(column[1], column[2]));
    double largest = 0;
    for (int d = 0; d < 3; ++d) {
      const double change = dot(miss, cross(column[(d + 1) % 3], column[(d + 2) % 3])) / jacobian;
      r[d] = std::clamp(r[d] + change, -1.5, 1.5);
      largest = std::max(largest, std::abs(change));
    }
    if (largest < 1e-13) break;
  }
  for (const double value : r)
    if (!(std::abs(value) <= 1 + slack)) return std::nullopt;
  return r;
}

const Material& material_of(const Options& options, std::size_t element) {
  return options.materials[options.regions.empty() ? 0 : options.regions[element]].second;
}

template <class T>
device::Array<T> converted(const std::shared_ptr<device::Device>& device, const std::vector<double>& values) {
  return device::Array<T>(device, std::vector<T>(values.begin(), values.end()));
}

}  // namespace

template <class T>
Sources<T>::Sources(const mesh::Mesh& mesh, const Options& options, const Geometry& geometry,
                    const std::shared_ptr<exchange::Connectivity>& connectivity)
    : device_(options.device), points_((options.order + 1) * (options.order + 1) * (options.order + 1)) {
  const auto elements = static_cast<std::size_t>(mesh.elements());
  all_elements_ = mesh.elements();
  const std::size_t face = static_cast<std::size_t>(points_) / (options.order + 1);
  std::vector<std::int32_t> flags(elements * 6 * face);
  mesh.comm.together([&] {
    if (!options.total_field.empty() && options.total_field.size() != elements)
      throw std::invalid_argument("maxwell: total_field is given for " + std::to_string(options.total_field.size()) +
                                  " of " + std::to_string(elements) + " elements of this rank");
    for (std::size_t q = 0; q < flags.size() && !options.total_field.empty(); ++q)
      flags[q] = options.total_field[q / (6 * face)] != 0 ? 1 : 0;
  });
  std::array<std::int64_t, 2> counts{std::ranges::count_if(flags, [](auto flag) { return flag != 0; }), 0};
  mesh.comm.sum(counts.data(), 1);
  mesh.comm.together([&] {
    if (!options.waves.empty() && counts[0] == 0)
      throw std::invalid_argument(
          "maxwell: a plane wave enters on elements of the total field, but there are none: set total_field");
  });
  if (!options.waves.empty()) {
    const auto host = device::open("host");
    std::vector<std::int32_t> sums = flags;
    exchange::GatherScatter<std::int32_t> both(connectivity, host, exchange::Choice{});
    device::Stream stream(host);
    both.gather_scatter(sums.data(), exchange::Op::add, stream);
    stream.synchronize();
    // The sign of the incident field in the jumps: that of the own trace if the neighbour's field includes the wave,
    // the opposite if the own field does.
    for (std::size_t q = 0; q < sums.size(); ++q) {
      const std::size_t side = q / face;
      const std::int32_t tag = mesh.boundaries[side / 6][side % 6];
      if (tag == 0)
        flags[q] = sums[q] == 1 ? (flags[q] == 1 ? -1 : 1) : 0;
      else
        flags[q] =
            flags[q] == 1 && options.boundaries.at(mesh.boundary_names[tag - 1]) == Condition::absorbing ? -1 : 0;
    }
  }
  mesh.comm.together([&] {
    add_waves(mesh, options, geometry, flags);
    set_up_layer(mesh, options);
  });
  add_dipoles(mesh, options, geometry);
  counts = {static_cast<std::int64_t>(options.waves.size() + options.dipoles.size()), layer_elements_};
  mesh.comm.sum(counts.data(), 2);
  driven_ = counts[0] > 0;
  layered_ = counts[1] > 0;
  const auto kernel = [&](const char* name) { return device_->kernel<T>("maxwell_sources", name); };
  mesh.comm.together([&] {
    if (driven_) {
      clock_ = device::Array<double>(device_, 1);
      clock_.zero();
      set_clock_ = kernel("maxwell_set_clock");
      advance_clock_ = kernel("maxwell_advance_clock");
      incident_ = kernel("maxwell_incident");
      current_ = kernel("maxwell_current");
    }
    if (layered_) layer_ = kernel("maxwell_layer");
  });
}

template <class T>
void Sources<T>::add_waves(const mesh::Mesh& mesh, const Options& options, const Geometry& geometry,
                           std::span<const std::int32_t> flags) {
  if (options.waves.empty()) return;
  const int n = options.order + 1;
  const std::size_t face = static_cast<std::size_t>(n) * n;
  const std::vector<double> coordinates = mesh::point_coordinates(mesh, options.order);
  for (const PlaneWave& wave : options.waves) {
    check(wave.pulse);
    const double length = std::sqrt(dot(wave.direction, wave.direction)), size = std::sqrt(dot(wave.field, wave.field));
    if (!(length > 0) || !(size > 0) || !(std::abs(dot(wave.direction, wave.field)) <= 1e-9 * length * size))
      throw std::invalid_argument("maxwell: a plane wave along " + text_of(wave.direction) + " cannot have the field " +
                                  text_of(wave.field) + "; give it a direction and a field normal to it");
    if (!(wave.eps > 0) || !(wave.mu > 0))
      throw std::invalid_argument("maxwell: eps and mu of a plane wave's medium must be positive");
    const Vector k{wave.direction[0] / length, wave.direction[1] / length, wave.direction[2] / length};
    Vector h = cross(k, wave.field);
    for (double& value : h) value /= std::sqrt(wave.mu / wave.eps);
    const double slowness = std::sqrt(wave.mu * wave.eps);
    std::vector<std::int32_t> points;
    std::vector<double> delays, amplitudes;
    for (std::size_t q = 0; q < flags.size(); ++q) {
      if (flags[q] == 0) continue;
      const std::size_t side = q / face, element = side / 6;
      const int d = static_cast<int>(side % 6 / 2), a = static_cast<int>(q % face) % n,
                b = static_cast<int>(q % face) / n;
      const int end = side % 2 == 0 ? 0 : n - 1;
      const int p = d == 0 ? (b * n + a) * n + end : d == 1 ? (b * n + end) * n + a : (end * n + b) * n + a;
      const double* x = coordinates.data() + (element * points_ + p) * 3;
      const double* g = geometry.faces.data() + side * 4 * face + q % face;
      const Vector normal{g[0], g[face], g[2 * face]};
      const Vector of_h = cross(h, normal), of_e = cross(wave.field, normal);  // -n x H, -n x E
      points.push_back(static_cast<std::int32_t>(q));
      delays.push_back(slowness * (k[0] * (x[0] - wave.origin[0]) + k[1] * (x[1] - wave.origin[1]) +
                                   k[2] * (x[2] - wave.origin[2])));
      for (const double value : of_h) amplitudes.push_back(flags[q] * value);
      for (const double value : of_e) amplitudes.push_back(flags[q] * value);
    }
    waves_.push_back({wave.pulse, device::Array<std::int32_t>(device_, points), device::Array<double>(device_, delays),
                      converted<T>(device_, amplitudes)});
  }
}

// The weak form of a delta function at r0: phi_i(r0) / (w_i J_i). If r0 is shared by elements, the one with the
// smallest number gets the dipole.
template <class T>
void Sources<T>::add_dipoles(const mesh::Mesh& mesh, const Options& options, const Geometry& geometry) {
  if (options.dipoles.empty()) return;
  const element::Gll& gll = element::gll(options.order);
  const int n = options.order + 1;
  const std::vector<double> coordinates = mesh::point_coordinates(mesh, options.order);
  for (const Dipole& dipole : options.dipoles) {
    std::int64_t found = std::numeric_limits<std::int64_t>::max();
    std::size_t local = 0;
    Vector place{};
    mesh.comm.together([&] {
      check(dipole.pulse);
      for (std::size_t e = 0; e < geometry.spacing.size(); ++e) {
        if (mesh.element_ids[e] >= found) continue;
        // Curved elements extend beyond the bounding box of their points by less than its size.
        const double* x = coordinates.data() + e * points_ * 3;
        bool near = true;
        for (int c = 0; c < 3; ++c) {
          double low = x[c], high = x[c];
          for (int p = 1; p < points_; ++p) {
            low = std::min(low, x[3 * p + c]);
            high = std::max(high, x[3 * p + c]);
          }
          near = near && dipole.position[c] >= low - (high - low) && dipole.position[c] <= high + (high - low);
        }
        if (!near) continue;
        if (const auto r = reference_place(x, gll, dipole.position)) {
          found = mesh.element_ids[e];
          local = e;
          place = *r;
        }
      }
    });
    const std::int64_t first = mesh.comm.min(found);
    mesh.comm.together([&] {
      if (first == std::numeric_limits<std::int64_t>::max())
        throw std::invalid_argument("maxwell: the dipole at " + text_of(dipole.position) +
                                    " is not inside any element of " + mesh.source);
      if (first != found) return;
      std::array<std::vector<double>, 3> basis;
      for (int d = 0; d < 3; ++d) {
        const std::array<double, 1> at{place[d]};
        basis[d] = element::interpolation(gll.points, at);
      }
      std::vector<std::int64_t> places;
      std::vector<double> amplitudes;
      for (int p = 0; p < points_; ++p) {
        const int i = p % n, j = p / n % n, k = p / (n * n);
        const double* g = geometry.jacobian.data() + local * 9 * points_ + p;
        const auto at = [&](int d) {
          return Vector{g[3 * d * points_], g[(3 * d + 1) * points_], g[(3 * d + 2) * points_]};
        };
        const double mass = gll.weights[i] * gll.weights[j] * gll.weights[k] * dot(at(0), cross(at(1), at(2)));
        const double factor = -basis[0][i] * basis[1][j] * basis[2][k] / (mass * material_of(options, local).eps);
        for (int c = 0; c < 3; ++c) {
          places.push_back((static_cast<std::int64_t>(local) * 6 + c) * points_ + p);
          amplitudes.push_back(factor * dipole.moment[c]);
        }
      }
      touched_.insert(static_cast<std::int32_t>(local));
      currents_.push_back(
          {dipole.pulse, device::Array<std::int64_t>(device_, places), converted<T>(device_, amplitudes)});
    });
  }
}

template <class T>
void Sources<T>::set_up_layer(const mesh::Mesh& mesh, const Options& options) {
  if (options.damping.empty()) return;
  const std::size_t each = 3 * static_cast<std::size_t>(points_);
  if (options.damping.size() != each * static_cast<std::size_t>(mesh.elements()))
    throw std::invalid_argument("maxwell: damping has " + std::to_string(options.damping.size()) +
                                " values on this rank, but three per point are " +
                                std::to_string(each * static_cast<std::size_t>(mesh.elements())));
  std::vector<std::int32_t> elements;
  std::vector<T> damping;
  for (std::size_t e = 0; e < options.damping.size() / each; ++e) {
    const auto own = std::span(options.damping).subspan(e * each, each);
    for (const double value : own)
      if (!(value >= 0 && std::isfinite(value)))
        throw std::invalid_argument("maxwell: the damping of a layer must be at least 0, not " + std::to_string(value));
    if (std::ranges::all_of(own, [](double value) { return value == 0; })) continue;
    elements.push_back(static_cast<std::int32_t>(e));
    damping.insert(damping.end(), own.begin(), own.end());
  }
  layer_elements_ = std::ssize(elements);
  touched_.insert(elements.begin(), elements.end());
  elements_ = device::Array<std::int32_t>(device_, elements);
  damping_ = device::Array<T>(device_, damping);
  auxiliary_ = device::Array<T>(device_, 2 * damping.size());
  auxiliary_residual_ = device::Array<T>(device_, 2 * damping.size());
  auxiliary_.zero();
  auxiliary_residual_.zero();
}

template <class T>
void Sources<T>::set_clock(double time, device::Stream& stream) {
  if (driven_) set_clock_(stream, 1, {32}, time, clock_.data());
}

template <class T>
void Sources<T>::advance_clock(double dt, device::Stream& stream) {
  if (driven_) advance_clock_(stream, 1, {32}, dt, clock_.data());
}

template <class T>
void Sources<T>::add_incident(double offset, bool steady, exchange::View<T> traces, device::Stream& stream) const {
  for (const Wave& wave : waves_) {
    const auto count = static_cast<std::int64_t>(wave.points.size());
    incident_(stream, blocks(count), shape, count, steady ? steady_pulse : wave.pulse, clock_.data(), offset,
              wave.points.data(), wave.delays.data(), wave.amplitudes.data(), traces.data, traces.entry, traces.field);
  }
}

template <class T>
void Sources<T>::add_currents(double offset, bool steady, double dt, T* residual, device::Stream& stream) const {
  for (const Current& current : currents_) {
    const auto count = static_cast<std::int64_t>(current.places.size());
    current_(stream, blocks(count), shape, count, steady ? steady_pulse : current.pulse, clock_.data(), offset, dt,
             current.places.data(), current.amplitudes.data(), residual);
  }
}

template <class T>
void Sources<T>::add_layer(double a, double b, double dt, bool step, const T* fields, T* residual,
                           device::Stream& stream) {
  if (layer_elements_ == 0) return;
  const long count = layer_elements_ * points_;
  layer_(stream, blocks(count), shape, count, points_, step, a, b, dt, elements_.data(), damping_.data(), fields,
         residual, auxiliary_.data(), auxiliary_residual_.data());
}

template <class T>
void Sources<T>::rest() {
  if (layer_elements_ == 0) return;
  auxiliary_.zero();
  auxiliary_residual_.zero();
}

template <class T>
std::vector<T> Sources<T>::layer_memory() const {
  const auto each = static_cast<std::size_t>(6 * points_);
  std::vector<T> all(static_cast<std::size_t>(all_elements_) * each, T(0));
  if (layer_elements_ == 0) return all;
  const std::vector<std::int32_t> elements = elements_.download();
  const std::vector<T> held = auxiliary_.download();
  for (std::size_t own = 0; own < elements.size(); ++own)
    std::copy_n(held.begin() + static_cast<std::ptrdiff_t>(own * each), each,
                all.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(elements[own]) * each));
  return all;
}

template <class T>
void Sources<T>::set_layer_memory(std::span<const T> values) {
  rest();
  if (layer_elements_ == 0) return;
  const auto each = static_cast<std::size_t>(6 * points_);
  std::vector<T> held;
  for (const std::int32_t element : elements_.download()) {
    const auto own = values.subspan(static_cast<std::size_t>(element) * each, each);
    held.insert(held.end(), own.begin(), own.end());
  }
  auxiliary_.upload(held);
}

template <class T>
std::map<std::string, std::int64_t> Sources<T>::memory_bytes() const {
  std::map<std::string, std::int64_t> bytes;
  std::int64_t sources = 0;
  for (const Wave& wave : waves_) sources += wave.points.bytes() + wave.delays.bytes() + wave.amplitudes.bytes();
  for (const Current& current : currents_) sources += current.places.bytes() + current.amplitudes.bytes();
  if (sources > 0) bytes["sources"] = sources;
  if (layer_elements_ > 0)
    bytes["matched layer"] = static_cast<std::int64_t>(damping_.bytes() + auxiliary_.bytes() +
                                                       auxiliary_residual_.bytes() + elements_.bytes());
  return bytes;
}

template class Sources<float>;
template class Sources<double>;

}  // namespace weft::maxwell
