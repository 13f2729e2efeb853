#include "weft/exchange/groups.hpp"

#include <algorithm>
#include <optional>

namespace weft::exchange {
namespace {

constexpr device::Shape threads{256};                               // exchange_threads of kernels/exchange.hpp
constexpr std::int64_t pack_chunk = 4096;                           // exchange_chunk in the same file
constexpr unsigned chunks_per_part = 85, pack_chunks_per_part = 8;  // per thread; separate fields alternate
constexpr int apart_at_once = 3;                                    // as in kernels/exchange.hpp
// Sizes from which non-temporal stores pay off, because the data would leave the caches before they are read. Gathered
// values are not written in order, so reading their cache lines before writing costs more and the limit is lower.
constexpr std::int64_t gathered_past_caches = 8 << 20, packed_past_caches = 24 << 20;
constexpr std::size_t groups_per_chunk = 1024;
constexpr std::size_t groups_per_host_chunk = 384;  // three fields of a chunk stay in a core's L1 cache between classes
constexpr std::size_t longest_run = 16;             // few different lengths, so that each class has many runs
// Host kernels prefetch blocks of entries (block_entries in kernels/exchange.hpp) after every ask_every runs, if there
// are enough references to exceed the caches. A block is assumed to stay in cache for about chunks_kept chunks.
constexpr std::size_t block_entries = 16, ask_every = 16, references_worth = 1 << 16;
constexpr std::int32_t chunks_kept = 32;

// The first of these targets if they are consecutive, else -1.
std::int32_t first_of_consecutive(std::span<const std::int32_t> targets) {
  for (std::size_t i = 1; i < targets.size(); ++i) {
    if (targets[i] != targets[i - 1] + 1) return -1;
  }
  return targets.front();
}

// Whether the data that a kernel writes leave all caches before they are read.
template <class T>
int leaves_caches(const device::Device& device, std::int64_t entries, int fields, std::int64_t bytes) {
  return device.is_host() && entries * fields * static_cast<std::int64_t>(sizeof(T)) >= bytes ? 1 : 0;
}

std::span<const std::int32_t> view(const std::vector<std::int32_t>& values) { return values; }

// Calls each(first chunk, chunks, first field, fields). On the host, fields in separate arrays are processed
// apart_at_once or one at a time, and each part of the index is used for all of them while it is in cache.
template <class F>
void in_parts(const device::Device& device, unsigned chunks, unsigned chunks_a_part, int fields, bool apart, F&& each) {
  if (!device.is_host() || !apart || fields == 1) return each(0U, chunks, 0, fields);
  const unsigned part = chunks_a_part * static_cast<unsigned>(device.info().multiprocessors);
  for (unsigned first = 0; first < chunks; first += part) {
    for (int f = 0; f < fields;) {
      const int some = fields - f >= apart_at_once ? apart_at_once : 1;
      each(first, std::min(part, chunks - first), f, some);
      f += some;
    }
  }
}

// The distance, in values, between each of these arrays and the next, if it is the same for all: then they are fields
// of one array.
template <class T>
std::optional<long> distance(std::span<T* const> arrays) {
  std::optional<std::intptr_t> bytes;
  for (std::size_t a = 1; a < arrays.size(); ++a) {
    const std::intptr_t next =
        reinterpret_cast<std::intptr_t>(arrays[a]) - reinterpret_cast<std::intptr_t>(arrays[a - 1]);
    if (bytes.value_or(next) != next || next % static_cast<std::intptr_t>(sizeof(T)) != 0) return {};
    bytes = next;
  }
  if (!bytes) return {};
  return *bytes / static_cast<std::intptr_t>(sizeof(T));
}

// The blocks of entries that chunks refer to. Each block is listed with every chunk for which it is no longer in cache.
class Blocks {
 public:
  explicit Blocks(std::span<const std::int32_t> references)
      : last_use_(static_cast<std::size_t>(*std::ranges::max_element(references)) / block_entries + 1,
                  -chunks_kept - 1) {}
  void add_chunk(std::span<const std::int32_t> references) {
    const std::size_t first = blocks_.size();
    const auto chunk = static_cast<std::int32_t>(begin_.size());
    begin_.push_back(static_cast<std::int32_t>(first));
    for (const std::int32_t r : references) {
      const std::size_t block = static_cast<std::size_t>(r) / block_entries;
      if (last_use_[block] < chunk - chunks_kept) blocks_.push_back(static_cast<std::int32_t>(block));
      last_use_[block] = chunk;
    }
    std::sort(blocks_.begin() + static_cast<std::ptrdiff_t>(first), blocks_.end());
  }
  const std::vector<std::int32_t>& all() const { return blocks_; }
  std::int32_t begin(std::size_t chunk) const {
    return chunk < begin_.size() ? begin_[chunk] : static_cast<std::int32_t>(blocks_.size());
  }

