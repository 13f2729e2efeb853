// The element terms of the incompressible Navier-Stokes equations in weak form: convection, gradient, divergence, curl.
//
// Vectors belong to a space: `entries()` values per field, several fields one after the other ([field][entry]).
// Boundary conditions, mass matrices and time stepping are elsewhere. docs/flow-terms.md has the equations;
// docs/cpu-kernels.md explains the SIMD version for the host.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "weft/device/device.hpp"
#include "weft/element/gauss.hpp"
#include "weft/flow/portable_terms.hpp"
#include "weft/flow/simd_terms.hpp"
#include "weft/flow/work.hpp"
#include "weft/space/overlap.hpp"

namespace weft::flow {

std::string name(Term term);

// T: float or double. Input vectors have valid owned entries and 0 as the last entry of each field; their halo entries
// are filled. In output vectors, owned entries are complete (summed over elements and ranks), the last entry of each
// field is 0, and halo entries are work space. Output must not be one of the input vectors. v and q are the basis
// functions on the GLL points. All terms but convect() are integrated at these points, with W the diagonal matrix of
// their quadrature weights w J.
template <class T>
class Terms {
 public:
  // The space must outlive this object. kernels: simd is the host's version, for a space with SIMD kernels; portable is
  // kernels/flow_terms.hpp, for any device; empty: as in the space. std::invalid_argument, the same on all ranks, for
  // simd with a space without SIMD kernels. (collective)
  explicit Terms(space::Space<T>& space, std::optional<space::Kernels> kernels = {});
  ~Terms();

  // out_c = (v, (u . grad) f_c) for c < count: u [3][entries], fields and out [count][entries]; fields may be u itself
  // (count = 3). Over-integrated: u, grad f and v are evaluated at dealiasing_points() Gauss points per direction.
  // (collective)
  void convect(T* u, T* fields, int count, T* out, device::Stream& stream);
  // The skew-symmetric form at the GLL points, ((v, (u . grad) f_c) + (v, div(u f_c))) / 2. The second term is computed
  // as -(grad v, u f_c) plus its boundary integral, so that in a periodic box sum f_c out_c = 0 to rounding for any u
  // (Zang, Appl. Numer. Math. 7, 1991). fields may be u itself. (collective)
  void convect_skew(T* u, T* fields, int count, T* out, device::Stream& stream);
  // out_i = (v, dp/dx_i): p [entries], out [3][entries]. (collective)
  void gradient(T* p, T* out, device::Stream& stream);
  // out = (grad q, f): f [3][entries], out [entries]. This is exactly the transpose of gradient(): there is no boundary
  // term. (collective)
  void weak_divergence(T* f, T* out, device::Stream& stream);
  // out = (q, div u): u [3][entries], out [entries]. (collective)
  void divergence(T* u, T* out, device::Stream& stream);
  // out = (v, curl u): u, out [3][entries]. (collective)
  void curl(T* u, T* out, device::Stream& stream);

  // Per direction: ceil(3 (N + 1) / 2), the 3/2 rule. Exact for polynomials in reference coordinates up to degree 3 N +
  // 2, and so for products of three of degree N on elements with straight edges.
  int dealiasing_points() const { return element::dealiasing_points(space_.order()); }
  space::Kernels kernels() const { return kernels_; }
  // Memory traffic in bytes, and flops, of one call on this rank, by the formulas of docs/flow-terms.md. For
  // convection: of `count` fields; `same` if the field is u itself.
  Work work(Term term, int count = 3, bool same = true) const;
  std::map<std::string, std::int64_t> memory_bytes() const;  // on this rank, by array

 private:
  using Vectors = space::Vectors<T>;
  // Computes one term; u is used for convection only.
  void run(Term term, T* u, Vectors f, Vectors out, device::Stream& stream);

  space::Space<T>& space_;
  space::Kernels kernels_;
  std::unique_ptr<SimdTerms<T>> simd_;  // if kernels = simd; otherwise:
  std::unique_ptr<PortableTerms<T>> portable_;
};

}  // namespace weft::flow
