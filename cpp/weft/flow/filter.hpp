// An explicit filter for the highest modes of each element, which keeps fields continuous.
//
// Fischer and Mullen, C. R. Acad. Sci. Paris 332 (2001): in the basis (1 -+ x) / 2, L_k - L_{k-2} (k = 2 .. N), whose
// members with k >= 2 vanish at both ends of a line, mode k > N - modes is multiplied by 1 - strength ((k - N + modes)
// / modes)^2. With modes = 1 this is their filter: strength times the interpolant of degree N - 1 plus (1 - strength)
// times u.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/space/space.hpp"

namespace weft::flow {

struct FilterOptions {
  double strength = 0;  // in [0, 1]; 0: no filter
  int modes = 1;        // 1 .. N - 1
};

// The filter matrix for values at the GLL points of a line, [n1][n1] row-major. std::invalid_argument for options out
// of range.
std::vector<double> filter_matrix(int order, const FilterOptions& options);

// T: float or double.
template <class T>
class Filter {
 public:
  // CollectiveError on all ranks for options out of range. (collective)
  Filter(space::Space<T>& space, const FilterOptions& options);
  // Replaces the owned entries of `fields` vectors where mask is 1 (null: everywhere) by their filtered values. work
  // and mask: [fields][entries]. Fills the halo of u. (collective)
  void apply(int fields, const T* mask, T* u, T* work, device::Stream& stream);
  std::int64_t bytes() const { return static_cast<std::int64_t>(matrix_.bytes() + index_.bytes()); }

 private:
  space::Space<T>& space_;
  device::Array<T> matrix_;
  device::Array<std::int32_t> index_;
  device::Kernel<int, long, const T*, const std::int32_t*, const T*, T*> filter_;
  device::Kernel<long, long, int, const T*, const T*, T*> replace_;
};

}  // namespace weft::flow
