// Divides the work of a pass among the threads of a rank.
#pragma once

#include <omp.h>

#include <cstdint>
#include <exception>
#include <vector>

namespace weft::fft {

// Contiguous shares of [0, count), one per thread, of about the same cost: share t is [bounds[t], bounds[t + 1]).
// Shares are whole multiples of `unit`, except for the last one that is not empty.
template <class Cost>
std::vector<std::int64_t> shares(std::int64_t count, int threads, std::int64_t unit, const Cost& cost) {
  std::int64_t all = 0, before = 0, at = 0;
  for (std::int64_t i = 0; i < count; i += unit) all += cost(i);
  std::vector<std::int64_t> bounds{0};
  for (int t = 1; t <= threads; ++t) {
    for (; at < count && (t == threads || before * threads < all * t); at += unit) before += cost(at);
    bounds.push_back(at < count ? at : count);
  }
  return bounds;
}
inline std::vector<std::int64_t> shares(std::int64_t count, int threads, std::int64_t unit = 1) {
  return shares(count, threads, unit, [](std::int64_t) { return std::int64_t{1}; });
}

// Calls work(thread, begin, end) for all nonempty shares at the same time. Rethrows an exception that one of them
// threw.
template <class Work>
void in_shares(const std::vector<std::int64_t>& bounds, const Work& work) {
  const int count = static_cast<int>(bounds.size()) - 1;
  if (count == 1) {
    if (bounds[0] < bounds[1]) work(0, bounds[0], bounds[1]);
    return;
  }
  std::exception_ptr failed;
#pragma omp parallel for num_threads(count) schedule(static, 1)
  for (int t = 0; t < count; ++t) {
    try {
      if (bounds[t] < bounds[t + 1]) work(t, bounds[t], bounds[t + 1]);
    } catch (...) {
#pragma omp critical(fft_share_failed)
      failed = std::current_exception();
    }
  }
  if (failed) std::rethrow_exception(failed);
}

}  // namespace weft::fft
