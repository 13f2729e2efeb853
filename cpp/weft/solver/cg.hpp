// Conjugate gradients: Algorithm 1 of hipBone with its kernel fusions, and Jacobi preconditioning. On several ranks the
// sums of an iteration share one all-reduce (as in poisson/merged_cg.hpp).
//
// The solver knows nothing about the operator. Vectors are in device memory. Sums are in double precision, in an order
// independent of the number of host threads, so that runs on the same ranks are bit-identical.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "weft/device/buffer.hpp"
#include "weft/device/device.hpp"
#include "weft/device/graph.hpp"
#include "weft/mpi/comm.hpp"
#include "weft/solver/stopping.hpp"
#include "weft/solver/system.hpp"

namespace weft::solver {

// Allocates r, p and A p.
template <class T>
class ConjugateGradients {
 public:
  ConjugateGradients(System<T> system, std::shared_ptr<device::Device> device, const mpi::Comm& comm);

  // Solves A x = b, starting from the given x (zero_guess: from 0, whatever x holds). b and x: [entries].
  // CollectiveError, the same on every rank, if b (or A) contains NaN or Inf, or if p . A p <= 0, which means that A is
  // not positive definite. A solve that runs out of iterations returns converged = false. (collective)
  SolveResult solve(const T* b, T* x, bool zero_guess, const SolveOptions& options, device::Stream& stream);

  std::int64_t memory_bytes() const;

 private:
  void start(const T* b, T* x, bool zero_guess, device::Stream& stream);
  void start_alone(StoppingRule& rule, device::Stream& stream);
  void iterate_alone(T* x, device::Stream& stream);  // one rank; nothing waits for the host
  void iterate_alone(int count, T* x, const std::function<void()>& one, device::Stream& stream);
  void solve_alone(T* x, StoppingRule& rule, const SolveOptions& options, device::Stream& stream);
  void solve_together(T* x, StoppingRule& rule, const SolveOptions& options, device::Stream& stream);
  void direction_product(device::Stream& stream);  // one rank: A p and the partial sums of p . A p, at partials_
  void update_residual(device::Stream& stream);
  double* norms() { return partials_.data() + product_sums_; }  // the partial sums of the residual update
  double* squares() {  // those of lambda p . p, which belong to p . A p; null if it has them without
    return gathers_ && system_.summand_lambda != 0 ? partials_.data() + system_.summand_partials : nullptr;
  }
  std::int64_t residual_sums() const { return gathers_ ? gather_blocks_ : partial_sums_; }
  // The sums over all ranks of the product's partial sums and of `kinds` times partial_sums_ at norms(), on the host.
  // `before` is called once the stream is done, before the all-reduce.
  const double* all_sums(int kinds, device::Stream& stream, const std::function<void()>& before = nullptr);
  void store_scalars(device::Stream& stream);

  System<T> system_;
  std::shared_ptr<device::Device> device_;
  mpi::Comm comm_;
  bool small_;                     // few enough unknowns for the kernels that save launches (one rank, on a GPU)
  int rounds_;                     // entries per thread of the kernels of CG
  std::int64_t blocks_;            // of these kernels
  exchange::Exchange<T>* copies_;  // of A p, from which those of r and p follow; null: the operator fetches those of p
  std::int64_t partial_sums_;      // number of their partial sums: blocks_, or a single zero on a rank without unknowns
  bool gathers_;                   // r is updated with the summands of A p
  std::int64_t gather_blocks_;     // of the kernels that do so
  std::int64_t vector_blocks_;     // of kernels/vector.hpp
  std::int64_t product_sums_;      // number of partial sums of p . A p
  int kinds_;                      // number of sums after the residual update: r . r, and r . d r if preconditioned
  device::Array<T> r_, p_, ap_;
  device::Array<double> partials_, folded_, local_sums_, scalars_, history_;
  device::Buffer host_;
  double *host_scalars_, *host_sums_, *host_history_;        // within host_
  std::optional<device::Graph> batch_graph_, single_graph_;  // the iterations on one rank, recorded for this x and
  std::pair<const T*, const void*> recorded_for_;            // this work space
  device::Kernel<long, const T*, T*> copy_;
  device::Kernel<long, T, const T*, T, T*> axpby_;
  device::Kernel<long, const T*, const T*, double*> dot_;
  device::Kernel<long, const T*, const T*, const T*, double*> weighted_dot_;
  device::Kernel<long, long, int, const double*, const T*, const T*, const T*, T*, double*> residual_;
  device::Kernel<long, int, const double*, double, const T*, const T*, T*, double*> direction_;
  device::Kernel<long, int, const double*, double, const T*, const T*, T*, T*, double*> update_;
  device::Kernel<long, int, T, T, T, const T*, const T*, T*, T*, T*> step_;
  device::Kernel<long, long, int, const T*, const T*, const T*, const T*, const T*, double*, double*> products_;
  device::Kernel<long, long, int, const double*, double*> sums_;
  device::Kernel<long, const double*, double*> alpha_;
  device::Kernel<long, int, const double*, double*, double*> beta_;
  device::Kernel<long, long, int, long, const double*, double*, const T*, const T*, const T*, T*, double*>
      small_residual_;
  device::Kernel<long, int, long, int, const double*, double*, double*, double, const T*, const T*, T*, T*, double*>
      small_update_;
  device::Kernel<long, const double*, double*> fold_;
  device::Kernel<long, long, const double*, const std::int32_t*, const std::int32_t*, const T*, T, const T*, const T*,
                 T*, double*>
      gathered_residual_;
  device::Kernel<long, long, long, const double*, double*, const std::int32_t*, const std::int32_t*, const T*, T,
                 const T*, const T*, T*, double*>
      small_gathered_residual_;
};

}  // namespace weft::solver
