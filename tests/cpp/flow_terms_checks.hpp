// The flow's terms written out from their definitions: dense vectors by global id on every rank, full tensors of fine
// points with derivatives taken there, coordinates differentiated like any other field.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "simd_checks.hpp"
#include "weft/element/gauss.hpp"
#include "weft/element/gll.hpp"
#include "weft/flow/terms.hpp"
#include "weft/mesh/mesh.hpp"
#include "weft/mesh/points.hpp"
#include "weft/mesh/tensor.hpp"
#include "weft/space/space.hpp"

namespace weft::flow {

using Field = std::vector<double>;  // [global_points + 1] by id; [0] is not used
using Function = std::function<double(double, double, double)>;

// The points of a tensor product on the elements: how values at GLL points are interpolated to them, and how
// derivatives are computed there.
struct Rule {
  int points;
  std::vector<double> interpolation, derivative, weights;  // [m][n], [m][m], [m]
};
inline Rule gll_rule(int order) {
  const element::Gll& gll = element::gll(order);
  Rule rule{order + 1, std::vector<double>((order + 1) * (order + 1), 0.0), gll.derivative, gll.weights};
  for (int i = 0; i <= order; ++i) rule.interpolation[i * (order + 2)] = 1;
  return rule;
}
// Derivatives at the fine points, from differences of barycentric interpolation to the same number of GLL points.
inline Rule gauss_rule(int order) {
  const element::Gauss gauss = element::gauss(element::dealiasing_points(order));
  const int m = static_cast<int>(gauss.points.size());
  const element::Gll& finer = element::gll(std::min(m - 1, element::max_order));
  Rule rule{m, element::interpolation(element::gll(order).points, gauss.points), {}, gauss.weights};
  // d/dx at Gauss points for polynomials of degree `order` <= degree of finer.
  const int q = finer.order + 1;
  const std::vector<double> to = element::interpolation(gauss.points, finer.points),
                            from = element::interpolation(finer.points, gauss.points);
  std::vector<double> middle(q * m, 0.0);
  rule.derivative.assign(m * m, 0.0);
  for (int i = 0; i < q; ++i)
    for (int j = 0; j < m; ++j)
      for (int k = 0; k < q; ++k) middle[i * m + j] += finer.derivative[i * q + k] * to[k * m + j];
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < m; ++j)
      for (int k = 0; k < q; ++k) rule.derivative[i * m + j] += from[i * q + k] * middle[k * m + j];
  return rule;
}

class Reference {
 public:
  Reference(const mesh::Mesh& mesh, int order)
      : mesh_(mesh), order_(order), ids_(mesh::point_ids(mesh, order)), x_(mesh::point_coordinates(mesh, order)) {}

  std::size_t ids_end() const { return static_cast<std::size_t>(mesh::global_points(mesh_, order_)) + 1; }
  Field random(int seed) const {
    Field values(ids_end());
    for (std::size_t id = 1; id < values.size(); ++id)
      values[id] = poisson::value_of(static_cast<std::int64_t>(id) * 31 + seed);
    return values;
  }
  // Every rank knows all values.
  Field of(const Function& f) const {
    Field values(ids_end(), 0.0), count(ids_end(), 0.0);
    for (std::size_t p = 0; p < ids_.size(); ++p) {
      values[ids_[p]] += f(x_[3 * p], x_[3 * p + 1], x_[3 * p + 2]);
      count[ids_[p]] += 1;
    }
    values = poisson::summed(values, mesh_.comm);
    count = poisson::summed(count, mesh_.comm);
    for (std::size_t id = 1; id < values.size(); ++id) values[id] /= count[id];
    return values;
  }

