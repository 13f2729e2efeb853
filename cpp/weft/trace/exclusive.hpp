// Exclusive times of nested intervals on a timeline.
#pragma once

#include <algorithm>
#include <vector>

#include "weft/trace/recorder.hpp"

namespace weft::trace {

// Calls add(open, seconds) with the exclusive time of the interval at the back of `open`; the intervals before it
// enclose it. Each instant of a timeline belongs to the open interval that began last. The times therefore add up to
// the length of the union of the intervals, even if device intervals of two streams overlap without nesting.
using Open = std::vector<const Interval*>;
template <class F>
void exclusive(std::vector<Interval> all, F&& add) {
  for (const bool device : {false, true}) {
    std::vector<Interval> line;
    std::copy_if(all.begin(), all.end(), std::back_inserter(line),
                 [&](const Interval& i) { return i.device == device; });
    std::stable_sort(line.begin(), line.end(), [](const Interval& a, const Interval& b) {
      return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
    });
    Open open;
    std::int64_t time = 0;
    const auto advance = [&](std::int64_t until) {  // advances to `until`, closing the intervals that end before it
      while (!open.empty() && open.back()->end_ns <= until) {
        const std::int64_t end = open.back()->end_ns;
        if (end > time) {
          add(open, 1e-9 * static_cast<double>(end - time));
          time = end;
        }
        open.pop_back();
      }
      if (!open.empty() && until > time) add(open, 1e-9 * static_cast<double>(until - time));
      time = std::max(time, until);
    };
    std::int64_t last_end = 0;
    for (const Interval& interval : line) {
      advance(interval.begin_ns);
      open.push_back(&interval);
      last_end = std::max(last_end, interval.end_ns);
    }
    advance(last_end);
  }
}

}  // namespace weft::trace
