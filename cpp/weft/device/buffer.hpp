// An owning class for raw memory: device memory, or host memory that the device's asynchronous copies can use.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "weft/device/device.hpp"

namespace weft::device {

// host: pinned host memory; device: the device's own memory.
enum class Memory { host, device };

// Owned, movable, not copyable. The pointer is null if the buffer has zero bytes.
class Buffer {
 public:
  Buffer(std::shared_ptr<Device> device, Memory memory, std::size_t bytes)
      : device_(std::move(device)), memory_(memory) {
    if (bytes > 0) data_ = memory_ == Memory::device ? device_->allocate(bytes) : device_->allocate_pinned(bytes);
  }
  ~Buffer() {
    if (data_ == nullptr) return;
    memory_ == Memory::device ? device_->release(data_) : device_->release_pinned(data_);
  }
  Buffer(Buffer&& o) noexcept
      : device_(std::move(o.device_)), memory_(o.memory_), data_(std::exchange(o.data_, nullptr)) {}
  Buffer& operator=(Buffer&&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  std::shared_ptr<Device> device_;
  Memory memory_;
  void* data_ = nullptr;
};

}  // namespace weft::device
