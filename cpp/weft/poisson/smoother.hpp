// The smoothers of a multigrid level: Chebyshev polynomials (solver/chebyshev.hpp) of the preconditioned operator.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/mesh/mesh.hpp"
#include "weft/poisson/operator.hpp"

namespace weft::poisson {

template <class T>
class Smoother {
 public:
  virtual ~Smoother() = default;
  // work: a vector that it may use. (collective)
  // From 0, whatever x holds: x nearer to A^-1 b; with residual, work = b - A x afterwards.
  virtual void start(const T* b, T* x, T* work, bool residual, device::Stream& stream) = 0;
  // x nearer to A^-1 b.
  virtual void improve(const T* b, T* x, T* work, device::Stream& stream) = 0;
  virtual double largest_eigenvalue() const = 0;
  virtual std::int64_t memory_bytes() const = 0;
  // Of an exchange of its own; nullptr if it has none.
  virtual const exchange::Tuning* tuning() const { return nullptr; }
};

// automatic: schwarz where all elements are boxes, as its solves take them to be, else chebyshev_schwarz (measured,
// see docs/multigrid.md). chebyshev_jacobi: on the diagonal of A. chebyshev_schwarz: on the restricted Schwarz method
// (schwarz.hpp). schwarz: one step of that, damped by the largest eigenvalue.
enum class Smoothing { automatic, chebyshev_jacobi, schwarz, chebyshev_schwarz };
std::string name(Smoothing smoothing);

// What `automatic` is on a mesh; any other stays as it is. (collective)
Smoothing chosen(Smoothing smoothing, const mesh::Mesh& mesh);

// [unknowns] in [-1, 1), a hash of the global id: rough, and the same on any ranks.
template <class T>
std::vector<T> rough_values(const Operator<T>& op);

// degree: of the polynomial, 1..4, of which `schwarz` takes no notice. smoothing: chosen already. (collective)
template <class T>
std::unique_ptr<Smoother<T>> make_smoother(Operator<T>& op, Smoothing smoothing, int degree);

}  // namespace weft::poisson
