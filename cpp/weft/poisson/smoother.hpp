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
  // Starts from 0, whatever x holds, and brings x closer to A^-1 b. With residual, work = b - A x afterwards. work: a
  // vector that may be overwritten. (collective)
  virtual void start(const T* b, T* x, T* work, bool residual, device::Stream& stream) = 0;
  // Brings x closer to A^-1 b. (collective)
  virtual void improve(const T* b, T* x, T* work, device::Stream& stream) = 0;
  virtual double largest_eigenvalue() const = 0;
  virtual std::int64_t memory_bytes() const = 0;
  // The tuning of its own exchange; nullptr if it has none.
  virtual const exchange::Tuning* tuning() const { return nullptr; }
};

// automatic: schwarz if all elements are boxes, which its solves assume, otherwise chebyshev_schwarz (measured, see
// docs/multigrid.md). chebyshev_jacobi: with the diagonal of A. chebyshev_schwarz: with the restricted Schwarz method
// (schwarz.hpp). schwarz: one step of that method, damped by the largest eigenvalue.
enum class Smoothing { automatic, chebyshev_jacobi, schwarz, chebyshev_schwarz };
std::string name(Smoothing smoothing);

// Resolves `automatic` for a mesh; any other value is returned unchanged. (collective)
Smoothing chosen(Smoothing smoothing, const mesh::Mesh& mesh);

// [unknowns] in [-1, 1), a hash of the global id: rough, and independent of the distribution over ranks.
template <class T>
std::vector<T> rough_values(const Operator<T>& op);

// degree: that of the polynomial, 1..4; ignored by `schwarz`. smoothing: must not be automatic. (collective)
template <class T>
std::unique_ptr<Smoother<T>> make_smoother(Operator<T>& op, Smoothing smoothing, int degree);

}  // namespace weft::poisson
