// Pointwise functions that run on the host, for blocks on any device: in place on the host, through a copy of each
// plane on a GPU. Used between steps, where having one source matters more than the cost of the copy.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "weft/fft/plan.hpp"

namespace weft::turbulence {

// f works on `read` variables of a block, the first `written` of which are copied back.
template <class V, class F>
fft::Pointwise<V> on_host(int read, int written, F f) {
  return [read, written, f](const fft::Block<V>& block, device::Stream& stream) {
    if (stream.device().is_host()) return f(block);
    device::Device& device = stream.device();
    const std::int64_t width = block.box.count[0], lines = block.box.count[1], values = width * lines;
    std::vector<V> copy(static_cast<std::size_t>(std::max(read, written) * values));
    fft::Block<V> plane = block;
    plane.data = copy.data();
    plane.box.count[2] = 1;
    plane.y_stride = width;
    plane.z_stride = plane.variable_stride = values;
    const auto transfer = [&](int variables, std::int64_t z, device::CopyKind kind) {
      for (int v = 0; v < variables; ++v) {
        for (std::int64_t y = 0; y < lines; ++y) {
          V* there = block.row(v, y, z);
          V* here = plane.row(v, y, 0);
          const bool whole = block.y_stride == width;  // all lines in one copy
          const std::size_t bytes = static_cast<std::size_t>(whole ? values : width) * sizeof(V);
          if (kind == device::CopyKind::device_to_host)
            device.copy(here, there, bytes, kind, stream);
          else
            device.copy(there, here, bytes, kind, stream);
          if (whole) break;
        }
      }
      stream.synchronize();
    };
    for (std::int64_t z = 0; z < block.box.count[2]; ++z) {
      plane.box.first[2] = block.box.first[2] + z;
      transfer(read, z, device::CopyKind::device_to_host);
      f(plane);
      transfer(written, z, device::CopyKind::host_to_device);
    }
  };
}

}  // namespace weft::turbulence
