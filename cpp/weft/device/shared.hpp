// Memory shared between the processes of a node: allocated by this process, or opened from another.
//
// It does not synchronise: use Event::shared, or flags, to learn when the other process has written or read it.
#pragma once

#include <memory>
#include <utility>

#include "weft/device/device.hpp"

namespace weft::device {

class SharedMemory {
 public:
  SharedMemory() = default;
  static SharedMemory allocate(std::shared_ptr<Device> device, std::size_t bytes) {
    SharedMemory memory;
    memory.data_ = device->allocate_shared(bytes, memory.handle_);
    memory.device_ = std::move(device);
    memory.own_ = true;
    return memory;
  }
  static SharedMemory open(std::shared_ptr<Device> device, const SharedHandle& handle) {
    SharedMemory memory;
    memory.data_ = device->open_shared(handle);
    memory.device_ = std::move(device);
    return memory;
  }
  ~SharedMemory() { reset(); }
  SharedMemory(SharedMemory&& other) noexcept { swap(other); }
  SharedMemory& operator=(SharedMemory&& other) noexcept {
    SharedMemory(std::move(other)).swap(*this);
    return *this;
  }

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  const SharedHandle& handle() const { return handle_; }
  void stop_sharing() const {  // call this once all processes that need it have opened it
    if (data_ != nullptr) device_->stop_sharing(data_);
  }

 private:
  void swap(SharedMemory& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(handle_, other.handle_);
    std::swap(own_, other.own_);
  }
  void reset() noexcept {
    if (data_ == nullptr) return;
    own_ ? device_->release_shared(data_) : device_->close_shared(data_);
    data_ = nullptr;
  }

  std::shared_ptr<Device> device_;
  void* data_ = nullptr;
  SharedHandle handle_;
  bool own_ = false;
};

}  // namespace weft::device
