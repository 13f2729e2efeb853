#include "weft/exchange/groups.hpp"

#include <algorithm>
#include <numeric>

namespace weft::exchange {
namespace {

constexpr device::Shape threads{256};      // exchange_threads of kernels/exchange.hpp
constexpr std::int64_t pack_chunk = 4096;  // exchange_chunk there
constexpr unsigned chunks_per_part = 16;   // of the index, a thread; several arrays take turns to use it
// As much as this is written past the caches: the next reader will hardly find it there.
constexpr std::int64_t past_caches_bytes = 24 << 20;
constexpr std::size_t groups_per_chunk = 1024;  // what they touch stays in a core's L2 cache between classes

template <class T>
device::Kernel kernel(device::Device& device, const char* name) {
  return device.kernel({"exchange", name, {{"WEFT_REAL", device::type_name<T>()}}});
}

// The first of these targets if the others follow it one by one, else -1.
std::int32_t first_of_consecutive(std::span<const std::int32_t> targets) {
  for (std::size_t i = 1; i < targets.size(); ++i) {
    if (targets[i] != targets[i - 1] + 1) return -1;
  }
  return targets.front();
}

// Whether what a kernel writes is past all caches before it is read.
template <class T>
int leaves_caches(const device::Device& device, std::int64_t entries, int fields) {
  return device.is_host() && entries * fields * static_cast<std::int64_t>(sizeof(T)) >= past_caches_bytes ? 1 : 0;
}

std::span<const std::int32_t> view(const std::vector<std::int32_t>& values) { return values; }

}  // namespace

GroupIndex::GroupIndex(const GroupList& list, std::shared_ptr<device::Device> device, bool with_targets)
    : device_(std::move(device)) {
  const std::size_t count = list.targets_.size();
  if (count == 0) return;
  const auto multiplicity = [&](std::size_t g) {
    return static_cast<std::int32_t>(list.begin_[g + 1] - list.begin_[g]);
  };
  std::vector<std::int32_t> chunks, classes, references(list.references_.size()), targets(count);
  std::vector<std::size_t> order;
  std::size_t reference_at = 0, target_at = 0;
  for (std::size_t first = 0; first < count; first += groups_per_chunk) {
    order.resize(std::min(groups_per_chunk, count - first));
    chunks.push_back(static_cast<std::int32_t>(classes.size() / 4));
    chunks.push_back(first_of_consecutive(std::span(list.targets_).subspan(first, order.size())));
    std::iota(order.begin(), order.end(), first);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return multiplicity(a) < multiplicity(b); });
    for (std::size_t i = 0; i < order.size();) {
      const std::int32_t m_end = multiplicity(order[i]);
      std::size_t end = i;
      while (end < order.size() && multiplicity(order[end]) == m_end) ++end;
      const std::size_t groups = end - i;
      for (const auto value : {static_cast<std::size_t>(m_end), groups, reference_at, target_at}) {
        classes.push_back(static_cast<std::int32_t>(value));
      }
      for (; i < end; ++i) {
        const auto g = groups - (end - i);
        for (std::int32_t m = 0; m < m_end; ++m) {
          references[reference_at + static_cast<std::size_t>(m) * groups + g] =
              list.references_[static_cast<std::size_t>(list.begin_[order[i]] + m)];
        }
        targets[target_at + g] = list.targets_[order[i]];
      }
      reference_at += static_cast<std::size_t>(m_end) * groups;
      target_at += groups;
    }
  }
  chunks.push_back(static_cast<std::int32_t>(classes.size() / 4));
  chunks_count_ = static_cast<unsigned>(chunks.size() / 2);
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
    gather_ = kernel<T>(device, "gather_groups");
    scatter_ = kernel<T>(device, "scatter_groups");
  }
  combine_ = kernel<T>(device, "combine_groups");
}

template <class T>
void Groups<T>::gather(Op op, int fields, bool accumulate, View<const T> x, View<T> y, device::Stream& stream) const {
  if (!index_ || index_->chunks_count_ == 0) return;
  const GroupIndex& i = *index_;
  const int past_caches = x.data == y.data ? 0 : leaves_caches<T>(*i.device_, i.targets_.size(), fields);
  gather_(stream, i.chunks_count_, threads, static_cast<int>(op), fields, static_cast<int>(accumulate), past_caches,
          i.chunks_.data(), i.classes_.data(), i.references_.data(), i.targets_.data(), x.data, x.entry, x.field,
          y.data, y.entry, y.field);
}

template <class T>
void Groups<T>::combine(Op op, int fields, View<T> x, device::Stream& stream) const {
  if (!index_ || index_->chunks_count_ == 0) return;
  const GroupIndex& i = *index_;
  combine_(stream, i.chunks_count_, threads, static_cast<int>(op), fields, i.chunks_.data(), i.classes_.data(),
           i.references_.data(), x.data, x.entry, x.field);
}

template <class T>
void Groups<T>::combine(Op op, std::span<T* const> arrays, device::Stream& stream) const {
  if (!index_ || index_->chunks_count_ == 0) return;
  const GroupIndex& i = *index_;
  const unsigned each = i.device_->is_host()
                            ? chunks_per_part * static_cast<unsigned>(i.device_->info().multiprocessors)
                            : i.chunks_count_;
  for (unsigned first = 0; first < i.chunks_count_; first += each) {
    for (T* const x : arrays) {
      combine_(stream, std::min(each, i.chunks_count_ - first), threads, static_cast<int>(op), 1,
               i.chunks_.data() + 2 * first, i.classes_.data(), i.references_.data(), x, 1L, 1L);
    }
  }
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
    : device_(std::move(device)), index_(device_, index), pack_(kernel<T>(*device_, "pack")) {}

template <class T>
void Packing<T>::operator()(int fields, View<const T> x, View<T> buffer, device::Stream& stream) const {
  const auto blocks = static_cast<unsigned>((size() + pack_chunk - 1) / pack_chunk);
  if (blocks == 0) return;
  const int past_caches = leaves_caches<T>(*device_, size(), fields);
  pack_(stream, blocks, threads, static_cast<long>(size()), fields, past_caches, index_.data(), x.data, x.entry,
        x.field, buffer.data, buffer.entry, buffer.field);
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
