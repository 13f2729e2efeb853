// Z^T on one rank: values at points summed into the entries of assembled vectors, in the order of the points.
//
// What it does not do: add what other ranks have; that is exchange::Exchange.
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
  // index: [points] entry of each, entries - 1 (the slot that stays 0) where a point has none.
  Gather(std::span<const std::int32_t> index, std::int64_t entries, const std::shared_ptr<device::Device>& device);

  // Room for the values, [fields][points]: work space of one call of an operator, not kept for the next. It moves when
  // more fields are asked for than before, which waits for the stream.
  T* values(int fields, device::Stream& stream);

  // y = Z^T values + lambda x for the entries `rows`, of `fields` vectors [fields][entries]; x is not read where lambda
  // is 0.
  void operator()(Range rows, T* y, int fields, device::Stream& stream, const T* x = nullptr, T lambda = 0) const;
  // The same of one vector, and partial sums of x . y over `rows`, as many as partials(rows); x is read.
  void with_product(Range rows, T* y, device::Stream& stream, const T* x, T lambda, double* product) const;
  static std::int64_t partials(Range rows);

  std::map<std::string, std::int64_t> memory_bytes() const;

 private:
  std::shared_ptr<device::Device> device_;
  std::int64_t points_, entries_;
  device::Array<std::int32_t> offsets_, columns_;
  device::Array<T> values_;
  device::Kernel one_, several_, product_;
};

}  // namespace weft::space
