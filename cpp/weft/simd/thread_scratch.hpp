// Work space for the host's threads, one per thread, aligned to a page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

namespace weft::simd {

template <class T>
class ThreadScratch {
 public:
  ThreadScratch() = default;
  ThreadScratch(int threads, std::int64_t values) : values_(values) {
    for (int t = 0; t < threads; ++t) memory_.emplace_back(static_cast<T*>(::operator new[](values * sizeof(T), page)));
  }
  T* of(int thread) const { return memory_[thread].get(); }
  std::int64_t bytes() const { return static_cast<std::int64_t>(memory_.size() * sizeof(T)) * values_; }

 private:
  static constexpr std::align_val_t page{4096};
  struct Free {
    void operator()(T* p) const { ::operator delete[](p, page); }
  };
  std::int64_t values_ = 0;
  std::vector<std::unique_ptr<T[], Free>> memory_;
};

}  // namespace weft::simd
