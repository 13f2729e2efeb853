// Time averages of a flow: means, and covariances (Reynolds stresses, scalar fluxes) around them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/device/device.hpp"
#include "weft/flow/state.hpp"

namespace weft::flow {

// T: float or double. Each sample is weighted with the time since the previous one, so that the result is the time
// average from begin() to the last sample, whatever the step lengths. Stores 11 + 5 scalars vectors of [entries].
template <class T>
class Averages {
 public:
  Averages(std::shared_ptr<device::Device> device, std::int64_t entries, int scalars);

  // Resets the averages; the first sample covers the time since `time`.
  void begin(double time);
  // Adds a sample of the state at its time; no effect unless that time is later than the last sample's.
  void add(const State<T>& state, device::Stream& stream);

  double since() const { return since_; }  // when averaging began
  double until() const { return until_; }  // time of the last sample
  std::int64_t samples() const { return samples_; }
  // Restores the values of the accessors above, to continue a stopped run; data() must be filled too.
  void set(double since, double until, std::int64_t samples);

  // "u", "v", "w", "p": the means. "uu", "vv", "ww", "uv", "uw", "vw", "pp": <u u> - <u><u> and so on. Then for each
  // scalar "s<number>", "s<number>s<number>", "us<number>", "vs<number>", "ws<number>".
  std::vector<std::string> names() const;
  int components() const { return 11 + 5 * scalars_; }
  T* data() { return values_.data(); }  // [components][entries], in the order of names()
  const T* data() const { return values_.data(); }
  std::int64_t bytes() const { return static_cast<std::int64_t>(values_.bytes()); }

 private:
  std::int64_t entries_;
  int scalars_;
  device::Array<T> values_;
  device::Kernel<long, T, const T*, const T*, T*, T*> flow_;
  device::Kernel<long, T, const T*, const T*, const T*, T*, T*> scalar_;
  double since_ = 0, until_ = 0;
  std::int64_t samples_ = 0;
};

}  // namespace weft::flow
