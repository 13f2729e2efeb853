// The state of a flow: velocity and scalars at the last time levels, the explicit terms at these levels, and the
// pressure.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "weft/device/device.hpp"

namespace weft::flow {

inline constexpr int max_time_order = 3;

// T: float or double. Level 0 is the current time, level j is j steps earlier. The fields are rings of `order` levels:
// a step overwrites the oldest level, so that nothing is copied.
template <class T>
struct State {
  // All fields are 0.
  State(std::shared_ptr<device::Device> device, std::int64_t entries, int scalars, int order)
      : entries(entries), scalars(scalars), order(order), pressure_(device, entries) {
    pressure_.zero();
    for (int level = 0; level < order; ++level) {
      for (auto* ring : {&fields_, &explicit_}) {
        ring->emplace_back(device, static_cast<std::size_t>(components() * entries));
        ring->back().zero();
      }
    }
  }

  int components() const { return 3 + scalars; }
  // [3 + scalars][entries]: u, v, w, then the scalars.
  T* fields(int level = 0) { return fields_[level].data(); }
  const T* fields(int level = 0) const { return fields_[level].data(); }
  T* velocity(int level = 0) { return fields(level); }
  const T* velocity(int level = 0) const { return fields(level); }
  T* scalar(int number, int level = 0) { return fields(level) + (3 + number) * entries; }
  const T* scalar(int number, int level = 0) const { return fields(level) + (3 + number) * entries; }
  T* pressure() { return pressure_.data(); }
  const T* pressure() const { return pressure_.data(); }
  // [3 + scalars][entries]: (v, f - (u . grad) u) and (v, q - (u . grad) s) for the fields of a level, assembled. Those
  // of level 0 are computed by the next step; order 1 has no others.
  T* explicit_terms(int level) { return explicit_[level].data(); }
  const T* explicit_terms(int level) const { return explicit_[level].data(); }

  // Makes the oldest level level 0; the others move back by one.
  void turn_fields() { std::rotate(fields_.begin(), fields_.end() - 1, fields_.end()); }
  void turn_explicit_terms() { std::rotate(explicit_.begin(), explicit_.end() - 1, explicit_.end()); }

  std::int64_t bytes() const {
    std::size_t sum = pressure_.bytes();
    for (const auto* ring : {&fields_, &explicit_})
      for (const auto& array : *ring) sum += array.bytes();
    return static_cast<std::int64_t>(sum);
  }

  const std::int64_t entries;
  const int scalars;
  const int order;        // k of BDFk/EXTk: the number of levels
  double time = 0;        // at level 0
  std::int64_t step = 0;  // number of steps done
  int known = 1;          // number of levels that hold a solution: 1 at the start, `order` after the first steps
  // dt[0] is the step from level 1 to level 0, dt[1] that from level 2 to level 1, and so on.
  std::array<double, max_time_order> dt{};

 private:
  std::vector<device::Array<T>> fields_, explicit_;
  device::Array<T> pressure_;
};

}  // namespace weft::flow
