#include "weft/maxwell/operator.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <sstream>
#include <stdexcept>

#include "weft/element/gll.hpp"
#include "weft/mesh/conditions.hpp"
#include "weft/mesh/reference.hpp"
#include "weft/mesh/tensor.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::maxwell {
namespace {

constexpr double normals_tolerance = 1e-6;  // relative; loose enough for geometry from files in single precision

void check_materials(const Options& options, std::int64_t elements) {
  for (const auto& [region, m] : options.materials) {
    const auto refuse = [&, &name = region](const char* what, double value, const char* rule) {
      std::ostringstream text;
      text << "maxwell: region \"" << name << "\" has " << what << " = " << value << "; it must be " << rule;
      throw std::invalid_argument(text.str());
    };
    if (!(m.eps > 0 && std::isfinite(m.eps))) refuse("eps", m.eps, "positive");
    if (!(m.mu > 0 && std::isfinite(m.mu))) refuse("mu", m.mu, "positive");
    if (!(m.sigma >= 0 && std::isfinite(m.sigma))) refuse("sigma", m.sigma, "at least 0");
  }
  if (options.materials.empty()) throw std::invalid_argument("maxwell: no material is given");
  if (!options.regions.empty() && std::ssize(options.regions) != elements)
    throw std::invalid_argument("maxwell: regions are given for " + std::to_string(options.regions.size()) + " of " +
                                std::to_string(elements) + " elements of this rank");
  for (std::size_t e = 0; e < options.regions.size(); ++e) {
    const std::int32_t region = options.regions[e];
    if (region < 0 || region >= std::ssize(options.materials))
      throw std::invalid_argument("maxwell: region " + std::to_string(region) +
                                  " has no material: materials are given for regions 0 to " +
                                  std::to_string(options.materials.size() - 1) + "; give it eps, mu and sigma");
  }
}

const Material& material_of(const Options& options, std::size_t element) {
  return options.materials[options.regions.empty() ? 0 : options.regions[element]].second;
}

}  // namespace

std::string name(Flux flux) { return flux == Flux::upwind ? "upwind" : "central"; }
std::string name(Kernels kernels) { return kernels == Kernels::portable ? "portable" : "simd"; }
std::string name(Threads threads) {
  return threads == Threads::automatic ? "auto" : threads == Threads::points ? "points" : "columns";
}
std::string name(Condition condition) {
  return condition == Condition::pec ? "pec" : condition == Condition::pmc ? "pmc" : "absorbing";
}
std::string name(Integrator integrator) {
  return integrator == Integrator::runge_kutta ? "runge-kutta" : "exponential";
}

template <class T>
Operator<T>::Operator(const mesh::Mesh& mesh, const Options& options) : options_(options), mesh_(mesh) {
  const std::int64_t n = options_.order + 1;
  points_ = n * n * n;
  mesh_.comm.together([&] {
    element::gll(options_.order);  // rejects orders outside 1..15
    check_materials(options_, mesh_.elements());
  });
  std::vector<std::string> given;
  for (const auto& [name, condition] : options_.boundaries) given.push_back(name);
  mesh::check_conditions(mesh_, given, "maxwell", "pec, pmc, absorbing");
  const Geometry shape = geometry(mesh_, options_.order);
  const std::vector<std::int64_t> ids = face_point_ids(mesh_, options_.order);
  const auto connectivity = std::make_shared<exchange::Connectivity>(ids, mesh_.comm);
  const Coefficients factors = coefficients(shape, connectivity);

  dt_limit_ = 1 / mesh_.comm.max(fastest_rate(shape));
  sources_ = std::make_unique<Sources<T>>(mesh_, options_, shape, connectivity);
  options_.damping = {};
  if (options_.kernels == Kernels::simd) {
    mesh_.comm.together([&] {
      if (!options_.waves.empty())
        throw std::invalid_argument("maxwell: kernels = \"simd\" do not support plane waves; use \"portable\"");
    });
    simd_ = std::make_unique<SimdOperator<T>>(mesh_, options_.order, shape, factors, sources_->elements(),
                                              options_.exchange, options_.device);
    return;
  }
  exchange_ = std::make_unique<exchange::GatherScatter<T>>(connectivity, options_.device, options_.exchange, 6,
                                                           trace_layout(*options_.device));
  connectivity->forget_points();
  mesh_.comm.together([&] {
    local_ = std::make_unique<LocalOperator<T>>(shape, factors, options_.order, options_.threads, options_.device);
    traces_ = device::Array<T>(options_.device, ids.size() * 6);
  });
}

