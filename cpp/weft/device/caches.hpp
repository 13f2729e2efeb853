// The host's caches.
#pragma once

#include <cstddef>

namespace weft::device {

// Bytes of all the distinct last-level caches of the processors that this process may run on (its affinity), as Linux
// lists them per processor; where it does not, what the C library says. The C library alone gives the sum over the
// whole package, which on processors with one cache per group of cores, or on a virtual machine, is many times what
// these processors reach.
std::size_t last_level_cache_bytes();

}  // namespace weft::device
