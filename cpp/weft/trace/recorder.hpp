// The time recorder: spans of host and device work, in five categories, and counters.
//
// Every launch, copy and MPI call of the library opens a Span; solver phases open named Spans of category `cpu`. While
// the recorder is off, a Span costs one relaxed load.
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

// cpu: host computation; gpu: kernels on a device; mpi: inside MPI calls; copy: between host and device; launch: host
// time spent on enqueuing kernels and on waiting for the device.
enum class Category : std::uint8_t { cpu, gpu, mpi, copy, launch };
inline constexpr int category_count = 5;
std::string_view name(Category category);

struct Message {
  int peer;  // its rank in MPI_COMM_WORLD
  std::int64_t bytes;
};

// Describes the MPI call of a span, so that readers of the trace can match it with the calls of other ranks
// (docs/trace.md). Within a group, messages between two ranks match in order, and so do collectives.
struct Traffic {
  std::int64_t group = -1;           // Comm::group
  std::int64_t request = -1;         // from fresh_request(): links a non-blocking call with the wait that completes it
  const char* collective = nullptr;  // the name of the collective, if it is one
  std::vector<Message> sends, receives;
};
std::int64_t fresh_request();

struct Interval {
  const char* name;  // a literal, or made permanent by `intern`
  Category category;
  bool device;            // on the device's timeline
  std::int64_t begin_ns;  // since the recorder was enabled
  std::int64_t end_ns;
  std::int64_t bytes;  // moved or sent; 0 if not applicable
  int stream = 0;      // on the device
  std::shared_ptr<const Traffic> traffic = nullptr;
};

namespace detail {
extern std::atomic<bool> enabled;
}
inline bool enabled() { return detail::enabled.load(std::memory_order_relaxed); }

// Starts recording (clearing earlier spans) or stops it. Only spans of the calling thread are recorded (one host thread
// per rank, so that the spans of a timeline nest). Must not be called concurrently with open Spans. Throws
// std::invalid_argument if WEFT_TRACE_DELAY (below) is invalid.
void enable(bool on);

// Suspends recording during its lifetime. Used for tuning trials, which are numerous and not part of the run. Must
// enclose the same calls on all ranks, so that the recorded calls still match.
class Pause {
 public:
  Pause();
  ~Pause();
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;

 private:
  bool was_enabled_;
};

// Copies a name so that it outlives every Interval.
const char* intern(std::string_view text);

// Nanoseconds since `enable(true)`.
std::int64_t now_ns();

// The time on the steady clock that counts as zero in the trace, and a function to set it. Processes that share the
// clock set the same zero, so that their timelines can be compared.
std::int64_t zero_ns();
void set_zero_ns(std::int64_t zero);

// The delay, in nanoseconds, of this launch of a kernel on a stream of a device; usually 0. A long delay of one kernel
// distinguishes the work that depends on it from work that merely comes later (docs/model-order.md). The device layer
// calls it once per launch while recording. WEFT_TRACE_DELAY=NAME[#K][@S]=MS[,...] delays launches of NAME by MS
// milliseconds: the K-th on its stream, counted from 0, or all; on stream S, or on all.
std::int64_t delay_ns(const char* name, int stream);
// The entries of WEFT_TRACE_DELAY that no launch has matched since `enable(true)`.
std::vector<std::string> unmet_delays();

// Adds an interval. The device layer adds those of the device's timeline, from any thread. Does nothing while the
// recorder is off.
void record(const Interval& interval);
std::vector<Interval> intervals();

// Exclusive seconds by category (all five, 0 if nothing was recorded): the time of a span minus that of the spans
// inside it on the same timeline. The host's categories add up to the time that its spans cover, and so do the
// device's; the two timelines run concurrently.
std::map<std::string, double> exclusive_seconds();
// The same by span name.
std::map<std::string, double> exclusive_seconds_by_name();

// Writes a Chrome trace (for Perfetto): one process per rank, with one thread for the host and one per stream.
void write_chrome_trace(const std::string& path, int rank);
// The events of one rank as a JSON fragment (without brackets), so that ranks can be joined into one file.
std::string chrome_trace_events(int rank);

class Span {
 public:
  // `traffic`, if given, must outlive the span.
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
