// Groups of entries that are combined, laid out for kernels/exchange.hpp.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/exchange/choice.hpp"

namespace weft::exchange {

// Groups in the order their kernels should visit them. add() them, then build() on a device.
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
  template <class T>
  friend class Groups;
  std::vector<std::int32_t> targets_, references_;
  std::vector<std::int64_t> begin_{0};
};

// 4 bytes a reference, 4 a target, and about 20 a chunk and multiplicity.
template <class T>
class Groups {
 public:
  Groups() = default;
  // with_targets: false for groups that only `combine` will visit.
  Groups(const GroupList& list, std::shared_ptr<device::Device> device, bool with_targets = true);

  // y[target] = combination of x[references]; accumulate: starting with y[target].
  void gather(Op op, int fields, bool accumulate, const T* x, T* y, device::Stream& stream) const;
  // x[references] = combination of x[references], in place.
  void combine(Op op, int fields, T* x, device::Stream& stream) const;
  // y[references] = x[target]
  void scatter(int fields, const T* x, T* y, device::Stream& stream) const;

 private:
  unsigned chunks_count_ = 0;
  device::Array<std::int32_t> chunks_, classes_, references_, targets_;
  device::Kernel gather_, combine_, scatter_;
};

// buffer[i] = x[index[i]]: packing for a message, and the scatter of DOFs to points.
template <class T>
class Packing {
 public:
  Packing() = default;
  Packing(std::span<const std::int32_t> index, std::shared_ptr<device::Device> device);
  void operator()(int fields, const T* x, T* buffer, device::Stream& stream) const;
  std::int64_t size() const { return static_cast<std::int64_t>(index_.size()); }

 private:
  device::Array<std::int32_t> index_;
  device::Kernel pack_;
};

}  // namespace weft::exchange
