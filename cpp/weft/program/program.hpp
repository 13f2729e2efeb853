// Expressions in x, y, z and t, compiled by python/weft/program.py into programs in postfix order, at points of a
// device: initial, boundary and forcing values of cases. kernels/program.hpp runs them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/device/device.hpp"

namespace weft::program {

struct Operation {
  std::string name;  // "add"
  int takes;         // values from the stack; each leaves one, but swap two
};
// By their codes, which are places in this list.
const std::vector<Operation>& operations();

// A program that is known to be sound. std::invalid_argument for a code that is none, values that are missing or left
// over, and a stack deeper than the kernel's.
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

// A code on a device, for points and values of T; what is between is double.
template <class T>
class Program {
 public:
  Program(Code code, std::shared_ptr<device::Device> device);

  // values[i] at (points[i], points[stride + i], points[2 stride + i]) and at the time, for i < n. NaN and infinity may
  // come out: whoever uses the values looks at them.
  void evaluate(const T* points, std::int64_t stride, std::int64_t n, double time, T* values,
                device::Stream& stream) const;
  const Code& code() const { return code_; }
  std::int64_t memory_bytes() const { return static_cast<std::int64_t>(operations_.bytes() + constants_.bytes()); }

 private:
  Code code_;
  device::Array<std::int32_t> operations_;
  device::Array<double> constants_;
  device::Kernel run_;
};

}  // namespace weft::program
