// The orders for tests of every order. If kernels are compiled for another processor than the library's, only a few,
// because each is compiled on first use.
#pragma once

#include <vector>

namespace weft::test {

inline std::vector<int> all_orders() {
#if defined(WEFT_FEW_ORDERS)
  return {2, 9};
#else
  std::vector<int> orders;
  for (int order = 1; order <= 15; ++order) orders.push_back(order);
  return orders;
#endif
}

}  // namespace weft::test
