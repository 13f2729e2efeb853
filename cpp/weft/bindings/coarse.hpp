// Passes the coarse level of a multigrid between C++, which assembles its matrix and solves it, and Python, where a
// library coarsens it.
#pragma once

#include <nanobind/ndarray.h>

#include <memory>
#include <utility>
#include <vector>

#include "weft/bindings/arrays.hpp"
#include "weft/bindings/bindings.hpp"
#include "weft/poisson/multigrid.hpp"
#include "weft/solver/amg.hpp"

namespace weft::bindings {

// rows, columns and values, in the form that weft.multigrid.coarsen takes.
inline AnyDict to_dict(poisson::Triplets matrix) {
  nanobind::dict d;
  d["rows"] = to_numpy(std::move(matrix.rows));
  d["columns"] = to_numpy(std::move(matrix.columns));
  d["values"] = to_numpy(std::move(matrix.values));
  return d;
}

using DenseMatrix = nanobind::ndarray<const double, nanobind::ndim<2>, nanobind::c_contig, nanobind::device::cpu>;
// From the result of weft.multigrid.coarsen. levels: (A, P) as (offsets, indices, values, columns); P is None on the
// last.
solver::Amg amg_of(const nanobind::list& levels, const DenseMatrix& coarsest, bool singular);

}  // namespace weft::bindings
