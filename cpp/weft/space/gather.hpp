// Z^T on one rank: sums the values at points into the entries of assembled vectors, in the order of the points.
// exchange::Exchange adds the contributions of other ranks.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "weft/device/device.hpp"
#include "weft/space/block_index.hpp"

namespace weft::space {

// T: float or double.
template <class T>
class Gather {
 public:
  // index: [points] entry of each point; entries - 1 (the zero slot) for points without an entry. Lists for a GPU are
  // created on the host in pieces of `points_at_once` points.
  Gather(std::span<const std::int32_t> index, std::int64_t entries, const std::shared_ptr<device::Device>& device,
         std::int32_t points_at_once = std::int32_t{1} << 26);

  // Space for the values, [fields][points]: work space of one call of an operator, not preserved for the next. It is
  // reallocated, after waiting for the stream, if more fields are requested than before.
  T* values(int fields, device::Stream& stream);
  const T* values() const { return values_.data(); }

  // y = Z^T values + lambda x for the entries `rows`, of `fields` vectors [fields][entries]; x is not read if lambda is
  // 0.
  void operator()(Range rows, T* y, int fields, device::Stream& stream, const T* x = nullptr, T lambda = 0) const;
  // The same for one vector, with partials(rows) partial sums of x . y over `rows`; x is always read.
  void with_product(Range rows, T* y, device::Stream& stream, const T* x, T lambda, double* product) const;
  static std::int64_t partials(Range rows);

  // For kernels that do this together with other work: the points of entry e are columns[offsets[e] .. offsets[e + 1]).
  const std::int32_t* offsets() const { return offsets_.data(); }
  const std::int32_t* columns() const { return columns_.data(); }

  std::map<std::string, std::int64_t> memory_bytes() const;

 private:
  void make_lists(std::span<const std::int32_t> index, std::int32_t points_at_once);

  std::shared_ptr<device::Device> device_;
  std::int64_t points_, entries_;
  int fields_ = 1;  // number of fields that values_ has room for
  device::Array<std::int32_t> offsets_, columns_;
  device::Array<T> values_;
  device::Kernel<long, long, const std::int32_t*, const std::int32_t*, const T*, T, const T*, T*> one_;
  device::Kernel<long, long, int, long, long, const std::int32_t*, const std::int32_t*, const T*, T, const T*, T*>
      several_;
  device::Kernel<long, long, const std::int32_t*, const std::int32_t*, const T*, T, const T*, T*, double*> product_;
};

}  // namespace weft::space
