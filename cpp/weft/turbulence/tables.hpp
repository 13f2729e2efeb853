// Numbers for the modes or points of three directions, on the device.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "weft/device/buffer.hpp"
#include "weft/device/device.hpp"
#include "weft/kernels/turbulence_rows.hpp"
#include "weft/turbulence/wavenumbers.hpp"

namespace weft::turbulence {

// One direction after the other.
template <class V>
class Tables {
 public:
  Tables(const std::shared_ptr<device::Device>& device, const Box& box)
      : device_(device),
        sizes_(box.sizes),
        values_(device, static_cast<std::size_t>(sizes_[0] + sizes_[1] + sizes_[2])),
        host_(device, device::Memory::host, values_.bytes()) {}

  // value(axis, n) of the index n of entry i of a transform; for later work on the stream. An earlier set() must have
  // come to its end there.
  template <class F>
  void set(const F& value, device::Stream& stream) {
    V* next = host_.template as<V>();
    for (int axis = 0; axis < 3; ++axis)
      for (std::int64_t i = 0; i < sizes_[axis]; ++i) *next++ = value(axis, signed_index(i, sizes_[axis]));
    device_->copy(values_.data(), host_.data(), values_.bytes(), device::CopyKind::host_to_device, stream);
  }
  mode_factors<V> factors() const {
    const V* x = values_.data();
    return {x, x + sizes_[0], x + sizes_[0] + sizes_[1]};
  }
  std::int64_t bytes() const { return static_cast<std::int64_t>(values_.bytes()); }

 private:
  std::shared_ptr<device::Device> device_;
  std::array<std::int64_t, 3> sizes_;
  device::Array<V> values_;
  device::Buffer host_;
};

}  // namespace weft::turbulence
