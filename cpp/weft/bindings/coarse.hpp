// The coarse level of a multigrid between C++, which has its matrix and runs it, and Python, whose library coarsens it.
#pragma once

#include <nanobind/ndarray.h>

#include <memory>
#include <utility>
#include <vector>

#include "weft/poisson/multigrid.hpp"
#include "weft/solver/amg.hpp"

namespace weft::bindings {

// Of [size / columns][columns], or of one dimension where columns is 1; the array owns the values.
template <class T>
nanobind::object to_numpy(std::vector<T>&& values, std::size_t columns = 1) {
  auto owned = std::make_unique<std::vector<T>>(std::move(values));
  T* data = owned->data();
  const std::size_t size = owned->size();
  nanobind::capsule keeper(owned.release(), [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  if (columns == 1) return nanobind::cast(nanobind::ndarray<nanobind::numpy, T>(data, {size}, keeper));
  return nanobind::cast(nanobind::ndarray<nanobind::numpy, T>(data, {size / columns, columns}, keeper));
}

// rows, columns and values, as weft.multigrid.coarsen takes them.
inline nanobind::dict to_dict(poisson::Triplets matrix) {
  nanobind::dict d;
  d["rows"] = to_numpy(std::move(matrix.rows));
  d["columns"] = to_numpy(std::move(matrix.columns));
  d["values"] = to_numpy(std::move(matrix.values));
  return d;
}

using DenseMatrix = nanobind::ndarray<const double, nanobind::ndim<2>, nanobind::c_contig, nanobind::device::cpu>;
// What weft.multigrid.coarsen gives. levels: (A, P) as (offsets, indices, values, columns); P is None on the last.
solver::Amg amg_of(const nanobind::list& levels, const DenseMatrix& coarsest, bool singular);

}  // namespace weft::bindings