// The largest 1 / dt required by the rank's elements: the sum of the contributions of waves, conductivity and a layer's
// damping.
template <class T>
double Operator<T>::fastest_rate(const Geometry& shape) const {
  double fastest = 0;
  const auto each = static_cast<std::size_t>(points_);
  for (std::size_t e = 0; e < shape.spacing.size(); ++e) {
    const Material& m = material_of(options_, e);
    double decay = m.sigma / m.eps;
    if (!options_.damping.empty()) {
      double largest = 0;
      for (std::size_t p = 0; p < each; ++p) {
        const double* sigma = options_.damping.data() + e * 3 * each + p;
        largest = std::max(largest, sigma[0] + sigma[each] + sigma[2 * each]);
      }
      decay += largest;
    }
    fastest = std::max(fastest, 1 / (courant * shape.spacing[e] * std::sqrt(m.eps * m.mu)) + decay / decay_limit);
  }
  return fastest;
}

// The media, and the factors of `lift` in kernels/maxwell.hpp, from the impedances on both sides of each face. The same
// exchange checks whether the two sides of each face match: their normals must add up to zero.
template <class T>
Coefficients Operator<T>::coefficients(const Geometry& shape,
                                       const std::shared_ptr<exchange::Connectivity>& connectivity) {
  const std::size_t face = shape.areas.size() / (6 * std::max<std::size_t>(shape.spacing.size(), 1));
  const std::size_t elements = shape.spacing.size();
  const auto host = device::open("host");
  std::vector<double> sums(shape.areas.size() * 4);
  for (std::size_t e = 0; e < elements; ++e) {
    const Material& m = material_of(options_, e);
    for (std::size_t q = 0; q < 6 * face; ++q) {
      double* to = sums.data() + (e * 6 * face + q) * 4;
      const double* normal = shape.faces.data() + (e * 6 + q / face) * 4 * face + q % face;
      for (int c = 0; c < 3; ++c) to[c] = shape.areas[e * 6 * face + q] * normal[c * face];
      to[3] = std::sqrt(m.mu / m.eps);
    }
  }
  {
    exchange::GatherScatter<double> both(connectivity, host, exchange::Choice{}, 4);
    device::Stream stream(host);
    both.gather_scatter(sums.data(), exchange::Op::add, stream);
    stream.synchronize();
  }
  Coefficients result{std::vector<double>(elements * 4), std::vector<double>(elements * 24)};
  mesh_.comm.together([&] {
    for (std::size_t e = 0; e < elements; ++e) {
      const Material& m = material_of(options_, e);
      const double own = std::sqrt(m.mu / m.eps);
      double* media = result.media.data() + 4 * e;
      media[0] = 1 / m.eps;
      media[1] = 1 / m.mu;
      media[2] = m.sigma / m.eps;
      for (std::size_t side = 0; side < 6; ++side) {
        const std::int32_t tag = mesh_.boundaries[e][side];
        double other = own, alpha = options_.flux == Flux::upwind ? 1 : 0, keep_h = 1, keep_e = 1;
        if (tag == 0) {
          const double* first = sums.data() + (e * 6 + side) * face * 4;
          other = first[3] - own;
          for (std::size_t q = 0; q < face; ++q) {
            const double* sum = first + 4 * q;
            if (std::hypot(sum[0], sum[1], sum[2]) <= normals_tolerance * shape.areas[(e * 6 + side) * face + q])
              continue;
            std::ostringstream text;
            text << "maxwell: face " << mesh::face_names[side] << " of element " << mesh_.element_ids[e]
                 << " (counting from 0) of " << mesh_.source
                 << " and the face it meets are not parallel: fields cannot pass between periodic faces that are "
                    "turned against each other or differ in shape; make the pair a translation of one another";
            throw std::invalid_argument(text.str());
          }
        } else {
          const Condition condition = options_.boundaries.at(mesh_.boundary_names.at(tag - 1));
          if (condition == Condition::pec) keep_h = 0, keep_e = 2;
          if (condition == Condition::pmc) keep_h = 2, keep_e = 0;
          if (condition == Condition::absorbing) alpha = 1;
        }
        double* f = result.fluxes.data() + (e * 6 + side) * 4;
        f[0] = keep_h * media[0] * other / (own + other);
        f[1] = keep_e * media[0] * alpha / (own + other);
        f[2] = keep_e * media[1] * own / (own + other);
        f[3] = keep_h * media[1] * alpha * own * other / (own + other);
      }
    }
  });
  return result;
}

