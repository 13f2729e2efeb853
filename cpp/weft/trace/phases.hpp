// Where the time of a program's phases goes.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace weft::trace {

// Exclusive seconds of the host's time line (recorder.hpp) by phase and category. A phase is a span of one of these
// names with what was opened inside it, less the phases in it; what is in none counts as "". A kernel on a device
// counts as the host's wait for it.
std::map<std::string, std::map<std::string, double>> exclusive_seconds_by_phase(const std::vector<std::string>& phases);

}  // namespace weft::trace
