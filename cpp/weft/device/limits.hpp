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

}  // namespace weft::device