 private:
  std::vector<std::int32_t> blocks_, begin_, last_use_;
};

}  // namespace

GroupIndex::GroupIndex(const GroupList& list, std::shared_ptr<device::Device> device, bool with_targets)
    : device_(std::move(device)) {
  const std::size_t count = list.targets_.size();
  if (count == 0) return;
  const auto multiplicity = [&](std::size_t g) {
    return static_cast<std::int32_t>(list.begin_[g + 1] - list.begin_[g]);
  };
  struct Run {
    std::size_t first;  // group
    std::int32_t multiplicity, length;
  };
  // Whether group g + 1 continues group g in its target and in every reference.
  const auto continues = [&](std::size_t g) {
    if (multiplicity(g) != multiplicity(g + 1) || (with_targets && list.targets_[g + 1] != list.targets_[g] + 1))
      return false;
    const auto of = [&](std::size_t group) { return list.references_.begin() + list.begin_[group]; };
    return std::equal(of(g), of(g + 1), of(g + 1), [](std::int32_t a, std::int32_t b) { return b == a + 1; });
  };
  const bool host = device_->is_host();
  std::vector<std::int32_t> chunks, classes, references, targets;
  std::vector<Run> runs;
  std::optional<Blocks> blocks;
  if (host && list.references_.size() >= references_worth) blocks.emplace(list.references_);
  const std::size_t groups = host ? groups_per_host_chunk : groups_per_chunk;
  for (std::size_t first = 0; first < count; first += groups) {
    const std::size_t last = std::min(first + groups, count);
    chunks.push_back(static_cast<std::int32_t>(classes.size() / 5));
    chunks.push_back(first_of_consecutive(std::span(list.targets_).subspan(first, last - first)));
    if (blocks) {
      const auto [from, to] = std::pair(list.begin_[first], list.begin_[last]);
      blocks->add_chunk(
          std::span(list.references_).subspan(static_cast<std::size_t>(from), static_cast<std::size_t>(to - from)));
    }
    runs.clear();
    for (std::size_t g = first; g < last;) {
      std::size_t end = g + 1;
      while (host && end < last && continues(end - 1)) ++end;
      while (g < end) {
        const std::size_t length = std::min(end - g, longest_run);
        runs.push_back({g, multiplicity(g), static_cast<std::int32_t>(length)});
        g += length;
      }
    }
    std::stable_sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) {
      return std::pair(a.multiplicity, a.length) < std::pair(b.multiplicity, b.length);
    });
    std::size_t strips = 0;
    for (std::size_t i = 0; i < runs.size();) {
      const std::int32_t m_end = runs[i].multiplicity, length = runs[i].length;
      std::size_t end = i;
      while (end < runs.size() && runs[end].multiplicity == m_end && runs[end].length == length) ++end;
      for (const auto value : {static_cast<std::size_t>(m_end), static_cast<std::size_t>(length), end - i,
                               references.size(), targets.size()}) {
        classes.push_back(static_cast<std::int32_t>(value));
      }
      for (std::int32_t m = 0; m < m_end; ++m) {
        for (std::size_t r = i; r < end; ++r) {
          references.push_back(list.references_[static_cast<std::size_t>(list.begin_[runs[r].first] + m)]);
        }
      }
      strips += (end - i + ask_every - 1) / ask_every;
      for (; i < end; ++i) targets.push_back(list.targets_[runs[i].first]);
    }
    chunks.push_back(0);
    chunks.push_back(static_cast<std::int32_t>(strips));
  }
  chunks.insert(chunks.end(), {static_cast<std::int32_t>(classes.size() / 5), -1, 0, 1});
  // Each chunk prefetches what the next one reads, provided the index stays within 4 bytes per reference.
  if (blocks && blocks->all().size() + references.size() <= list.references_.size()) {
    for (std::size_t c = 0; 4 * c < chunks.size(); ++c) {
      std::int32_t *chunk = &chunks[4 * c], strips = chunk[3];
      chunk[2] = blocks->begin(c + 1);
      chunk[3] = (blocks->begin(c + 2) - chunk[2] + strips - 1) / strips;
    }
    blocks_ = device::Array<std::int32_t>(device_, view(blocks->all()));
  }
  entries_ = static_cast<std::int64_t>(count);
  chunks_count_ = static_cast<unsigned>(chunks.size() / 4 - 1);
  chunks_ = device::Array<std::int32_t>(device_, view(chunks));
  classes_ = device::Array<std::int32_t>(device_, view(classes));
  references_ = device::Array<std::int32_t>(device_, view(references));
  if (with_targets) targets_ = device::Array<std::int32_t>(device_, view(targets));
}

