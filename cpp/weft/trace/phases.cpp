#include "weft/trace/phases.hpp"

#include <algorithm>

#include "weft/trace/exclusive.hpp"

namespace weft::trace {

std::map<std::string, std::map<std::string, double>> exclusive_seconds_by_phase(
    const std::vector<std::string>& phases) {
  std::map<std::string, std::map<std::string, double>> seconds;
  exclusive(intervals(), [&](const Open& open, double s) {
    if (open.back()->device) return;
    const auto phase = std::find_if(open.rbegin(), open.rend(), [&](const Interval* i) {
      return std::find(phases.begin(), phases.end(), i->name) != phases.end();
    });
    seconds[phase != open.rend() ? (*phase)->name : ""][std::string(name(open.back()->category))] += s;
  });
  return seconds;
}

}  // namespace weft::trace
