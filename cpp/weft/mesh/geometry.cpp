#include "weft/mesh/geometry.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <sstream>
#include <stdexcept>

#include "weft/element/gll.hpp"
#include "weft/mesh/shape.hpp"
#include "weft/mesh/tensor.hpp"
#include "weft/mesh/trilinear.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::mesh {
namespace {

// dx_c/dr_d of one element: column [3 d + c], one value per point.
struct Derivatives {
  explicit Derivatives(int points) : values(9 * points), points(points) {}
  double* of(int direction, int component) { return values.data() + (3 * direction + component) * points; }
  std::vector<double> values;
  int points;
};

// The derivative of the trilinear map in direction d is bilinear in the other two directions: half the vector of the
// edge.
void trilinear_derivatives(const double* corners, const std::vector<double>& x, Derivatives& out) {
  const int n1 = static_cast<int>(x.size());
  constexpr std::array<int, 3> bit{1, 2, 4};
  for (int d = 0; d < 3; ++d) {
    const int a = d == 0 ? 1 : 0, b = d == 2 ? 1 : 2;  // the other two directions
    for (int c = 0; c < 3; ++c) {
      auto edge = [&](int corner) { return 0.5 * (corners[3 * (corner + bit[d]) + c] - corners[3 * corner + c]); };
      const double e0 = edge(0), e1 = edge(bit[a]), e2 = edge(bit[b]), e3 = edge(bit[a] + bit[b]);
      double* to = out.of(d, c);
      for (int k = 0; k < n1; ++k) {
        for (int j = 0; j < n1; ++j) {
          for (int i = 0; i < n1; ++i) {
            const std::array<int, 3> at{i, j, k};
            const double u = 0.5 * (1 + x[at[a]]), v = 0.5 * (1 + x[at[b]]);
            *to++ = (1 - v) * ((1 - u) * e0 + u * e1) + v * ((1 - u) * e2 + u * e3);
          }
        }
      }
    }
  }
}

void nodal_derivatives(const double* coordinates, const element::Gll& gll, std::vector<double>& component,
                       Derivatives& out) {
  const int n1 = gll.order + 1, points = n1 * n1 * n1;
  component.resize(points);
  for (int c = 0; c < 3; ++c) {
    for (int p = 0; p < points; ++p) component[p] = coordinates[3 * p + c];
    apply_along(gll.derivative.data(), n1, n1, n1 * n1, 1, component.data(), out.of(0, c));
    apply_along(gll.derivative.data(), n1, n1, n1, n1, component.data(), out.of(1, c));
    apply_along(gll.derivative.data(), n1, n1, 1, n1 * n1, component.data(), out.of(2, c));
  }
}

// Returns the smallest Jacobian of one element, NaN if any of them is NaN. with_factors: fills its g and mass, too.
template <bool with_factors>
double metrics(Derivatives& derivatives, const double* weights, double* g, double* mass) {
  const double *xr = derivatives.of(0, 0), *yr = derivatives.of(0, 1), *zr = derivatives.of(0, 2);
  const double *xs = derivatives.of(1, 0), *ys = derivatives.of(1, 1), *zs = derivatives.of(1, 2);
  const double *xt = derivatives.of(2, 0), *yt = derivatives.of(2, 1), *zt = derivatives.of(2, 2);
  double smallest = std::numeric_limits<double>::infinity();
  double sum = 0;  // unlike a minimum, a sum preserves NaN
#pragma omp simd reduction(min : smallest) reduction(+ : sum)
  for (int p = 0; p < derivatives.points; ++p) {
    // J grad r, J grad s, J grad t: the cross products of the columns of dx/dr.
    const double rx = ys[p] * zt[p] - zs[p] * yt[p], ry = zs[p] * xt[p] - xs[p] * zt[p],
                 rz = xs[p] * yt[p] - ys[p] * xt[p];
    const double jacobian = xr[p] * rx + yr[p] * ry + zr[p] * rz;
    if constexpr (with_factors) {
      const double sx = yt[p] * zr[p] - zt[p] * yr[p], sy = zt[p] * xr[p] - xt[p] * zr[p],
                   sz = xt[p] * yr[p] - yt[p] * xr[p];
      const double tx = yr[p] * zs[p] - zr[p] * ys[p], ty = zr[p] * xs[p] - xr[p] * zs[p],
                   tz = xr[p] * ys[p] - yr[p] * xs[p];
      const double scale = weights[p] / jacobian;
      g[6 * p + 0] = scale * (rx * rx + ry * ry + rz * rz);
      g[6 * p + 1] = scale * (rx * sx + ry * sy + rz * sz);
      g[6 * p + 2] = scale * (rx * tx + ry * ty + rz * tz);
      g[6 * p + 3] = scale * (sx * sx + sy * sy + sz * sz);
      g[6 * p + 4] = scale * (sx * tx + sy * ty + sz * tz);
      g[6 * p + 5] = scale * (tx * tx + ty * ty + tz * tz);
      mass[p] = weights[p] * jacobian;
    }
    smallest = jacobian < smallest ? jacobian : smallest;
    sum += jacobian;
  }
  return std::isnan(sum) ? sum : smallest;
}

// The Jacobian of a parallelepiped.
double constant_jacobian(const Mesh& mesh, std::int64_t e) {
  const std::array<double, 24> map = trilinear_map(corners_of(mesh, e).data());
  const auto edge = [&](int m, int d) { return map[static_cast<std::size_t>(3 * m + d)]; };
  return edge(1, 0) * (edge(2, 1) * edge(3, 2) - edge(2, 2) * edge(3, 1)) +
         edge(1, 1) * (edge(2, 2) * edge(3, 0) - edge(2, 0) * edge(3, 2)) +
         edge(1, 2) * (edge(2, 0) * edge(3, 1) - edge(2, 1) * edge(3, 0));
}

// The mesh's coefficient at the n1^3 points of an element, clamped to the range of its values: if it is steep, the
// interpolant at a lower order may leave that range and become negative.
void coefficient_at_points(const Mesh& mesh, std::int64_t e, const double* matrix, int n1, std::vector<double>& between,
                           std::vector<double>& out) {
  const int c1 = mesh.coefficient_order + 1;
  const double* const given = mesh.coefficient.data() + e * c1 * c1 * c1;
  between.resize(static_cast<std::size_t>(c1) * c1 * n1 + static_cast<std::size_t>(c1) * n1 * n1);
  out.resize(static_cast<std::size_t>(n1) * n1 * n1);
  double* const once = between.data();
  double* const twice = once + static_cast<std::size_t>(c1) * c1 * n1;
  apply_along(matrix, n1, c1, c1 * c1, 1, given, once);
  apply_along(matrix, n1, c1, c1, n1, once, twice);
  apply_along(matrix, n1, c1, 1, n1 * n1, twice, out.data());
  const auto [low, high] = std::minmax_element(given, given + c1 * c1 * c1);
  for (double& value : out) value = std::clamp(value, *low, *high);
}

}  // namespace

