// Expressions in x, y, z and t, compiled by python/weft/program.py to programs in postfix order, which are evaluated at
// points on a device. They are used for initial, boundary and forcing values of cases. kernels/program.hpp executes
// them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/device/device.hpp"

namespace weft::program {

struct Operation {
  std::string name;  // "add"
  int takes;         // number of values taken from the stack; each operation pushes one value, but swap pushes two
};
// The operations. Their codes are the indices into this list.
const std::vector<Operation>& operations();

// A validated program. std::invalid_argument for an unknown code, missing or left-over values, or a stack deeper than
// the kernel's.
class Code {
 public:
  Code(std::vector<std::int32_t> operations, std::vector<double> constants);

  const std::vector<std::int32_t>& operations() const { return operations_; }
  const std::vector<double>& constants() const { return constants_; }
  int depth() const { return depth_; }
  bool depends_on_time() const;

 private:
  std::vector<std::int32_t> operations_;
  std::vector<double> constants_;
  int depth_;
};

// A program on a device, for points and values of type T; intermediate values are double.
template <class T>
class Program {
 public:
  Program(Code code, std::shared_ptr<device::Device> device);

  // values[i] at (points[i], points[stride + i], points[2 stride + i]) and at the given time, for i < n. The results
  // may be NaN or infinite: callers must check them.
  void evaluate(const T* points, std::int64_t stride, std::int64_t n, double time, T* values,
                device::Stream& stream) const;
  const Code& code() const { return code_; }
  std::int64_t memory_bytes() const { return static_cast<std::int64_t>(operations_.bytes() + constants_.bytes()); }

 private:
  Code code_;
  device::Array<std::int32_t> operations_;
  device::Array<double> constants_;
  device::Kernel<long, long, int, const std::int32_t*, const double*, double, const T*, T*> run_;
};

}  // namespace weft::program