  std::vector<Field> convect(const std::vector<Field>& u, const std::vector<Field>& fields) const {
    const Rule rule = gauss_rule(order_);
    return assembled(rule, fields.size(), [&](std::int64_t e, const Metric& g, std::vector<Field>& out) {
      const std::vector<Field> v = values(rule, u, e);
      for (std::size_t c = 0; c < fields.size(); ++c) {
        const std::array<Field, 3> gradient = derivatives(rule, values(rule, {fields[c]}, e)[0]);
        Field product(g.weight.size());
        for (std::size_t p = 0; p < product.size(); ++p)
          for (int i = 0; i < 3; ++i)
            for (int a = 0; a < 3; ++a) product[p] += g.weight[p] * v[i][p] * g.cofactor[3 * a + i][p] * gradient[a][p];
        project(rule, product, out[c]);
      }
    });
  }
  // (v, u . grad f) - (grad v, u f), half of it, and half the integral of v f u . n over the boundary.
  std::vector<Field> convect_skew(const std::vector<Field>& u, const std::vector<Field>& fields) const {
    const Rule rule = gll_rule(order_);
    return assembled(rule, fields.size(), [&](std::int64_t e, const Metric& g, std::vector<Field>& out) {
      const int n = order_ + 1;
      const std::vector<Field> v = values(rule, u, e);
      std::array<Field, 3> flux;
      for (int a = 0; a < 3; ++a) {
        flux[a].resize(g.weight.size());
        for (std::size_t p = 0; p < flux[a].size(); ++p)
          for (int i = 0; i < 3; ++i) flux[a][p] += g.weight[p] * v[i][p] * g.cofactor[3 * a + i][p];
      }
      for (std::size_t c = 0; c < fields.size(); ++c) {
        const Field f = values(rule, {fields[c]}, e)[0];
        const std::array<Field, 3> gradient = derivatives(rule, f);
        std::array<Field, 3> carried;
        for (int a = 0; a < 3; ++a) {
          carried[a].resize(f.size());
          for (std::size_t p = 0; p < f.size(); ++p) {
            out[c][p] += flux[a][p] * gradient[a][p] / 2;
            carried[a][p] = -flux[a][p] * f[p] / 2;
          }
        }
        add_transposed(rule, carried, out[c]);
        for (int side = 0; side < 6; ++side) {
          if (mesh_.boundaries[e][side] == 0) continue;
          const int a = side / 2, end = side % 2 == 0 ? 0 : n - 1;
          for (int q = 0; q < n * n; ++q) {
            const int p = a == 0 ? q * n + end : a == 1 ? (q / n * n + end) * n + q % n : end * n * n + q;
            out[c][p] += (side % 2 == 0 ? -1 : 1) * flux[a][p] / rule.weights[end] * f[p] / 2;
          }
        }
      }
    });
  }
  std::vector<Field> gradient(const Field& f) const {
    const Rule rule = gll_rule(order_);
    return assembled(rule, 3, [&](std::int64_t e, const Metric& g, std::vector<Field>& out) {
      const std::array<Field, 3> d = derivatives(rule, values(rule, {f}, e)[0]);
      for (int i = 0; i < 3; ++i)
        for (std::size_t p = 0; p < g.weight.size(); ++p)
          for (int a = 0; a < 3; ++a) out[i][p] += g.weight[p] * g.cofactor[3 * a + i][p] * d[a][p];
    });
  }
  std::vector<Field> weak_divergence(const std::vector<Field>& f) const {
    const Rule rule = gll_rule(order_);
    return assembled(rule, 1, [&](std::int64_t e, const Metric& g, std::vector<Field>& out) {
      const std::vector<Field> v = values(rule, f, e);
      std::array<Field, 3> flux;
      for (int a = 0; a < 3; ++a) {
        flux[a].resize(g.weight.size());
        for (std::size_t p = 0; p < g.weight.size(); ++p)
          for (int i = 0; i < 3; ++i) flux[a][p] += g.weight[p] * v[i][p] * g.cofactor[3 * a + i][p];
      }
      add_transposed(rule, flux, out[0]);
    });
  }
  // w J du_i/dx_j summed by `use` into the outputs.
  std::vector<Field> divergence(const std::vector<Field>& u) const {
    return of_gradients(u, 1, [](const auto& d, std::size_t p, std::vector<Field>& out) {
      out[0][p] = d(0, 0, p) + d(1, 1, p) + d(2, 2, p);
    });
  }
  std::vector<Field> curl(const std::vector<Field>& u) const {
    return of_gradients(u, 3, [](const auto& d, std::size_t p, std::vector<Field>& out) {
      for (int i = 0; i < 3; ++i) out[i][p] = d((i + 2) % 3, (i + 1) % 3, p) - d((i + 1) % 3, (i + 2) % 3, p);
    });
  }

