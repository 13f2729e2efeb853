// Runs the rows of kernels/turbulence_rows.hpp on a block: one after the other on the host, as a kernel on GPUs.
#pragma once

#include <complex>
#include <cstdint>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/fft/block.hpp"
#include "weft/kernels/turbulence_rows.hpp"

namespace weft::turbulence {

template <class R>
complex_value<R>* as_values(std::complex<R>* values) {
  return reinterpret_cast<complex_value<R>*>(values);
}

template <class To, class From>
block_view<To> view_of(To* data, const fft::Block<From>& block) {
  const auto& [first, count] = block.box;
  return {data,
          block.variable_stride,
          block.y_stride,
          block.z_stride,
          static_cast<int>(first[0]),
          static_cast<int>(first[1]),
          static_cast<int>(first[2]),
          static_cast<int>(count[0]),
          static_cast<int>(count[1]),
          static_cast<int>(count[2])};
}

template <class R>
block_view<complex_value<R>> view(const fft::Block<std::complex<R>>& block) {
  return view_of(as_values(block.data), block);
}

template <class R>
block_view<R> view(const fft::Block<R>& block) {
  return view_of(block.data, block);
}

inline constexpr device::Shape row_shape{row_threads};

// Runs `row` (arguments, y, z) for all rows of the block, or the kernel of the same name.
template <class A, class F>
void for_rows(const device::Device& device, const device::Kernel<A>& kernel, const A& arguments, const F& row,
              device::Stream& stream) {
  const auto& block = arguments.block;
  if (!device.is_host()) {
    kernel(stream, std::int64_t{block.count_y} * block.count_z, row_shape, arguments);
    return;
  }
  for (int z = 0; z < block.count_z; ++z)
    for (int y = 0; y < block.count_y; ++y) row(arguments, y, z);
}

}  // namespace weft::turbulence
