// The element terms of the incompressible Navier-Stokes equations in weak form: convection, gradient, divergence, curl.
//
// Vectors are those of a poisson::Operator's numbering (assembled, natural boundaries): `entries()` values a field,
// several fields one after the other ([field][entry]). What it does not do: boundary conditions, mass matrices and time
// stepping. docs/flow.md has the equations, docs/cpu-kernels.md how the host's version works.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/exchange/exchange.hpp"
#include "weft/poisson/operator.hpp"

namespace weft::flow {

enum class Term { convect, convect_skew, gradient, weak_divergence, divergence, curl };
std::string name(Term term);

// The points over which convection is integrated.
enum class Quadrature { gauss, gll };

struct TermsOptions {
  // simd: the host's own version, for a numbering with SIMD kernels; portable: kernels/flow_terms.hpp on any device.
  poisson::Kernels kernels = poisson::Kernels::portable;
  // A direction, of convect(): 0 is ceil(3 (N + 1) / 2), which integrates products of three polynomials of degree N
  // and the metric of affine elements exactly (the 3/2 rule); at least N + 1, at most 24.
  int dealiasing_points = 0;
  Quadrature quadrature = Quadrature::gauss;
  exchange::Asked exchange = {};  // for several fields in one message; single fields go by the numbering's own
};

// T: float or double. In: vectors whose owned entries are right; their halo entries get filled, and the last entry of
// each field is 0. Out: owned entries are complete (summed over elements and ranks), the last entry of each field is 0,
// halo entries are work space. Out must not be one of the vectors read. v, q are the basis functions on the GLL points;
// with W the diagonal matrix of quadrature weights w J on these points, all but convect() integrate there.
template <class T>
class Terms {
 public:
  // The numbering, on its device, must live as long; it must be assembled and without masked points.
  // std::invalid_argument, the same on all ranks, for other numberings, SIMD kernels on a numbering without, or
  // dealiasing points out of range; CollectiveError for a Jacobian that is not positive there. (collective)
  Terms(poisson::Operator<T>& numbering, const TermsOptions& options = {});
  ~Terms();

  // out_c = (v, (u . grad) f_c), c < count: u [3][entries], fields and out [count][entries]; fields may be u itself
  // (count = 3). Over-integrated: u, grad f and v are evaluated on the finer points of TermsOptions. (collective)
  void convect(T* u, T* fields, int count, T* out, device::Stream& stream);
  // The skew-symmetric form on the GLL points, ((v, (u . grad) f_c) + (v, div(u f_c))) / 2. The second term is taken as
  // -(grad v, u f_c) and its boundary integral, so that in a periodic box sum f_c out_c = 0 to rounding for any u
  // (Zang, Appl. Numer. Math. 7, 1991). fields may be u itself. (collective)
  void convect_skew(T* u, T* fields, int count, T* out, device::Stream& stream);
  // out_i = (v, dp/dx_i): p [entries], out [3][entries]. (collective)
  void gradient(T* p, T* out, device::Stream& stream);
  // out = (grad q, f): f [3][entries], out [entries]. The transpose of gradient(), exactly: there is no boundary term.
  // (collective)
  void weak_divergence(T* f, T* out, device::Stream& stream);
  // out = (q, div u): u [3][entries], out [entries]. (collective)
  void divergence(T* u, T* out, device::Stream& stream);
  // out = (v, curl u): u, out [3][entries]. (collective)
  void curl(T* u, T* out, device::Stream& stream);

  int dealiasing_points() const { return fine_; }
  poisson::Kernels kernels() const { return kernels_; }
  // Of one call on this rank's elements, `count` as in convect(): bytes that must pass between memory and cache, and
  // floating-point operations. The formulas are in docs/flow.md.
  double bytes(Term term, int count = 3) const;
  double flops(Term term, int count = 3) const;
  std::map<std::string, std::int64_t> memory_bytes() const;  // of this rank, by array
  // How the exchanges of several fields were chosen, those used so far: "halo of 3 fields", "gather of 3 fields", …
  std::vector<std::pair<std::string, exchange::Tuning>> tunings() const;

 private:
  struct Implementation;

  poisson::Kernels kernels_;
  int fine_;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace weft::flow