 private:
  struct Metric {
    Field weight;                   // of quadrature
    std::array<Field, 9> cofactor;  // J dr_a/dx_i
  };

  template <class Use>
  std::vector<Field> of_gradients(const std::vector<Field>& u, std::size_t outputs, Use&& use) const {
    const Rule rule = gll_rule(order_);
    return assembled(rule, outputs, [&](std::int64_t e, const Metric& g, std::vector<Field>& out) {
      std::array<std::array<Field, 3>, 3> d;
      for (int c = 0; c < 3; ++c) d[c] = derivatives(rule, values(rule, {u[c]}, e)[0]);
      const auto gradient = [&](int c, int i, std::size_t p) {
        double sum = 0;
        for (int a = 0; a < 3; ++a) sum += g.weight[p] * g.cofactor[3 * a + i][p] * d[c][a][p];
        return sum;
      };
      for (std::size_t p = 0; p < g.weight.size(); ++p) use(gradient, p, out);
    });
  }

  // Values of an element at the points of the rule.
  Field on_points(const Rule& rule, const Field& coarse) const {
    const int n = order_ + 1, m = rule.points;
    Field once(m * n * n), twice(m * m * n), fine(m * m * m);
    mesh::apply_along(rule.interpolation.data(), m, n, n * n, 1, coarse.data(), once.data());
    mesh::apply_along(rule.interpolation.data(), m, n, n, m, once.data(), twice.data());
    mesh::apply_along(rule.interpolation.data(), m, n, 1, m * m, twice.data(), fine.data());
    return fine;
  }
  std::vector<Field> values(const Rule& rule, const std::vector<Field>& fields, std::int64_t e) const {
    const std::size_t each = static_cast<std::size_t>(order_ + 1) * (order_ + 1) * (order_ + 1);
    std::vector<Field> result;
    for (const Field& field : fields) {
      Field coarse(each);
      for (std::size_t p = 0; p < each; ++p) coarse[p] = field[ids_[e * each + p]];
      result.push_back(on_points(rule, coarse));
    }
    return result;
  }
  std::array<Field, 3> derivatives(const Rule& rule, const Field& f) const {
    const int m = rule.points;
    std::array<Field, 3> d;
    for (int a = 0; a < 3; ++a) {
      d[a].resize(f.size());
      const int inner = a == 0 ? 1 : a == 1 ? m : m * m;
      mesh::apply_along(rule.derivative.data(), m, m, m * m / inner, inner, f.data(), d[a].data());
    }
    return d;
  }
  // out += sum_a D_a^T flux_a
  void add_transposed(const Rule& rule, const std::array<Field, 3>& flux, Field& out) const {
    const int m = rule.points;
    std::vector<double> transposed(m * m);
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < m; ++j) transposed[i * m + j] = rule.derivative[j * m + i];
    Rule other{m, {}, transposed, {}};
    for (int a = 0; a < 3; ++a) {
      const Field d = derivatives(other, flux[a])[a];
      for (std::size_t p = 0; p < d.size(); ++p) out[p] += d[p];
    }
  }
  // out += I^T values, from the rule's points to the GLL points.
  void project(const Rule& rule, const Field& fine, Field& out) const {
    const int n = order_ + 1, m = rule.points;
    std::vector<double> transposed(n * m);
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < m; ++j) transposed[i * m + j] = rule.interpolation[j * n + i];
    Field once(n * m * m), twice(n * n * m), coarse(n * n * n);
    mesh::apply_along(transposed.data(), n, m, m * m, 1, fine.data(), once.data());
    mesh::apply_along(transposed.data(), n, m, m, n, once.data(), twice.data());
    mesh::apply_along(transposed.data(), n, m, 1, n * n, twice.data(), coarse.data());
    for (std::size_t p = 0; p < coarse.size(); ++p) out[p] += coarse[p];
  }

  template <class Element>
  std::vector<Field> assembled(const Rule& rule, std::size_t outputs, Element&& element) const {
    const std::size_t each = static_cast<std::size_t>(order_ + 1) * (order_ + 1) * (order_ + 1);
    const int m = rule.points;
    std::vector<Field> result(outputs, Field(ids_end(), 0.0));
    for (std::int64_t e = 0; e < mesh_.elements(); ++e) {
      Metric g;
      g.weight.resize(m * m * m);
      for (int p = 0; p < m * m * m; ++p)
        g.weight[p] = rule.weights[p % m] * rule.weights[p / m % m] * rule.weights[p / (m * m)];
      std::array<std::array<Field, 3>, 3> x;  // [component][direction]
      for (int c = 0; c < 3; ++c) {
        Field coarse(each);
        for (std::size_t p = 0; p < each; ++p) coarse[p] = x_[3 * (e * each + p) + c];
        x[c] = derivatives(rule, on_points(rule, coarse));
      }
      for (int a = 0; a < 3; ++a)
        for (int i = 0; i < 3; ++i) {
          const int b = (a + 1) % 3, c = (a + 2) % 3, j = (i + 1) % 3, k = (i + 2) % 3;
          Field& to = g.cofactor[3 * a + i];
          to.resize(m * m * m);
          for (std::size_t p = 0; p < to.size(); ++p) to[p] = x[j][b][p] * x[k][c][p] - x[k][b][p] * x[j][c][p];
        }
      std::vector<Field> out(outputs, Field(each, 0.0));
      element(e, g, out);
      for (std::size_t o = 0; o < outputs; ++o)
        for (std::size_t p = 0; p < each; ++p) result[o][ids_[e * each + p]] += out[o][p];
    }
    for (Field& field : result) field = poisson::summed(field, mesh_.comm);
    return result;
  }

  const mesh::Mesh& mesh_;
  int order_;
  std::vector<std::int64_t> ids_;
  std::vector<double> x_;
};

