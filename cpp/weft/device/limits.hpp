// Measured limits of a device, such as the two of the roofline.
#pragma once

#include <cstddef>
#include <memory>

#include "weft/device/device.hpp"

namespace weft::device {

// Bandwidth in bytes per second of hipBone's streaming kernel (Chalmers et al., section 4): each thread reads eight
// words of 8 bytes and writes one. Reads and writes both count. Returns the best of several runs, since the value is
// used as a limit.
//
// Each run moves `bytes`; 0 stands for enough to defeat every cache: on the host four times the last-level caches of
// this process's processors, but at least 256 MiB, because virtual machines report smaller caches than they have, and
// at most 1 GiB; on a GPU 2 GiB. With many processes on a node, divide that size among them and pass `bytes`. On the
// host all OpenMP threads of this process take part, with non-temporal stores. Processes that share a memory should
// measure at the same time and add their results.
double measure_bandwidth(const std::shared_ptr<Device>& device, std::size_t bytes = 0);

// Floating-point operations per second in fused multiply-adds of T (double or float) on registers, two operations each.
// Best of several runs, on all OpenMP threads of the host or all multiprocessors of a GPU.
template <class T>
double measure_peak_flops(const std::shared_ptr<Device>& device);

// Seconds per irregular read while the whole device makes such reads: total time divided by the number of reads. Each
// read follows a chain of pointers to a random line of `irregular_bytes` (section 4.6 of the GPU integration report
// calls larger strides irregular) in `bytes` of memory (0: enough to defeat every cache). On the host each thread
// follows eight chains at once, which is enough to saturate memory; on a GPU each thread follows one, with every
// multiprocessor fully occupied. Best of several runs.
inline constexpr int irregular_bytes = 128;
double measure_irregular_read(const std::shared_ptr<Device>& device, std::size_t bytes = 0);

// Bytes per second of a copy between the host's pageable memory and device memory, in each direction; on the host
// device, of a copy within host memory. Each run copies `bytes` (0: 64 MiB). Best of several runs.
struct CopyRates {
  double host_to_device;
  double device_to_host;
};
CopyRates measure_copies(const std::shared_ptr<Device>& device, std::size_t bytes = 0);

}  // namespace weft::device
