// Batched complex transforms of lines that are not contiguous in memory, by the methods of GESTS's Table 1.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/bench/timed.hpp"

namespace weft::bench {

// strided: the library reads and writes neighbouring columns. unpack, contiguous, pack: the three steps of the
// alternative, in which lines are copied to contiguous memory, transformed, and copied back. panels: a few neighbouring
// columns at a time are copied to cache, transformed there and copied back (host only).
enum class LinesWay { strided, unpack, contiguous, pack, panels };
LinesWay lines_way(const std::string& name);  // std::invalid_argument for any other name
// The methods available on a device.
std::vector<std::string> lines_ways(const device::Device& device);

// `planes` planes of n x width complex numbers of T; forward transforms along n, in place. All ranks work at the same
// time, without communication. check() compares with the library's strided transform. (collective)
template <class T>
std::unique_ptr<Timed> lines(const mpi::Comm& comm, const std::shared_ptr<device::Device>& device, LinesWay way, int n,
                             std::int64_t width, std::int64_t planes);

}  // namespace weft::bench
