// The host backend: memory of the process, streams that execute work immediately, and kernels as calls on OpenMP
// threads.
//
// WEFT_CHECK=1 turns it into a checking backend: all bits of fresh memory are ones (NaN in both precisions, -1 in
// integers), and writes past the end of an array are found when it is released.
#pragma once

#include <chrono>
#include <map>
#include <mutex>

#include "weft/device/device.hpp"
#include "weft/device/host_memory.hpp"

namespace weft::device {

class HostDevice : public Device {
 public:
  explicit HostDevice(bool check);

  const Info& info() const override { return info_; }

  std::int64_t free_bytes() const override { return free_host_bytes(); }

  void* allocate(std::size_t bytes) override;
  void release(void* pointer) noexcept override;
  void* allocate_pinned(std::size_t bytes) override { return allocate(bytes); }
  void release_pinned(void* pointer) noexcept override { release(pointer); }
  void copy(void* to, const void* from, std::size_t bytes, CopyKind kind, Stream& stream) override;
  void fill_zero(void* pointer, std::size_t bytes, Stream& stream) override;

  void* create_stream() override { return nullptr; }
  void destroy_stream(void*) noexcept override {}
  void synchronize_stream(void*) override {}
  using Time = std::chrono::steady_clock::time_point;
  void* create_event() override { return new Time(); }
  void destroy_event(void* event) noexcept override { delete static_cast<Time*>(event); }
  void record_event(void* event, void*) override { *static_cast<Time*>(event) = std::chrono::steady_clock::now(); }
  void synchronize_event(void*) override {}
  void stream_wait_event(void*, void*) override {}
  double event_seconds(void* begin, void* end) override {
    return std::chrono::duration<double>(*static_cast<Time*>(end) - *static_cast<Time*>(begin)).count();
  }

  // Anonymous shared memory (memfd), which other processes open through /proc: it has no name that could outlive a
  // crash, and does not count against the size of /dev/shm. Host streams have no pending work, so shared events do
  // nothing.
  std::string sharing_problem() const override { return ""; }
  void* allocate_shared(std::size_t bytes, SharedHandle& handle) override;
  void stop_sharing(void* pointer) noexcept override;
  void release_shared(void* pointer) noexcept override;
  void* open_shared(const SharedHandle& handle) override;
  void close_shared(void* pointer) noexcept override;
  void* create_shared_event(SharedHandle&) override { return create_event(); }
  void* open_shared_event(const SharedHandle&) override { return create_event(); }

 protected:
  std::shared_ptr<detail::KernelImpl> load(const KernelSpec& spec) override;
  Info info_;

 private:
  void check_guard(void* pointer) noexcept;

  bool check_;
  std::mutex mutex_;
  std::map<void*, std::size_t> sizes_;
  struct Mapping {
    std::size_t bytes;
    int file;  // -1: closed
  };
  std::map<void*, Mapping> mappings_;
};

}  // namespace weft::device
