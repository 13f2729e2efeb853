// A GPU driver and its compiler made for tests, under the names of CUDA's and HIP's: libcuda.so.1, libnvrtc.so.13,
// libamdhip64.so. What it is for: the whole path of the cuda and hip backends without a GPU, stricter than a driver.
//
// Streams do nothing until somebody waits for them, so a missing synchronisation shows. Every call is checked: handles
// must live, copies stay within allocations of the right kind, a context be current, timed events be finished. Kernels
// run as fibers, as their host instances, or as machine code. One stream's work runs at a time, but each stream has a
// clock of its own, on which work begins when it was enqueued or the stream was free: events tell times as if streams
// ran side by side.
//
// Inter-process memory and events work between real processes. A stream's work is done when a process waits for it,
// also another process through an opened event; a wait takes an event as it was recorded at the time of the call, so a
// wait that comes before its record waits for nothing. Memory that is freed while another process has it open ends the
// program.
//
// A capture is as strict as CUDA's: what a driver cannot observe (allocations, waits, queries) fails and spoils it.
//
// Where WEFT_FAKE_GPU_NVRTC names the real NVRTC's file, what is compiled for CUDA is compiled by it, too. The image
// then also holds the cubin, functions have its resources, and launches hand it over to be emulated.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "machine_code/image.hpp"

struct FakeLaunch {
  std::string file, name, options;  // options separated by spaces
  unsigned blocks, threads[3];
  void** arguments;
  std::shared_ptr<weft::machine_code::Image> cubin;  // nullptr where there is none
};
struct FakeGpu {
  int devices = 2;
  int driver_version = 13000;
  int capability = 90;  // of NVIDIA's devices; the compiler knows 80, 90 and 100
  std::size_t memory_bytes = std::size_t{1} << 34, used_by_others = 0;  // of a device; more cannot be allocated anyway
  // Copies the arguments and returns what the launch does later.
  std::function<std::function<void()>(const FakeLaunch&)> prepare;
  std::string fail;                                    // the next call of this function (CUDA's name) fails
  std::vector<std::span<char>> (*memory)() = nullptr;  // of the device, by address; for what `prepare` returned
  int compilations = 0;
  int launches = 0;  // kernels, graphs and transforms that the host launched
  int streams = 0;   // created so far
  int waits = 0;     // for a stream or an event
  int live = 0;      // streams, events, allocations, opened memory, modules, graphs not released yet
};
// In the library: extern "C" FakeGpu* fake_gpu().
