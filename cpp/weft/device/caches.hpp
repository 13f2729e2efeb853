// Sizes of the host's caches.
#pragma once

#include <cstddef>

namespace weft::device {

// Total bytes of the distinct last-level caches of the processors that this process may run on (its affinity). The
// sizes come from what Linux lists for each processor, or from the C library where Linux lists nothing. The C library
// alone is not enough: it gives the sum over the whole package, many times what these processors can use if each group
// of cores has its own cache, or on a virtual machine.
std::size_t last_level_cache_bytes();

}  // namespace weft::device
