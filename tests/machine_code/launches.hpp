// Launches through the driver made for tests, run as machine code and checked: each is also executed by the host's
// instance of the kernel, on a copy of the device's memory, and the two results are compared.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "../cpp/fake_gpu.hpp"
#include "counters.hpp"
#include "weft/device/device.hpp"

namespace weft::machine_code {

// What the launches of one instance of a kernel have done in this process.
struct Judged {
  std::uint64_t bit_equal = 0;  // how many of counters.launches gave exactly the host's results
  double worst = 0;             // largest difference from the host's, relative to the largest value of the array
  Counters counters;
};
// By "file.name N=7,real=double,…". At the end it is written as JSON lines to the file that WEFT_MACHINE_CODE_REPORT
// names.
const std::map<std::string, Judged>& judged();

device::KernelSpec spec_of(const FakeLaunch& launch);

// Copies the arguments and returns the launch. It throws at a fault (machine.hpp), and if a result differs from the
// host's by more than rounding: integers by anything, double by 1e-12 and float by 1e-4 of the largest value of the
// array. With WEFT_MACHINE_CODE_COMPARE=0, launches are counted but not compared, and need no instance on the host.
std::function<void()> prepare_launch(const FakeLaunch& launch, std::vector<std::span<char>> (*memory)());

}  // namespace weft::machine_code
