// What the benchmarks of host kernels share: clocks, medians, the limits of the run, and a main that reports errors.
#pragma once

#include <mpi.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <memory>
#include <vector>

#include "weft/device/limits.hpp"
#include "weft/mpi/comm.hpp"

namespace weft::benchmarks {

// Seconds of wall-clock time, and of processor time for machines that are shared.
struct Time {
  double wall = 0, cpu = 0;
};

inline Time now() {
  timespec cpu;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
  return {MPI_Wtime(), static_cast<double>(cpu.tv_sec) + 1e-9 * static_cast<double>(cpu.tv_nsec)};
}

// Of one call of work() on every rank at the same time, the slowest rank's. (collective)
template <class Work>
Time time_of(const mpi::Comm& comm, Work&& work) {
  comm.barrier();
  const Time begin = now();
  work();
  const Time end = now();
  return {comm.max(end.wall - begin.wall), comm.max(end.cpu - begin.cpu)};
}

// Of each clock by itself.
inline Time median(std::vector<Time> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  const auto by = [&](double Time::* key) {
    std::nth_element(times.begin(), middle, times.end(),
                     [key](const Time& a, const Time& b) { return a.*key < b.*key; });
    return (*middle).*key;
  };
  return {by(&Time::wall), by(&Time::cpu)};
}

// The limits of this run: bytes and flops a second of all ranks at the same time, the best of what was measured.
struct Limits {
  double bandwidth = 0, flops = 0;

  // Call it before and after the measurements. (collective)
  template <class T>
  void measure(const std::shared_ptr<device::Device>& device, const mpi::Comm& comm) {
    comm.barrier();
    std::array<double, 2> measured{device::measure_bandwidth(device), device::measure_peak_flops<T>(device)};
    comm.sum(measured.data(), 2);
    bandwidth = std::max(bandwidth, measured[0]);
    flops = std::max(flops, measured[1]);
  }
};

// main(): body() between MPI's beginning and end; an exception ends all ranks with its words.
template <class Body>
int run(const char* name, int argc, char** argv, Body&& body) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  try {
    body();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", name, e.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return 0;
}

}  // namespace weft::benchmarks
