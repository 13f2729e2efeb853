// Overlapping Schwarz preconditioner of the Poisson operator: solves on every element and one layer of points of its
// neighbours, by fast diagonalisation. It has the restricted form: a solve contributes only to its element's own
// points, and shared points get the mean over their elements (Cai and Sarkis, SIAM J. Sci. Comput. 21, 1999; Phillips,
// Kerkemeier, Fischer, "Tuning spectral element preconditioners for parallel scalability on GPUs", 2022). So it is not
// symmetric, but needs only one exchange, of the neighbours' layer; the symmetric form needs a second one to return
// corrections.
//
// Source: J. W. Lottes, P. F. Fischer, J. Sci. Comput. 24 (2005) 45-78. A deformed element is approximated by the box
// with the same mean coefficients G_rr, G_ss, G_tt.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/exchange/exchange.hpp"
#include "weft/poisson/operator.hpp"
#include "weft/poisson/simd_levels.hpp"

namespace weft::poisson {

// How a GPU's blocks share the subdomains of kernels/schwarz.hpp: several elements per block, several lines per thread.
struct SubdomainBlocks {
  int elements = 1, lines = 1;
  unsigned threads(int order) const;
};
SubdomainBlocks subdomain_blocks(int order, int scalar_bytes);
std::vector<device::Define> subdomain_constants(int order, const SubdomainBlocks& blocks);

template <class T>
class Schwarz {
 public:
  explicit Schwarz(Operator<T>& op);  // (collective)

  // The length of vectors passed as r: the operator's entries, followed by what neighbours on other ranks hold.
  std::int64_t entries() const { return op_.entries() + layer_; }
  // y = sum of the solves; M r = weights() .* y. Fills the halo of r and the entries after it. (collective)
  void apply(T* r, T* y, device::Stream& stream);
  const T* weights() const { return weights_.data(); }  // [unknowns] the inverse of the number of elements at each
  std::int64_t memory_bytes() const;
  const exchange::Tuning& tuning() const { return exchange_->halo_tuning(); }

 private:
  void find_layer();
  void set_up_solves();
  std::vector<std::int32_t> subdomain_index() const;

  Operator<T>& op_;
  std::vector<std::int32_t> beyond_;  // for set-up: [element][6][n^2] entry of r, by face as in mesh/reference.hpp
  std::int64_t layer_ = 0;            // entries of neighbours
  std::unique_ptr<exchange::Exchange<T>> exchange_;  // of the layer
  device::Array<T> weights_, vectors_, values_;
  device::Array<std::int32_t> index_;
  SubdomainBlocks blocks_;
  device::Kernel<int, const std::int32_t*, const T*, const T*, const T*, T*> solve_;
  SimdSubdomains<T> simd_{};
  simd::ThreadScratch<T> scratch_;
};

}  // namespace weft::poisson