// The terms on vectors by id: what Terms gives, gathered to all ranks.
template <class T>
class Tested {
 public:
  Tested(const mesh::Mesh& mesh, int order, space::Kernels numbering, space::Kernels kernels,
         const std::shared_ptr<device::Device>& device = device::open("host"))
      : space_(mesh, options(order, numbering, device)),
        terms_(space_, kernels),
        device_(device),
        stream_(device),
        ids_(space_.unknown_ids()),
        ids_end_(static_cast<std::size_t>(mesh::global_points(mesh, order)) + 1) {}

  std::vector<Field> convect(const std::vector<Field>& u, const std::vector<Field>& fields) {
    auto in = vectors(u), f = vectors(fields);
    const int count = static_cast<int>(fields.size());
    return result(count, [&](T* out) { terms_.convect(in.data(), f.data(), count, out, stream_); });
  }
  std::vector<Field> convect(const std::vector<Field>& u) {
    auto in = vectors(u);
    return result(3, [&](T* out) { terms_.convect(in.data(), in.data(), 3, out, stream_); });
  }
  std::vector<Field> convect_skew(const std::vector<Field>& u, const std::vector<Field>& fields) {
    auto in = vectors(u), f = vectors(fields);
    const int count = static_cast<int>(fields.size());
    return result(count, [&](T* out) { terms_.convect_skew(in.data(), f.data(), count, out, stream_); });
  }
  std::vector<Field> convect_skew(const std::vector<Field>& u) {
    auto in = vectors(u);
    return result(3, [&](T* out) { terms_.convect_skew(in.data(), in.data(), 3, out, stream_); });
  }
  std::vector<Field> gradient(const Field& p) {
    auto in = vectors({p});
    return result(3, [&](T* out) { terms_.gradient(in.data(), out, stream_); });
  }
  std::vector<Field> weak_divergence(const std::vector<Field>& f) {
    auto in = vectors(f);
    return result(1, [&](T* out) { terms_.weak_divergence(in.data(), out, stream_); });
  }
  std::vector<Field> divergence(const std::vector<Field>& u) {
    auto in = vectors(u);
    return result(1, [&](T* out) { terms_.divergence(in.data(), out, stream_); });
  }
  std::vector<Field> curl(const std::vector<Field>& u) {
    auto in = vectors(u);
    return result(3, [&](T* out) { terms_.curl(in.data(), out, stream_); });
  }
  Terms<T>& terms() { return terms_; }

