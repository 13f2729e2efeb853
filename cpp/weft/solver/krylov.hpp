// Flexible Krylov methods for any preconditioner: conjugate gradients and restarted GMRES.
//
// Unlike cg.hpp they do not overlap reductions with the operator: with a good preconditioner there are few iterations.
// Flexible means that the preconditioner may change from iteration to iteration (Chebyshev on a restricted Schwarz
// method, single precision, an inner iteration).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/device/vector.hpp"
#include "weft/mpi/comm.hpp"
#include "weft/solver/chebyshev.hpp"
#include "weft/solver/inner_products.hpp"
#include "weft/solver/stopping.hpp"

namespace weft::solver {

template <class T>
struct PreconditionedSystem {
  Map<T> apply;         // y = A x
  Map<T> precondition;  // z = M r
  std::int64_t entries = 0, unknowns = 0;
  const T* weights = nullptr;  // [unknowns] for inner products; null: ones
  // The null space of A consists of the constants, which are removed from right-hand sides and solutions.
  bool constants_in_null_space = false;
};

// Common to both methods: solves A x = b, starting from the given x (zero_guess: from 0). Errors and results are those
// of ConjugateGradients. Only reductions wait for the stream: on a GPU, x is complete once the stream is done.
template <class T>
class Krylov {
 public:
  Krylov(PreconditionedSystem<T> system, std::shared_ptr<device::Device> device, const mpi::Comm& comm, int products);
  virtual ~Krylov() = default;
  // (collective)
  SolveResult solve(const T* b, T* x, bool zero_guess, const SolveOptions& options, device::Stream& stream);
  virtual std::int64_t memory_bytes() const;

 protected:
  // Iterates until rule.take(|r|) returns true. r_ holds the residual.
  virtual void iterate(T* x, StoppingRule& rule, device::Stream& stream) = 0;
  void axpy(double a, const T* x, T* y, device::Stream& stream);  // y += a x
  using Terms = std::vector<std::pair<double, const T*>>;
  void add(const Terms& terms, T* y, device::Stream& stream);  // y += the sum of a x over the terms (a, x)
  void axpby(double a, const T* x, double b, T* y, device::Stream& stream);  // y = a x + b y
  void copy(const T* x, T* y, device::Stream& stream);
  void scale(double a, T* x, device::Stream& stream);
  void residual(const T* b, T* x, device::Stream& stream);  // r = b - A x
  void without_constants(T* x, device::Stream& stream);

  PreconditionedSystem<T> system_;
  std::shared_ptr<device::Device> device_;
  std::int64_t blocks_;
  InnerProducts<T> products_;
  device::Array<T> r_;
  double total_ = 0;  // sum of the weights over all ranks: the number of unknowns

 private:
  // Passed to kernels by value: must match Terms in kernels/vector.hpp.
  struct SomeTerms {
    std::array<double, device::most_vectors> a;
    std::array<const T*, device::most_vectors> x;
  };

  device::Kernel<long, T, const T*, T*> axpy_;
  device::Kernel<long, int, SomeTerms, T*> add_;
  device::Kernel<long, T, const T*, T, T*> axpby_;
  device::Kernel<long, const T*, T*> copy_;
  device::Kernel<long, T, T*> scale_, shift_;
  device::Kernel<long, const T*, const T*, T*> difference_;
};

// Notay, SIAM J. Sci. Comput. 22 (2000): beta from the Polak-Ribière formula, so that M need not be symmetric.
template <class T>
class FlexibleCg : public Krylov<T> {
 public:
  FlexibleCg(PreconditionedSystem<T> system, std::shared_ptr<device::Device> device, const mpi::Comm& comm);
  std::int64_t memory_bytes() const override;

 private:
  void iterate(T* x, StoppingRule& rule, device::Stream& stream) override;
  device::Array<T> z_, p_, ap_;
};

// Saad, SIAM J. Sci. Comput. 14 (1993): preconditioned from the right, so that it minimises the true residual. Uses two
// passes of classical Gram-Schmidt with one all-reduce each.
template <class T>
class Gmres : public Krylov<T> {
 public:
  // restart: the number of directions kept, 1..200 (2 restart + 1 vectors).
  Gmres(PreconditionedSystem<T> system, std::shared_ptr<device::Device> device, const mpi::Comm& comm, int restart);
  std::int64_t memory_bytes() const override;

 private:
  void iterate(T* x, StoppingRule& rule, device::Stream& stream) override;
  int restart_;
  std::vector<device::Array<T>> basis_, directions_;
};

}  // namespace weft::solver
