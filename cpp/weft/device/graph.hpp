// A sequence of launches that is recorded once and replayed at the cost of one launch (CUDA and HIP graphs).
//
// On a device without graphs (`supported` is false: the host) the caller launches the kernels one by one.
#pragma once

#include <memory>
#include <utility>

#include "weft/device/device.hpp"

namespace weft::device {

class Graph {
 public:
  static bool supported(const Device& device) { return device.supports_graphs(); }

  // Records what `work` enqueues on `stream` without running it. `work` may only launch kernels, copy between pinned or
  // device memory, and fill: it must not allocate or synchronise. Pointers and scalar arguments are fixed at recording.
  template <class Work>
  Graph(Stream& stream, Work&& work) : device_(stream.device().shared_from_this()) {
    device_->begin_capture(stream.handle());
    try {
      std::forward<Work>(work)();
    } catch (...) {
      device_->abandon_capture(stream.handle());  // never throws: the error to report is that of `work`
      throw;
    }
    handle_ = device_->end_capture(stream.handle());
  }
  ~Graph() {
    if (device_) device_->destroy_graph(handle_);
  }
  Graph(Graph&& other) noexcept : device_(std::move(other.device_)), handle_(std::exchange(other.handle_, nullptr)) {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  Graph& operator=(Graph&&) = delete;

  void replay(Stream& stream) const { device_->replay_graph(handle_, stream.handle()); }

 private:
  std::shared_ptr<Device> device_;
  void* handle_ = nullptr;
};

}  // namespace weft::device
