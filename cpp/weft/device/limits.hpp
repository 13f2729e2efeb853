// What this device can do at most, measured: the two limits of the roofline.
#pragma once

#include <cstddef>
#include <memory>

#include "weft/device/device.hpp"

namespace weft::device {

// Bytes a second of hipBone's streaming kernel (Chalmers et al., section 4): each thread reads eight words of 8 bytes
// and writes one. Reads and writes both count. Best of several runs: the value is used as a limit.
//
// `bytes` are moved in a run; 0 is enough to defeat every cache (host: four times the last-level cache, at least
// 256 MiB and at most 1 GiB; GPU: 2 GiB). Many processes of a node had better share that out and say `bytes`. On the
// host all OpenMP threads of this process take part, with stores that bypass the caches.
// Where processes share a memory, let them measure at the same time and add the results.
double measure_bandwidth(const std::shared_ptr<Device>& device, std::size_t bytes = 0);

// Floating-point operations a second of T (double or float) in fused multiply-adds on registers, two operations each.
// Best of several runs; all OpenMP threads on the host, all multiprocessors on a GPU.
template <class T>
double measure_peak_flops(const std::shared_ptr<Device>& device);

// Seconds of an irregular read when the whole device makes them: time over reads of chains of pointers, each a random
// line of `irregular_bytes` (section 4.6 of the report on GPU integration calls strides beyond that irregular), through
// `bytes` of memory (0: enough to defeat every cache). The host follows eight chains a thread at once, as many as keep
// its memory busy; a GPU one a thread with every multiprocessor full. Best of several runs.
inline constexpr int irregular_bytes = 128;
double measure_irregular_read(const std::shared_ptr<Device>& device, std::size_t bytes = 0);

// Bytes a second of a copy between the host's pageable memory and the device's, there and back; on the host device of
// a copy in memory. `bytes` are copied in a run (0: 64 MiB). Best of several runs.
struct CopyRates {
  double host_to_device;
  double device_to_host;
};
CopyRates measure_copies(const std::shared_ptr<Device>& device, std::size_t bytes = 0);

}  // namespace weft::device
