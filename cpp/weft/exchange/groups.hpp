// Groups of entries to combine, laid out for kernels/exchange.hpp.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/exchange/choice.hpp"

namespace weft::exchange {

// Groups, in the order in which kernels should visit them. add() them all, then build() on a device.
class GroupList {
 public:
  void add(std::int32_t target, std::span<const std::int32_t> references) {
    targets_.push_back(target);
    references_.insert(references_.end(), references.begin(), references.end());
    begin_.push_back(static_cast<std::int64_t>(references_.size()));
  }
  void reserve(std::size_t groups, std::size_t references) {
    targets_.reserve(groups);
    begin_.reserve(groups + 1);
    references_.reserve(references);
  }

 private:
  friend class GroupIndex;
  std::vector<std::int32_t> targets_, references_;
  std::vector<std::int64_t> begin_{0};
};

// The indices of the groups on a device, independent of the type of the values. They take at most 4 bytes per
// reference, 4 per target, 20 per chunk and class, and 16 per chunk. On the host, a run of groups with consecutive
// targets and references is stored as a single index; some of the space saved holds prefetch hints.
class GroupIndex {
 public:
  // with_targets: false for groups used only by `combine`.
  GroupIndex(const GroupList& list, std::shared_ptr<device::Device> device, bool with_targets = true);
  std::size_t bytes() const {
    return chunks_.bytes() + blocks_.bytes() + classes_.bytes() + references_.bytes() + targets_.bytes();
  }

 private:
  template <class T>
  friend class Groups;
  std::shared_ptr<device::Device> device_;
  unsigned chunks_count_ = 0;
  std::int64_t entries_ = 0;  // targets
  device::Array<std::int32_t> chunks_, blocks_, classes_, references_, targets_;
};

// Where values are stored: value f of entry e is data[e * entry + f * field].
template <class T>
struct View {
  T* data;
  long entry = 1, field = 1;

  View<const T> read_only() const { return {data, entry, field}; }
};
template <class T>
View<T> next_to_each_other(T* data, int fields) {
  return {data, fields, 1};
}

// Operations on groups, for values of one type.
template <class T>
class Groups {
 public:
  Groups() = default;
  explicit Groups(std::shared_ptr<const GroupIndex> index);
  Groups(const GroupList& list, std::shared_ptr<device::Device> device, bool with_targets = true)
      : Groups(std::make_shared<const GroupIndex>(list, std::move(device), with_targets)) {}

  // y[target] = combination of x[references]; with accumulate, y[target] is the first operand.
  void gather(Op op, int fields, bool accumulate, View<const T> x, View<T> y, device::Stream& stream) const;
  // x[references] = combination of x[references], in place.
  void combine(Op op, int fields, View<T> x, device::Stream& stream) const;
  // The same for separate arrays with one value per entry.
  void combine(Op op, std::span<T* const> arrays, device::Stream& stream) const;
  // y[references] = x[target]
  void scatter(int fields, View<const T> x, View<T> y, device::Stream& stream) const;

  // The same for contiguous values.
  void gather(Op op, int fields, bool accumulate, const T* x, T* y, device::Stream& stream) const {
    gather(op, fields, accumulate, next_to_each_other(x, fields), next_to_each_other(y, fields), stream);
  }
  void combine(Op op, int fields, T* x, device::Stream& stream) const {
    combine(op, fields, next_to_each_other(x, fields), stream);
  }
  void scatter(int fields, const T* x, T* y, device::Stream& stream) const {
    scatter(fields, next_to_each_other(x, fields), next_to_each_other(y, fields), stream);
  }

 private:
  std::shared_ptr<const GroupIndex> index_;
  device::Kernel<int, int, int, int, const std::int32_t*, const std::int32_t*, const std::int32_t*, const std::int32_t*,
                 const std::int32_t*, const T*, long, long, T*, long, long>
      gather_;
  device::Kernel<int, int, const std::int32_t*, const std::int32_t*, const std::int32_t*, const std::int32_t*, T*, long,
                 long>
      combine_;
  device::Kernel<int, const std::int32_t*, const std::int32_t*, const std::int32_t*, const std::int32_t*, const T*,
                 long, long, T*, long, long>
      scatter_;
};

// buffer[i] = x[index[i]]: packs messages, and scatters DOFs to points.
template <class T>
class Packing {
 public:
  Packing() = default;
  Packing(std::span<const std::int32_t> index, std::shared_ptr<device::Device> device);
  void operator()(int fields, View<const T> x, View<T> buffer, device::Stream& stream) const;
  void operator()(int fields, const T* x, T* buffer, device::Stream& stream) const {
    (*this)(fields, next_to_each_other(x, fields), next_to_each_other(buffer, fields), stream);
  }
  std::int64_t size() const { return static_cast<std::int64_t>(index_.size()); }
  std::size_t bytes() const { return index_.bytes(); }

 private:
  std::shared_ptr<device::Device> device_;
  device::Array<std::int32_t> index_;
  device::Kernel<long, int, int, const std::int32_t*, const T*, long, long, T*, long, long> pack_;
};

}  // namespace weft::exchange
