// A stand-in, for tests in C++, for the coarse level that PyAMG computes in Python: the coarse level of a p-multigrid.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/poisson/multigrid.hpp"
#include "weft/solver/amg.hpp"

namespace weft {

// The full inverse of the coarse matrix, as a hierarchy of one level; the pseudo-inverse if the constants are its null
// space.
inline solver::Amg exact_coarse_solver(const poisson::Triplets& triplets, const mpi::Comm& comm, std::int64_t own,
                                       bool singular = false) {
  std::int64_t size = own;
  comm.sum(&size, 1);
  const auto n = static_cast<std::size_t>(size);
  std::vector<double> a(n * n), inverse(n * n);
  for (std::size_t q = 0; q < triplets.values.size(); ++q)
    a[triplets.rows[q] * n + triplets.columns[q]] += triplets.values[q];
  comm.sum(a.data(), static_cast<int>(n * n));
  // If the constants are the null space: A + s J has the inverse A^+ + J / (s n^2), with J all ones.
  double trace = 0;
  for (std::size_t i = 0; i < n; ++i) trace += a[i * n + i];
  const double shift = singular ? trace / static_cast<double>(n * n) : 0;
  solver::AmgLevel level;
  level.a.rows = level.a.columns = size;
  level.a.offsets = {0};
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      if (a[i * n + j] == 0) continue;
      level.a.indices.push_back(static_cast<std::int32_t>(j));
      level.a.values.push_back(a[i * n + j]);
    }
    level.a.offsets.push_back(static_cast<std::int64_t>(level.a.values.size()));
    inverse[i * n + i] = 1;
  }
  for (double& value : a) value += shift;
  for (std::size_t k = 0; k < n; ++k) {  // Gauss-Jordan; positive definite, so no pivoting
    const double pivot = 1 / a[k * n + k];
    for (std::size_t j = 0; j < n; ++j) {
      a[k * n + j] *= pivot;
      inverse[k * n + j] *= pivot;
    }
    for (std::size_t i = 0; i < n; ++i) {
      const double factor = a[i * n + k];
      if (i == k || factor == 0) continue;
      for (std::size_t j = 0; j < n; ++j) {
        a[i * n + j] -= factor * a[k * n + j];
        inverse[i * n + j] -= factor * inverse[k * n + j];
      }
    }
  }
  if (singular)
    for (double& value : inverse) value -= 1 / (shift * static_cast<double>(n * n));
  return {{level}, inverse, singular};
}

}  // namespace weft
