// A p-multigrid V-cycle for the Poisson operator: the same elements at decreasing orders, with algebraic multigrid on
// the last level.
//
// The smoothers are those of smoother.hpp. S is the precision of the whole cycle, which may be single inside a Krylov
// method in double precision.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/device/graph.hpp"
#include "weft/mesh/mesh.hpp"
#include "weft/poisson/operator.hpp"
#include "weft/poisson/smoother.hpp"
#include "weft/poisson/transfer.hpp"
#include "weft/solver/amg.hpp"

namespace weft::poisson {

struct MultigridOptions {
  // Decreasing orders from the finest to 1, such as 7, 3, 1; or the finest alone.
  std::vector<int> orders;
  int degree = 2;  // degree of the Chebyshev smoother, 1..4
  Smoothing smoothing = Smoothing::automatic;
  // Whether a level of order 1 is solved by algebraic multigrid. If false, or if the only level has another order, a
  // cycle is one sweep of its smoother.
  bool algebraic = true;
  // For each level the argument of AnyOperator::set_screening, [points] in the mesh's order of elements; or empty.
  std::vector<std::vector<double>> screening = {};
};

// Contributions to the coarse matrix, one for each pair of an element's corners, in global numbers: the owned unknowns
// of rank 0, of rank 1, …. The matrix is the sum of those with equal (row, column), over all ranks.
struct Triplets {
  std::vector<std::int64_t> rows, columns;
  std::vector<double> values;
};

template <class S>
class Multigrid {
 public:
  // `options` are those of the fine operator, with assembled storage. With an algebraic level, call set_coarse before
  // the first cycle. (collective)
  Multigrid(const mesh::Mesh& mesh, const Options& options, const MultigridOptions& multigrid);

  bool algebraic() const { return algebraic_; }  // whether the last level is algebraic
  Triplets coarse_matrix();                      // for order 1 (collective)
  // Whether the null space contains the constants: no boundary condition, lambda = 0, no screening. (collective)
  bool singular() const;
  void set_coarse(solver::Amg hierarchy);  // (collective)

  // z = M r, one V-cycle, on vectors of the finest level's operator. (collective)
  void apply(S* r, S* z, device::Stream& stream);

  Operator<S>& finest() { return *levels_.front().op; }
  const Operator<S>& coarsest() const { return *levels_.back().op; }
  std::vector<int> orders() const;
  Smoothing smoothing() const { return smoothing_; }                      // the smoother chosen
  std::vector<double> largest_eigenvalues() const;                        // of the smoothed operators, by level
  std::vector<std::pair<std::string, exchange::Tuning>> tunings() const;  // "order 7 halo", …
  std::map<std::string, std::int64_t> memory_bytes() const;

 private:
  struct Level {
    std::unique_ptr<Operator<S>> op;
    std::unique_ptr<Smoother<S>> smoother;  // null on the algebraic level
    std::unique_ptr<Transfer<S>> transfer;  // to the next
    device::Array<S> b, x, r;
  };
  void descend(const S* r, S* z, device::Stream& stream);  // to the right-hand side of the algebraic level
  void ascend(const S* r, S* z, device::Stream& stream);   // from its solution

  mesh::Mesh mesh_;
  std::shared_ptr<device::Device> device_;
  Smoothing smoothing_;
  bool algebraic_;
  std::vector<Level> levels_;
  std::unique_ptr<solver::DistributedAmg<S>> coarse_;
  // On one GPU the launches before and after the coarse solve, recorded for each pair of vectors r and z.
  struct Recorded {
    std::optional<device::Graph> down, up;
  };
  std::map<std::pair<const S*, const S*>, Recorded> recorded_;
};

}  // namespace weft::poisson
