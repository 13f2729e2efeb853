// Every kernel that weft launches on GPUs, with the constants it is launched with: what the compile check compiles for
// each architecture. If you add a kernel, extend the list in launched_kernels.cpp; a kernel missing from it fails a
// test.
#pragma once

#include <vector>

#include "weft/device/device.hpp"

namespace weft::bindings {

struct LaunchedKernel {
  device::KernelSpec spec;
  bool hot;  // a stack frame or a spill is an error
};
std::vector<LaunchedKernel> launched_kernels();

}  // namespace weft::bindings
