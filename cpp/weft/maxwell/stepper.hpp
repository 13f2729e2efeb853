// Maxwell's equations forward in time: the low-storage Runge-Kutta method of order 4 on an Operator.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "weft/device/device.hpp"
#include "weft/maxwell/operator.hpp"

namespace weft::maxwell {

// T: float or double.
template <class T>
class Stepper {
 public:
  // Fields are zero at first. `op` outlives the stepper.
  explicit Stepper(Operator<T>& op);

  // `count` steps of dt from where the fields and the time are. dt is the caller's to choose; see Operator::dt_limit.
  // std::invalid_argument unless dt is positive and finite. (collective)
  void step(std::int64_t count, double dt);

  device::Array<T>& fields() { return fields_; }  // [Operator::entries()]; synchronise the stream before use
  double time() const { return time_; }
  void set_time(double time) { time_ = time; }
  std::int64_t steps() const { return steps_; }
  device::Stream& stream() { return stream_; }
  std::map<std::string, std::int64_t> memory_bytes() const;  // fields and residual

 private:
  Operator<T>& op_;
  device::Stream stream_;
  device::Array<T> fields_, residual_;
  double time_ = 0;
  std::int64_t steps_ = 0;
};

}  // namespace weft::maxwell