template <class T>
Groups<T>::Groups(std::shared_ptr<const GroupIndex> index) : index_(std::move(index)) {
  if (index_->chunks_count_ == 0) return;
  device::Device& device = *index_->device_;
  if (!index_->targets_.empty()) {
    gather_ = device.kernel<T>("exchange", "gather_groups");
    scatter_ = device.kernel<T>("exchange", "scatter_groups");
  }
  combine_ = device.kernel<T>("exchange", "combine_groups");
}

template <class T>
void Groups<T>::gather(Op op, int fields, bool accumulate, View<const T> x, View<T> y, device::Stream& stream) const {
  if (!index_ || index_->chunks_count_ == 0) return;
  const GroupIndex& i = *index_;
  const int past_caches = x.data == y.data ? 0 : leaves_caches<T>(*i.device_, i.entries_, fields, gathered_past_caches);
  in_parts(*i.device_, i.chunks_count_, chunks_per_part, fields, x.field != 1 || y.field != 1,
           [&](unsigned first, unsigned chunks, int f, int count) {
             gather_(stream, chunks, threads, static_cast<int>(op), count, accumulate, past_caches,
                     i.chunks_.data() + 4 * first, i.blocks_.data(), i.classes_.data(), i.references_.data(),
                     i.targets_.data(), x.data + f * x.field, x.entry, x.field, y.data + f * y.field, y.entry, y.field);
           });
}

template <class T>
void Groups<T>::combine(Op op, int fields, View<T> x, device::Stream& stream) const {
  if (!index_ || index_->chunks_count_ == 0) return;
  const GroupIndex& i = *index_;
  in_parts(*i.device_, i.chunks_count_, chunks_per_part, fields, x.field != 1,
           [&](unsigned first, unsigned chunks, int f, int count) {
             combine_(stream, chunks, threads, static_cast<int>(op), count, i.chunks_.data() + 4 * first,
                      i.blocks_.data(), i.classes_.data(), i.references_.data(), x.data + f * x.field, x.entry,
                      x.field);
           });
}

template <class T>
void Groups<T>::combine(Op op, std::span<T* const> arrays, device::Stream& stream) const {
  if (!index_ || index_->chunks_count_ == 0) return;
  const GroupIndex& i = *index_;
  in_parts(*i.device_, i.chunks_count_, chunks_per_part, static_cast<int>(arrays.size()), true,
           [&](unsigned first, unsigned chunks, int f, int count) {
             const auto some = arrays.subspan(static_cast<std::size_t>(f), static_cast<std::size_t>(count));
             const std::optional<long> field = distance(some);
             for (T* const array : field ? some.first(1) : some) {
               combine_(stream, chunks, threads, static_cast<int>(op), field ? count : 1, i.chunks_.data() + 4 * first,
                        i.blocks_.data(), i.classes_.data(), i.references_.data(), array, 1, field.value_or(1));
             }
           });
}

template <class T>
void Groups<T>::scatter(int fields, View<const T> x, View<T> y, device::Stream& stream) const {
  if (!index_ || index_->chunks_count_ == 0) return;
  const GroupIndex& i = *index_;
  scatter_(stream, i.chunks_count_, threads, fields, i.chunks_.data(), i.classes_.data(), i.references_.data(),
           i.targets_.data(), x.data, x.entry, x.field, y.data, y.entry, y.field);
}

template <class T>
Packing<T>::Packing(std::span<const std::int32_t> index, std::shared_ptr<device::Device> device)
    : device_(std::move(device)), index_(device_, index), pack_(device_->kernel<T>("exchange", "pack")) {}

template <class T>
void Packing<T>::operator()(int fields, View<const T> x, View<T> buffer, device::Stream& stream) const {
  const auto blocks = static_cast<unsigned>((size() + pack_chunk - 1) / pack_chunk);
  if (blocks == 0) return;
  const int past_caches = leaves_caches<T>(*device_, size(), fields, packed_past_caches);
  in_parts(*device_, blocks, pack_chunks_per_part, fields, x.field != 1 || buffer.field != 1,
           [&](unsigned first, unsigned chunks, int f, int count) {
             const std::int64_t i = first * pack_chunk;
             pack_(stream, chunks, threads, size() - i, count, past_caches, index_.data() + i, x.data + f * x.field,
                   x.entry, x.field, buffer.data + i * buffer.entry + f * buffer.field, buffer.entry, buffer.field);
           });
}

template class Groups<double>;
template class Groups<float>;
template class Groups<std::int32_t>;
template class Groups<std::int64_t>;
template class Packing<double>;
template class Packing<float>;
template class Packing<std::int32_t>;
template class Packing<std::int64_t>;

}  // namespace weft::exchange
