// A GPU driver and its compiler made for tests, under the names of CUDA's and HIP's libraries: libcuda.so.1,
// libnvrtc.so.13, libamdhip64.so. They test the whole path of the cuda and hip backends without a GPU, and more
// strictly than a driver would.
//
// Streams do nothing until somebody waits for them, so a missing synchronisation shows. Every call is checked: handles
// must be alive, copies must stay within allocations of the right kind, a context must be current, timed events must
// have finished. Kernels run as fibers, as their host instances, or as machine code. Only one stream's work runs at a
// time, but each stream has its own clock, on which work begins as soon as it was enqueued and the stream was free:
// event times are those of streams that run side by side.
//
// Inter-process memory and events work between real processes. A stream's work is done when a process waits for it,
// possibly another process through an opened event. A wait refers to the last record of an event at the time of the
// call, so a wait before the record waits for nothing. Freeing memory while another process has it open ends the
// program.
//
// A launch with more than 48 KB of shared memory per block fails unless it was asked for before, as CUDA requires.
//
// A capture is as strict as CUDA's: what a driver cannot observe (allocations, waits, queries) fails and invalidates
// it.
//
// If WEFT_FAKE_GPU_NVRTC names the file of the real NVRTC, code for CUDA is compiled with it too, after the changes in
// WEFT_FAKE_GPU_EDITS, which need a WEFT_CACHE of their own. The image then also holds the cubin, functions report its
// resources, and launches pass it on for emulation.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "machine_code/image.hpp"

struct FakeLaunch {
  std::string file, name, options;      // options separated by spaces
  unsigned blocks, threads[3], shared;  // shared: bytes beyond what the kernel declares
  void** arguments;
  std::shared_ptr<weft::machine_code::Image> cubin;  // nullptr if there is none
};
struct FakeGpu {
  int devices = 2;
  int driver_version = 13000;
  int capability = 90;  // of NVIDIA's devices; the compiler knows 80, 90 and 100
  std::size_t memory_bytes = std::size_t{1} << 34, used_by_others = 0;  // of a device; more cannot be allocated anyway
  // Copies the arguments and returns the work that the launch will do later.
  std::function<std::function<void()>(const FakeLaunch&)> prepare;
  std::function<void(const weft::machine_code::Image&)> load;  // called with the cubin of every module
  std::string fail;                                            // the next call of this function (CUDA's name) will fail
  std::vector<std::span<char>> (*memory)() = nullptr;  // the device's memory, by address; for the work returned by
                                                       // `prepare`
  int compilations = 0;
  int launches = 0;  // kernels, graphs and transforms that the host launched
  int streams = 0;   // created so far
  int waits = 0;     // for a stream or an event
  int live = 0;      // streams, events, allocations, opened memory, modules, graphs not released yet
  int kernels = 0;   // that have run, also as part of a graph
};
// In the library: extern "C" FakeGpu* fake_gpu().