template <class T>
void Operator<T>::apply(double time, const T* fields, T* rates, device::Stream& stream) {
  set_clock(time, stream);
  if (simd_) {
    simd_->prepare_driven(0, rates);
    sources_->add_currents(0, false, 1, rates, stream);
    sources_->add_layer(0, 0, 1, false, fields, rates, stream);
    simd_->rates(fields, rates, stream);
    return;
  }
  rates_and_update(0, 0, 0, 1, const_cast<T*>(fields), rates, false, stream);
}

template <class T>
void Operator<T>::begin(const T* fields, device::Stream& stream) {
  if (simd_) simd_->begin(fields, stream);
}

template <class T>
void Operator<T>::stage(double offset, double a, double b, double dt, T* fields, T* residual, bool more,
                        device::Stream& stream) {
  if (!simd_) {
    rates_and_update(offset, a, b, dt, fields, residual, true, stream);
    return;
  }
  simd_->prepare_driven(a, residual);
  sources_->add_currents(offset, false, dt, residual, stream);
  sources_->add_layer(a, b, dt, true, fields, residual, stream);
  simd_->stage(a, b, dt, fields, residual, more, stream);
}

template <class T>
void Operator<T>::rates_and_update(double offset, double a, double b, double dt, T* fields, T* residual,
                                   bool update_fields, device::Stream& stream) {
  const auto step = static_cast<T>(dt);
  local_->traces(fields, traces(), stream);
  exchange_->start(traces_.data(), exchange::Op::add, stream);
  local_->curl(static_cast<T>(a), step, fields, residual, stream);
  sources_->add_currents(offset, false, dt, residual, stream);
  sources_->add_layer(a, b, dt, update_fields, fields, residual, stream);
  exchange_->finish(stream);
  sources_->add_incident(offset, false, traces(), stream);
  local_->update(step, static_cast<T>(b), traces().read_only(), update_fields ? fields : nullptr, residual, stream);
}

template <class T>
void Operator<T>::source_rates(T* rates, device::Stream& stream) {
  const auto& device = options_.device;
  if (entries() == 0) return;
  device->fill_zero(rates, static_cast<std::size_t>(entries()) * sizeof(T), stream);
  sources_->add_currents(0, true, 1, rates, stream);
  if (simd_) return;  // which has no waves
  device->fill_zero(traces_.data(), traces_.bytes(), stream);
  sources_->add_incident(0, true, traces(), stream);
  local_->update(T(1), T(0), traces().read_only(), nullptr, rates, stream);
}

template <class T>
std::pair<double, double> Operator<T>::energy(const T* fields, device::Stream& stream) {
  const auto [electric, magnetic] = simd_ ? simd_->energy(fields) : local_->energy(fields, stream);
  std::array<double, 2> sums{electric, magnetic};
  mesh_.comm.sum(sums.data(), 2);
  return {sums[0], sums[1]};
}