ElementFactors::ElementFactors(const Mesh& mesh, int order) : mesh_(mesh), order_(order) {
  const auto& gll = element::gll(order);
  const int n1 = order + 1, points = n1 * n1 * n1;
  weights_.resize(points);
  for (int p = 0; p < points; ++p)
    weights_[p] = gll.weights[p % n1] * gll.weights[p / n1 % n1] * gll.weights[p / (n1 * n1)];
  interpolation_ = element::interpolation(element::gll(mesh.geometry_order).points, gll.points);
  if (mesh.coefficient.size() > 0)
    coefficient_interpolation_ = element::interpolation(element::gll(mesh.coefficient_order).points, gll.points);
}

void ElementFactors::each(std::span<const std::int64_t> elements, const Use& use) {
  work(std::ssize(elements), elements.data(), &use);
}
void ElementFactors::each(const Use& use) { work(mesh_.elements(), nullptr, &use); }
void ElementFactors::jacobians(std::span<const std::int64_t> elements) {
  work(std::ssize(elements), elements.data(), nullptr);
}
void ElementFactors::jacobians() { work(mesh_.elements(), nullptr, nullptr); }

// use: nullptr if the factors are not needed.
void ElementFactors::work(std::int64_t count, const std::int64_t* elements, const Use* use) {
  const trace::Span span("geometric factors", trace::Category::cpu);
  const auto& gll = element::gll(order_);
  const int n1 = order_ + 1, points = n1 * n1 * n1, q1 = mesh_.geometry_order + 1;
#pragma omp parallel
  {
    Derivatives derivatives(points);
    std::vector<double> component, once(q1 * q1 * n1 * 3), twice(q1 * n1 * n1 * 3), coordinates(3 * points);
    std::vector<double> g(6 * points), mass(points), between, coefficient;
#pragma omp for
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t e = elements == nullptr ? i : elements[i];
      const auto differentiate = [&] {
        if (mesh_.straight()) {
          trilinear_derivatives(mesh_.nodes.data() + 24 * e, gll.points, derivatives);
          return;
        }
        const double* matrix = interpolation_.data();
        apply_along(matrix, n1, q1, q1 * q1, 3, mesh_.nodes.data() + e * q1 * q1 * q1 * 3, once.data());
        apply_along(matrix, n1, q1, q1, n1 * 3, once.data(), twice.data());
        apply_along(matrix, n1, q1, 1, n1 * n1 * 3, twice.data(), coordinates.data());
        nodal_derivatives(coordinates.data(), gll, component, derivatives);
      };
      double smallest = 0;
      if (use == nullptr && shape_of(mesh_, e) <= Shape::affine) {
        smallest = constant_jacobian(mesh_, e);
      } else {
        differentiate();
        smallest = use == nullptr ? metrics<false>(derivatives, nullptr, nullptr, nullptr)
                                  : metrics<true>(derivatives, weights_.data(), g.data(), mass.data());
      }
      if (!(smallest > 0)) {
#pragma omp critical
        if (worst_element_ < 0 || !(smallest >= worst_)) {
          worst_ = smallest;
          worst_element_ = e;
        }
      }
      if (use == nullptr) continue;
      if (!coefficient_interpolation_.empty()) {
        coefficient_at_points(mesh_, e, coefficient_interpolation_.data(), n1, between, coefficient);
        for (int p = 0; p < points; ++p)
          for (int c = 0; c < 6; ++c) g[6 * p + c] *= coefficient[p];
      }
      (*use)(i, g.data(), mass.data());
    }
  }
}

