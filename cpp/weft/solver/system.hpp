// What CG knows of an operator.
#pragma once

#include <cstdint>
#include <functional>

#include "weft/device/device.hpp"
#include "weft/exchange/exchange.hpp"

namespace weft::solver {

// What A x consists of before its last sums, y = Z^T values + lambda x, for kernels that do these together with other
// work.
template <class T>
struct Summands {
  const std::int32_t *offsets, *columns;  // entry e is the sum of values[columns[offsets[e] .. offsets[e + 1])]
  const T* values;
};

// A symmetric positive definite system.
template <class T>
struct System {
  // y = A x. Both have `entries` entries; those from `unknowns` on (halo and zero slot) belong to the operator.
  std::function<void(T* x, T* y, device::Stream&)> apply;
  // Set if the operator can compute x . A x together with A x: it also writes partial sums [product_partials] (in
  // device memory), whose total over all ranks is the product. This saves a pass over both vectors.
  // `fill`, if not null, completes the copies of other ranks' entries in x; it is called when they are needed.
  std::function<void(T* x, T* y, double* product, const std::function<void()>& fill, device::Stream&)> apply_product =
      nullptr;
  std::int64_t product_partials = 0;
  // Set if CG on several ranks may keep the copies of p up to date itself: the exchange that fetches copies.
  exchange::Exchange<T>* copies = nullptr;
  // Used on one rank if summand_partials > 0: computes what A x consists of before its last sums, and so many partial
  // sums of x . (A x - lambda x). Then A x is never stored, and r is updated with those last sums.
  std::function<Summands<T>(T* x, double* product, device::Stream&)> summands = nullptr;
  std::int64_t summand_partials = 0;
  T summand_lambda = 0;
  // Memory that A x uses besides its arguments, if it may move between solves: recorded iterations hold on to it.
  std::function<const void*()> workspace = nullptr;
  // If there are more partial sums than this, several blocks add them up before one does.
  std::int64_t few_partials = 2048;
  std::int64_t entries = 0;
  std::int64_t unknowns = 0;            // the number of leading entries that sums and updates use
  const T* weights = nullptr;           // [unknowns] for inner products; null: ones
  const T* inverse_diagonal = nullptr;  // [unknowns] Jacobi preconditioner, with `copies` [entries]; null: none
  // A problem with at most so many unknowns is small. On a GPU its time depends on the number of launches and on the
  // latency of memory: each thread then gets fewer entries, and on one rank each block adds up all partial sums.
  std::int64_t small_unknowns = 1 << 18;
};

}  // namespace weft::solver