template <class T>
std::pair<double, double> Operator<T>::divergence(std::span<const T> fields) const {
  const element::Gll& gll = element::gll(options_.order);
  const int n = options_.order + 1;
  const Geometry shape = geometry(mesh_, options_.order);
  const auto each = static_cast<std::size_t>(points_);
  std::array<double, 2> squares{0, 0};
  std::vector<double> flux(each), derivative(each), sum(each), jacobian(each);
  for (std::size_t e = 0; e < shape.spacing.size(); ++e) {
    const Material& m = material_of(options_, e);
    const double* g = shape.jacobian.data() + e * 9 * each;
    for (int which = 0; which < 2; ++which) {
      std::ranges::fill(sum, 0);
      for (int d = 0; d < 3; ++d) {
        const double *u = g + (d + 1) % 3 * 3 * each, *v = g + (d + 2) % 3 * 3 * each, *w = g + d * 3 * each;
        for (std::size_t p = 0; p < each; ++p) {
          const std::array<double, 3> normal{u[each + p] * v[2 * each + p] - u[2 * each + p] * v[each + p],
                                             u[2 * each + p] * v[p] - u[p] * v[2 * each + p],
                                             u[p] * v[each + p] - u[each + p] * v[p]};
          jacobian[p] = normal[0] * w[p] + normal[1] * w[each + p] + normal[2] * w[2 * each + p];
          const T* field = fields.data() + e * 6 * each + which * 3 * each + p;
          flux[p] = normal[0] * field[0] + normal[1] * field[each] + normal[2] * field[2 * each];
        }
        const int inner = d == 0 ? 1 : d == 1 ? n : n * n;
        mesh::apply_along(gll.derivative.data(), n, n, n * n / inner, inner, flux.data(), derivative.data());
        for (std::size_t p = 0; p < each; ++p) sum[p] += derivative[p];
      }
      const double factor = which == 0 ? m.eps : m.mu;
      for (std::size_t p = 0; p < each; ++p) {
        const double weight = gll.weights[p % n] * gll.weights[p / n % n] * gll.weights[p / (n * n)];
        squares[which] += weight * factor * factor * sum[p] * sum[p] / jacobian[p];
      }
    }
  }
  mesh_.comm.sum(squares.data(), 2);
  return {std::sqrt(squares[0]), std::sqrt(squares[1])};
}

template <class T>
std::map<std::string, std::int64_t> Operator<T>::memory_bytes() const {
  auto bytes = simd_ ? simd_->memory_bytes() : local_->memory_bytes();
  bytes.merge(sources_->memory_bytes());
  if (simd_) return bytes;
  bytes["traces"] = static_cast<std::int64_t>(traces_.bytes());
  bytes["exchange"] = static_cast<std::int64_t>(exchange_->index_bytes());
  return bytes;
}

template <class T>
double Operator<T>::paper_flops() const {
  return static_cast<double>(points()) * (36.0 * (options_.order + 1) + 84);
}

template <class T>
double Operator<T>::flops() const {
  if (simd_) return simd_->flops();
  const double n = options_.order + 1;
  // Per point: 12 derivatives; 6 covariant components of 5; J 14; 6 differences, 6 rates of 5 + 1 and their 3
  // operations of the residual; fields 2 x 6. Per face point: traces 6 x 3, lift 6 x 6 + 4, 6 x 2 of the residual.
  return static_cast<double>(points()) * (24 * n + 30 + 14 + 6 + 54 + 12) +
         static_cast<double>(elements()) * 6 * n * n * (18 + 40 + 12);
}

template <class T>
double Operator<T>::bytes() const {
  if (simd_) return simd_->bytes();
  const double n = options_.order + 1;
  // Per point: curl reads 9 + 6, and reads and writes 6; update reads and writes 6 + 6 (the residual is written on
  // faces only). Per face point: normals 3 and fields 6 are read, traces 6 written; sums 6 read and written; update
  // reads 4 + 6 and writes the residual 6.
  return sizeof(T) * (static_cast<double>(points()) * (9 + 6 + 12 + 18) +
                      static_cast<double>(elements()) * 6 * n * n * (3 + 6 + 6 + 12 + 10 + 6));
}

template class Operator<float>;
template class Operator<double>;

}  // namespace weft::maxwell