void ElementFactors::check() const {
  mesh_.comm.together([&] {
    if (worst_element_ < 0) return;
    std::ostringstream text;
    text << mesh_.source << ": element " << mesh_.element_ids[worst_element_] << " (counting from 0) has Jacobian "
         << worst_ << " at polynomial order " << order_ << "; every Jacobian must be positive. "
         << "The element is turned inside out, folded or flat there: repair the mesh";
    if (!mesh_.straight()) text << ", or try another order, which samples the curved element elsewhere";
    throw std::runtime_error(text.str());
  });
}

GeometricFactors geometric_factors(const Mesh& mesh, int order) {
  ElementFactors factors(mesh, order);
  const std::size_t each = (order + 1) * (order + 1) * (order + 1), points = mesh.element_ids.size() * each;
  GeometricFactors all{std::vector<double>(6 * points), std::vector<double>(points)};
  factors.each([&](std::int64_t e, const double* g, const double* mass) {
    std::copy_n(g, 6 * each, all.g.begin() + e * 6 * each);
    std::copy_n(mass, each, all.mass.begin() + e * each);
  });
  factors.check();
  return all;
}

std::vector<double> mass_matrix(const Mesh& mesh, int order) {
  ElementFactors factors(mesh, order);
  const std::size_t each = (order + 1) * (order + 1) * (order + 1);
  std::vector<double> all(mesh.element_ids.size() * each);
  factors.each(
      [&](std::int64_t e, const double*, const double* mass) { std::copy_n(mass, each, all.begin() + e * each); });
  factors.check();
  return all;
}

void check_jacobians(const Mesh& mesh, int order) {
  ElementFactors factors(mesh, order);
  factors.jacobians();
  factors.check();
}

}  // namespace weft::mesh
