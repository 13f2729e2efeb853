#include "weft/trace/recorder.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

namespace weft::trace {
namespace detail {
std::atomic<bool> enabled{false};
}

namespace {
using Clock = std::chrono::steady_clock;

struct Recorder {
  std::mutex mutex;  // device intervals may be added by a thread of the driver
  std::vector<Interval> intervals;
  std::set<std::string, std::less<>> names;
  Clock::time_point zero = Clock::now();
  std::thread::id thread;  // whose Spans count: one host thread a rank
};

Recorder& recorder() {
  static Recorder instance;
  return instance;
}

// Calls add(interval, seconds) with the time that is the interval's own. At each instant of a time line the interval
// that began last of those open owns it; so what is attributed adds up to the length of the union of the intervals,
// also where device intervals of two streams overlap without nesting.
template <class F>
void exclusive(std::vector<Interval> all, F&& add) {
  for (const bool device : {false, true}) {
    std::vector<Interval> line;
    std::copy_if(all.begin(), all.end(), std::back_inserter(line),
                 [&](const Interval& i) { return i.device == device; });
    std::stable_sort(line.begin(), line.end(), [](const Interval& a, const Interval& b) {
      return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
    });
    std::vector<const Interval*> open;
    std::int64_t time = 0;
    const auto advance = [&](std::int64_t until) {  // to `until`, closing what ends before it
      while (!open.empty() && open.back()->end_ns <= until) {
        const Interval* last = open.back();
        open.pop_back();
        if (last->end_ns > time) {
          add(*last, 1e-9 * static_cast<double>(last->end_ns - time));
          time = last->end_ns;
        }
      }
      if (!open.empty() && until > time) add(*open.back(), 1e-9 * static_cast<double>(until - time));
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

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      std::array<char, 8> code{};
      std::snprintf(code.data(), code.size(), "\\u%04x", c);
      result += code.data();
    } else {
      result += c;
    }
  }
  return result;
}

}  // namespace

std::string_view name(Category category) {
  constexpr std::array<std::string_view, category_count> names{"cpu", "gpu", "mpi", "copy", "launch"};
  return names[static_cast<std::size_t>(category)];
}

void enable(bool on) {
  Recorder& r = recorder();
  const std::lock_guard lock(r.mutex);
  if (on) {
    r.intervals.clear();
    r.zero = Clock::now();
    r.thread = std::this_thread::get_id();
  }
  detail::enabled.store(on, std::memory_order_relaxed);
}

const char* intern(std::string_view text) {
  Recorder& r = recorder();
  const std::lock_guard lock(r.mutex);
  const auto found = r.names.find(text);
  return (found != r.names.end() ? found : r.names.emplace(text).first)->c_str();
}

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - recorder().zero).count();
}

void record(const Interval& interval) {
  if (!enabled()) return;
  Recorder& r = recorder();
  const std::lock_guard lock(r.mutex);
  r.intervals.push_back(interval);
}

std::vector<Interval> intervals() {
  Recorder& r = recorder();
  const std::lock_guard lock(r.mutex);
  return r.intervals;
}

std::map<std::string, double> exclusive_seconds() {
  std::map<std::string, double> seconds;
  for (int c = 0; c < category_count; ++c) seconds[std::string(name(static_cast<Category>(c)))] = 0.0;
  exclusive(intervals(), [&](const Interval& i, double s) { seconds[std::string(name(i.category))] += s; });
  return seconds;
}

std::map<std::string, double> exclusive_seconds_by_name() {
  std::map<std::string, double> seconds;
  exclusive(intervals(), [&](const Interval& i, double s) { seconds[i.name] += s; });
  return seconds;
}

std::string chrome_trace_events(int rank) {
  const std::string pid = std::to_string(rank);
  std::string text = R"({"ph":"M","name":"process_name","pid":)" + pid + R"(,"args":{"name":"rank )" + pid + "\"}}";
  for (const auto& [thread, label] : {std::pair(0, "host"), std::pair(1, "device")}) {
    text += ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":" + pid + ",\"tid\":" + std::to_string(thread) +
            ",\"args\":{\"name\":\"" + label + "\"}}";
  }
  std::array<char, 128> numbers{};
  for (const Interval& i : intervals()) {
    // Chrome's unit is the microsecond; three decimals keep every nanosecond.
    std::snprintf(numbers.data(), numbers.size(), "\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"bytes\":%lld}}",
                  1e-3 * static_cast<double>(i.begin_ns), 1e-3 * static_cast<double>(i.end_ns - i.begin_ns),
                  static_cast<long long>(i.bytes));
    text += ",\n{\"ph\":\"X\",\"name\":\"" + escaped(i.name) + "\",\"cat\":\"" + std::string(name(i.category)) +
            "\",\"pid\":" + pid + ",\"tid\":" + (i.device ? "1," : "0,") + numbers.data();
  }
  return text;
}

void write_chrome_trace(const std::string& path, int rank) {
  std::ofstream file(path);
  file << "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n" << chrome_trace_events(rank) << "\n]}\n";
  if (!file.flush()) throw std::runtime_error("cannot write the trace to " + path);
}

void Span::open(const char* name, Category category, std::int64_t bytes) {
  if (std::this_thread::get_id() != recorder().thread) return;
  name_ = name;
  category_ = category;
  bytes_ = bytes;
  begin_ns_ = now_ns();
}

void Span::close() { record({name_, category_, false, begin_ns_, now_ns(), bytes_}); }

}  // namespace weft::trace
