// The driver made for tests, set up to run kernels: as machine code if the driver has it, as fibers if there is an
// instance for their constants, otherwise as host instances.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "fake_gpu.hpp"
#include "fiber_device.hpp"
#include "machine_code/disassembly.hpp"
#include "machine_code/launches.hpp"
#include "weft/device/backends.hpp"
#include "weft/device/host_registry.hpp"

namespace weft::device {

// Copies a launch's arguments and returns the launch, to be executed later.
inline std::function<void()> prepare_launch(const FakeLaunch& launch) {
  const KernelSpec spec = machine_code::spec_of(launch);
  std::vector<std::size_t> sizes = fiber::argument_sizes(spec);
  const bool on_fibers = !sizes.empty();
  const auto device = open(on_fibers ? "fiber" : "host");
  const LoadedKernel kernel = device->kernel(spec);  // from here on it is in the registry
  if (!on_fibers) sizes = find_host_kernel(spec.file, spec.name, constants_of(spec))->argument_sizes;
  std::vector<std::vector<char>> values;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const char* from = static_cast<const char*>(launch.arguments[i]);
    values.emplace_back(from, from + sizes[i]);
  }
  const auto [x, y, z] = launch.threads;
  return [=, blocks = launch.blocks]() mutable {
    std::vector<void*> pointers;
    for (auto& value : values) pointers.push_back(value.data());
    Stream stream(device);
    kernel.launch(stream, blocks, {x, y, z}, pointers.data());
  };
}

// nullptr if the program was not started by ctest, which makes the loader find the driver.
inline FakeGpu* find_fake_gpu(const std::string& backend) {
  void* library = dlopen(backend == "hip" ? "libamdhip64.so" : "libcuda.so.1", RTLD_NOW);
  auto* find = library == nullptr ? nullptr : reinterpret_cast<FakeGpu* (*)()>(dlsym(library, "fake_gpu"));
  if (find == nullptr) {
    EXPECT_EQ(std::getenv("WEFT_FAKE_GPU"), nullptr) << "the driver made for tests was not found";
    return nullptr;
  }
  find()->prepare = [fake = find()](const FakeLaunch& launch) {
    return launch.cubin == nullptr ? prepare_launch(launch) : machine_code::prepare_launch(launch, fake->memory);
  };
  find()->load = [](const machine_code::Image& cubin) { machine_code::announce(cubin.bytes()); };
  return find();
}

}  // namespace weft::device
