// The recorder of where time goes: spans of host and device work, in five categories, and counters.
//
// What it does not do: decide what is worth recording. Every launch, copy and MPI call of the floors above opens a
// Span; solver phases open named Spans of category `cpu`. With the recorder off a Span costs one relaxed load.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace weft::trace {

// cpu: host computation; gpu: kernels on a device; mpi: inside MPI calls; copy: between host and device;
// launch: the host's time in enqueueing kernels and in waiting for the device.
enum class Category : std::uint8_t { cpu, gpu, mpi, copy, launch };
inline constexpr int category_count = 5;
std::string_view name(Category category);

struct Message {
  int peer;  // its rank in MPI_COMM_WORLD
  std::int64_t bytes;
};

// What the MPI call of a span does, so that readers of the trace can match it with those of other ranks
// (docs/trace.md). Messages between two ranks match in their order within a group; so do the collectives of a group on
// its ranks.
struct Traffic {
  std::int64_t group = -1;           // Comm::group
  std::int64_t request = -1;         // of a call that only starts, and of the wait that ends it; fresh_request()
  const char* collective = nullptr;  // its name where it is one of all ranks of the group
  std::vector<Message> sends, receives;
};
std::int64_t fresh_request();

struct Interval {
  const char* name;  // a literal, or kept alive by `intern`
  Category category;
  bool device;            // on the device's time line
  std::int64_t begin_ns;  // since the recorder was enabled
  std::int64_t end_ns;
  std::int64_t bytes;  // moved or sent, 0 where it has no meaning
  int stream = 0;      // of the device
  std::shared_ptr<const Traffic> traffic = nullptr;
};

namespace detail {
extern std::atomic<bool> enabled;
}
inline bool enabled() { return detail::enabled.load(std::memory_order_relaxed); }

// Starts (clearing what was recorded) or stops recording. Spans count on the calling thread only (one host thread a
// rank: a time line whose spans nest); those of other threads are dropped. Not thread-safe against open Spans.
// Throws std::invalid_argument where WEFT_TRACE_DELAY (below) cannot be read.
void enable(bool on);

// While one lives nothing is recorded: of trials, whose number is large and says nothing of the run. Made on all ranks
// round the same calls, so that what is recorded still matches.
class Pause {
 public:
  Pause();
  ~Pause();
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;

 private:
  bool was_enabled_;
};

// A name that outlives every Interval.
const char* intern(std::string_view text);

// Nanoseconds since `enable(true)`.
std::int64_t now_ns();

// The steady clock's time that is zero here, and another one instead: that of the processes that share this clock, so
// that their time lines can be laid side by side.
std::int64_t zero_ns();
void set_zero_ns(std::int64_t zero);

// How long this launch of a kernel on a stream of a device is to wait, in nanoseconds, 0 for most: a long delay of one
// kernel tells what depends on it from what merely came after (docs/model-order.md). Asked once a launch while
// recording, by the device layer. WEFT_TRACE_DELAY=NAME[#K][@S]=MS[,...] delays the launches of NAME by MS
// milliseconds: the K-th on its stream, from 0, or all; on stream S, or all.
std::int64_t delay_ns(const char* name, int stream);
// What WEFT_TRACE_DELAY asked for and no launch since `enable(true)` has met.
std::vector<std::string> unmet_delays();

// Adds an interval (the device layer adds those of the device's time line, from any thread). Nothing when off.
void record(const Interval& interval);
std::vector<Interval> intervals();

// Seconds by category (all five, 0 where nothing was recorded), *exclusive*: a span's time less that of the spans
// opened inside it on the same time line. The host's categories add up to the time its spans cover, so do the device's;
// the two time lines run side by side.
std::map<std::string, double> exclusive_seconds();
// The same by span name.
std::map<std::string, double> exclusive_seconds_by_name();

// Writes a Chrome trace (Perfetto opens it): one process a rank, one thread for the host and one for each stream.
void write_chrome_trace(const std::string& path, int rank);
// The events of one rank as a JSON fragment (no brackets), so that ranks can be joined into one file.
std::string chrome_trace_events(int rank);

class Span {
 public:
  // `traffic`, if any, outlives the span.
  Span(const char* name, Category category, std::int64_t bytes = 0,
       const std::shared_ptr<const Traffic>* traffic = nullptr) {
    if (enabled()) open(name, category, bytes, traffic);
  }
  ~Span() {
    if (name_ != nullptr) close();
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  void open(const char* name, Category category, std::int64_t bytes, const std::shared_ptr<const Traffic>* traffic);
  void close();

  const char* name_ = nullptr;
  Category category_{};
  std::int64_t begin_ns_ = 0;
  std::int64_t bytes_ = 0;
  const std::shared_ptr<const Traffic>* traffic_ = nullptr;
};

}  // namespace weft::trace
