// A simple reference for the SIMD operator and CG: dense vectors by global id on every rank, with loops as in the
// paper.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/element/gll.hpp"
#include "weft/exchange/assembly.hpp"
#include "weft/exchange/pattern.hpp"
#include "weft/mesh/geometry.hpp"
#include "weft/mesh/mesh.hpp"
#include "weft/mesh/points.hpp"
#include "weft/poisson/simd_operator.hpp"
#include "weft/simd/vector.hpp"
#include "weft/space/space.hpp"

namespace weft::poisson {

// Values in [-1, 1] that look random and depend only on the id.
inline double value_of(std::int64_t id) {
  auto h = static_cast<std::uint64_t>(id) * 0x9E3779B97F4A7C15ull;
  h = (h ^ (h >> 29)) * 0xBF58476D1CE4E5B9ull;
  return static_cast<double>((h ^ (h >> 32)) >> 11) * 0x1p-52 - 1;
}

inline std::vector<double> summed(std::vector<double> values, const mpi::Comm& comm) {
  comm.sum(values.data(), static_cast<int>(values.size()));
  return values;
}

// Ids of the points; with dirichlet, 0 on the boundary.
inline std::vector<std::int64_t> ids_of(const mesh::Mesh& mesh, int order, bool dirichlet) {
  std::vector<std::int64_t> ids = mesh::point_ids(mesh, order);
  if (!dirichlet) return ids;
  std::vector<double> boundary(mesh::global_points(mesh, order) + 1, 0);
  const auto on_boundary = mesh::points_on_boundary(mesh, order);
  for (std::size_t p = 0; p < ids.size(); ++p)
    if (on_boundary[p]) boundary[ids[p]] = 1;
  boundary = summed(boundary, mesh.comm);
  for (std::int64_t& id : ids)
    if (boundary[id] > 0) id = 0;
  return ids;
}

// What `make` returns while OpenMP has a number of threads.
template <class Make>
auto with_threads(int threads, Make&& make) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(threads);
  auto made = make();
  omp_set_num_threads(before);
  return made;
}

template <class T>
struct SimdProblem {
  static constexpr int lanes = simd::lanes<T>;
  int order;
  space::Numbering numbering;
  mesh::Mesh mesh;                    // elements and points in execution order
  std::vector<std::int64_t> ids;      // [E][n^3]
  std::vector<std::int64_t> dof_ids;  // [local] of the vectors' entries
  std::int64_t owned, local;

  // threads: among which the blocks are divided.
  SimdProblem(const mesh::Mesh& original, int order, bool dirichlet, int threads = 1)
      : SimdProblem(original, order, ids_of(original, order, dirichlet), threads) {}
  SimdProblem(const mesh::Mesh& original, int order_, const std::vector<std::int64_t>& original_ids, int threads = 1)
      : order(order_),
        numbering(with_threads(threads, [&] { return space::Numbering(original, order, original_ids, lanes); })),
        mesh(numbering.executed_mesh()),
        ids(numbering.to_execution<std::int64_t>(original_ids)),
        dof_ids(numbering.assembly.local),
        owned(numbering.assembly.owned),
        local(numbering.assembly.local) {
    for (std::size_t p = 0; p < ids.size(); ++p)
      if (numbering.index[p] < local) dof_ids[numbering.index[p]] = ids[p];
  }
  std::unique_ptr<space::Space<T>> make_space() const {
    space::Options options;
    options.order = order;
    options.kernels = Kernels::simd;
    options.exchange = {exchange::Schedule::pairwise, exchange::Path::direct};
    options.exchange.cache = true;  // times the access to surface points once per order, not in every test
    options.device = device::open("host");
    return with_threads(numbering.threads, [&] { return std::make_unique<space::Space<T>>(numbering, options); });
  }
  std::size_t ids_end() const { return static_cast<std::size_t>(mesh::global_points(mesh, order)) + 1; }

  // y = S x + lambda x by global id; x[0] = y[0] = 0.
  std::vector<double> reference(const std::vector<double>& x, double lambda) const {
    const int n = order + 1, points = n * n * n;
    const std::vector<double>& D = element::gll(order).derivative;
    const std::vector<double> g = mesh::geometric_factors(mesh, order).g;
    const auto at = [n](int i, int j, int k) { return (k * n + j) * n + i; };
    std::vector<double> y(x.size(), 0), u(points), fr(points), fs(points), ft(points);
    for (std::int64_t e = 0; e < mesh.elements(); ++e) {
      const std::int64_t* id = ids.data() + e * points;
      for (int p = 0; p < points; ++p) u[p] = x[id[p]];
      for (int k = 0; k < n; ++k)
        for (int j = 0; j < n; ++j)
          for (int i = 0; i < n; ++i) {
            double r = 0, s = 0, t = 0;
            for (int m = 0; m < n; ++m) {
              r += D[i * n + m] * u[at(m, j, k)];
              s += D[j * n + m] * u[at(i, m, k)];
              t += D[k * n + m] * u[at(i, j, m)];
            }
            const double* G = g.data() + (e * points + at(i, j, k)) * 6;
            fr[at(i, j, k)] = G[0] * r + G[1] * s + G[2] * t;
            fs[at(i, j, k)] = G[1] * r + G[3] * s + G[4] * t;
            ft[at(i, j, k)] = G[2] * r + G[4] * s + G[5] * t;
          }
      for (int k = 0; k < n; ++k)
        for (int j = 0; j < n; ++j)
          for (int i = 0; i < n; ++i) {
            double sum = 0;
            for (int m = 0; m < n; ++m)
              sum += D[m * n + i] * fr[at(m, j, k)] + D[m * n + j] * fs[at(i, m, k)] + D[m * n + k] * ft[at(i, j, m)];
            y[id[at(i, j, k)]] += sum;
          }
    }
    y = summed(y, mesh.comm);
    for (std::size_t i = 1; i < y.size(); ++i) y[i] += lambda * x[i];
    y[0] = 0;
    return y;
  }
};

}  // namespace weft::poisson
