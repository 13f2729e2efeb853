// The blocks of a numbering, and threaded loops over them and their entries.
#pragma once

#include <omp.h>

#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/space/block_index.hpp"

namespace weft::space {

struct Numbering;

// Whether values cannot be added to the entries of `lanes` points as one vector: two points have the same entry, or,
// with several threads, one has the entry of masked points, `zero`, which all threads have in common. (A single thread
// may add anything to that one.)
bool conflict(const std::int32_t* entries, int lanes, std::int32_t zero, int threads);

// Divides a range into pieces, each processed by one thread.
std::vector<Range> pieces(Range range);

// Runs work(i) for i in [0, count) by threads. If there is nothing to divide, no thread is started.
template <class Work>
void for_count(std::int64_t count, int threads, Work&& work) {
  if (count == 0) return;
#pragma omp parallel for num_threads(threads) if (threads > 1 && count > 1)
  for (std::int64_t i = 0; i < count; ++i) work(i);
}

// Runs work(range) on all pieces by threads.
template <class Work>
void for_pieces(const std::vector<Range>& pieces, int threads, Work&& work) {
  for_count(std::ssize(pieces), threads, [&](std::int64_t i) { work(pieces[i]); });
}

// Runs work(number, range, thread) for all chunks, one colour after the other; they are numbered in this order. Chunk t
// of a colour is processed by thread t, so that it finds in its cache what it has left there.
template <class Work>
void for_numbered_chunks(const std::vector<std::vector<Range>>& colours, int threads, Work&& work) {
  if (threads == 1) {
    int number = 0;
    for (const std::vector<Range>& chunks : colours)
      for (const Range& chunk : chunks) work(number++, chunk, 0);
    return;
  }
  if (colours.empty()) return;
#pragma omp parallel num_threads(threads)
  {
    const int thread = omp_get_thread_num(), all = omp_get_num_threads();
    int before = 0;
    for (const std::vector<Range>& chunks : colours) {
      if (before > 0) {
#pragma omp barrier
      }
      const int count = static_cast<int>(chunks.size());
      for (int c = thread; c < count; c += all) work(before + c, chunks[c], thread);
      before += count;
    }
  }
}

// Runs work(range, thread) for all chunks, one colour after the other.
template <class Work>
void for_chunks(const std::vector<std::vector<Range>>& colours, int threads, Work&& work) {
  for_numbered_chunks(colours, threads, [&](int, const Range& chunk, int thread) { work(chunk, thread); });
}

inline int count_chunks(const std::vector<std::vector<Range>>& colours) {
  int count = 0;
  for (const std::vector<Range>& chunks : colours) count += static_cast<int>(chunks.size());
  return count;
}

// How kernels access the surface points of blocks; results are bit-identical for all of them. runs: points whose lanes
// are consecutive entries are accessed as one vector. by_loads: the others are accessed by single loads and stores,
// even if the processor has a gather instruction.
struct Access {
  bool runs, by_loads;
  bool operator==(const Access&) const = default;
};
std::string name(Access access);

class Blocks {
 public:
  // numbering: must have the lanes of a vector. The index of its assembly is not needed afterwards.
  Blocks(const Numbering& numbering, const std::shared_ptr<device::Device>& device);

  const BlockIndex& index() const { return view_; }
  BlockIndex index(Access access) const;
  // Sets the access used in index(); `reason` is shown to the user (simd_access.hpp).
  void use(Access access, std::string reason);
  Access access() const { return access_; }
  const std::string& access_reason() const { return access_reason_; }
  const Plan& plan() const { return plan_; }
  std::map<std::string, std::int64_t> memory_bytes() const;

 private:
  device::Array<std::int32_t> index_;
  std::vector<std::int64_t> interior_;
  std::vector<std::int32_t> interior_index_;
  std::vector<std::uint8_t> conflict_;
  std::vector<std::uint8_t> runs_;
  BlockIndex view_{};
  Plan plan_;
  Access access_{};
  std::string access_reason_;
};

}  // namespace weft::space
