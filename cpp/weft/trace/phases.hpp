// The time of a program's phases, by category.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace weft::trace {

// Exclusive seconds of the host's timeline (recorder.hpp) by phase and category. A phase is a span with one of these
// names, including the spans inside it but not other phases. Time outside all phases is listed under "". A kernel on a
// device counts as the host's wait for it.
std::map<std::string, std::map<std::string, double>> exclusive_seconds_by_phase(const std::vector<std::string>& phases);

}  // namespace weft::trace