 private:
  static space::Options options(int order, space::Kernels kernels, const std::shared_ptr<device::Device>& device) {
    space::Options options;
    options.order = order;
    options.kernels = kernels;
    options.exchange = exchange::Choice{};
    options.device = device;
    return options;
  }
  device::Array<T> vectors(const std::vector<Field>& fields) {
    const auto entries = static_cast<std::size_t>(space_.entries());
    // What apply fills must not matter, except the slots that must stay 0.
    std::vector<T> values(fields.size() * entries, std::numeric_limits<T>::quiet_NaN());
    for (std::size_t f = 0; f < fields.size(); ++f) {
      for (std::size_t i = 0; i < ids_.size(); ++i) values[f * entries + i] = static_cast<T>(fields[f][ids_[i]]);
      values[(f + 1) * entries - 1] = 0;
    }
    return device::Array<T>(device_, values);
  }
  template <class Call>
  std::vector<Field> result(int fields, Call&& call) {
    const auto entries = static_cast<std::size_t>(space_.entries());
    device::Array<T> out(device_, std::vector<T>(fields * entries, std::numeric_limits<T>::quiet_NaN()));
    call(out.data());
    stream_.synchronize();
    const std::vector<T> values = out.download();
    std::vector<Field> all(fields, Field(ids_end_, 0.0));
    for (int f = 0; f < fields; ++f) {
      EXPECT_EQ(values[(f + 1) * entries - 1], T(0)) << "the slot that stays 0";
      for (std::size_t i = 0; i < ids_.size(); ++i) all[f][ids_[i]] = static_cast<double>(values[f * entries + i]);
      all[f] = poisson::summed(all[f], space_.comm());
    }
    return all;
  }

  space::Space<T> space_;
  Terms<T> terms_;
  std::shared_ptr<device::Device> device_;
  device::Stream stream_;
  std::vector<std::int64_t> ids_;
  std::size_t ids_end_;
};

// The largest difference relative to the largest value; infinite if there is a NaN.
inline double difference(const std::vector<Field>& found, const std::vector<Field>& expected) {
  double largest = 0, worst = 0;
  if (found.size() != expected.size()) return INFINITY;
  for (std::size_t f = 0; f < found.size(); ++f)
    for (std::size_t id = 1; id < found[f].size(); ++id) {
      if (std::isnan(found[f][id])) return INFINITY;
      largest = std::max(largest, std::abs(expected[f][id]));
      worst = std::max(worst, std::abs(found[f][id] - expected[f][id]));
    }
  return largest == 0 ? worst : worst / largest;
}

inline mesh::Mesh box(std::array<std::int64_t, 3> counts, std::array<bool, 3> periodic, const char* deformation,
                      const mpi::Comm& comm = mpi::Comm()) {
  mesh::BoxOptions options;
  options.counts = counts;
  options.periodic = periodic;
  options.deformation = deformation;
  return mesh::make_box(options, comm);
}

template <class T>
inline constexpr double tolerance = sizeof(T) == 8 ? 2e-13 : 1e-4;

// Checks every term against the definitions, on values that look random.
template <class T>
void expect_terms(const mesh::Mesh& mesh, int order, space::Kernels kernels) {
  const Reference reference(mesh, order);
  Tested<T> tested(mesh, order, kernels, kernels);
  const std::vector<Field> u{reference.random(1), reference.random(2), reference.random(3)},
      scalars{reference.random(4), reference.random(5), reference.random(6), reference.random(7)};
  EXPECT_LT(difference(tested.gradient(scalars[0]), reference.gradient(scalars[0])), tolerance<T>) << order;
  EXPECT_LT(difference(tested.weak_divergence(u), reference.weak_divergence(u)), tolerance<T>) << order;
  EXPECT_LT(difference(tested.divergence(u), reference.divergence(u)), tolerance<T>) << order;
  EXPECT_LT(difference(tested.curl(u), reference.curl(u)), tolerance<T>) << order;
  EXPECT_LT(difference(tested.convect_skew(u), reference.convect_skew(u, u)), tolerance<T>) << order;
  EXPECT_LT(difference(tested.convect_skew(u, scalars), reference.convect_skew(u, scalars)), tolerance<T>) << order;
  EXPECT_LT(difference(tested.convect(u), reference.convect(u, u)), tolerance<T>) << order;
  EXPECT_LT(difference(tested.convect(u, scalars), reference.convect(u, scalars)), tolerance<T>) << order;
}

}  // namespace weft::flow
