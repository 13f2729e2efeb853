#include "weft/trace/recorder.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>

#include "weft/trace/exclusive.hpp"

namespace weft::trace {
namespace detail {
std::atomic<bool> enabled{false};
}

namespace {
using Clock = std::chrono::steady_clock;

// One delay of WEFT_TRACE_DELAY; -1 means any launch or any stream.
struct Delay {
  std::string text, name;
  int number, stream;
  std::int64_t ns;
  bool met = false;
};

struct Recorder {
  std::mutex mutex;  // the driver may add device intervals from its own thread
  std::vector<Interval> intervals;
  std::set<std::string, std::less<>> names;
  Clock::time_point zero = Clock::now();
  std::thread::id thread;  // the thread whose Spans are recorded: one host thread per rank
  std::vector<Delay> delays;
  std::map<std::pair<std::string, int>, int>
      launches;  // number of launches since enable(true) of kernels with a delay, by (name, stream)
};

Recorder& recorder() {
  static Recorder instance;
  return instance;
}

// Converts the whole of `text` to a number; the error message shows the delay that it belongs to.
double number_of(const std::string& text, const std::string& delay, double most) {
  std::size_t used = 0;
  double value = -1;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
  }
  if (used != text.size() || !(value >= 0 && value <= most)) {
    throw std::invalid_argument("WEFT_TRACE_DELAY: found '" + delay +
                                "', allowed: NAME=MS, NAME#K=MS, NAME@S=MS, "
                                "NAME#K@S=MS (launch K, stream S, both from 0; MS milliseconds, at most 100000)");
  }
  return value;
}

std::vector<Delay> read_delays() {
  std::vector<Delay> delays;
  const char* asked = std::getenv("WEFT_TRACE_DELAY");
  std::stringstream list(asked != nullptr ? asked : "");
  for (std::string text; std::getline(list, text, ',');) {
    constexpr double most_index = 1e9, most_ms = 1e5;
    Delay delay{text, text, -1, -1, 0};
    const auto cut = [&](char mark) {  // the text after the mark, or "" if there is no mark
      const std::size_t at = delay.name.rfind(mark);
      if (at == std::string::npos) return std::string();
      const std::string rest = delay.name.substr(at + 1);
      delay.name.resize(at);
      return rest.empty() ? "?" : rest;
    };
    delay.ns = static_cast<std::int64_t>(1e6 * number_of(cut('='), text, most_ms));
    if (const std::string s = cut('@'); !s.empty()) delay.stream = static_cast<int>(number_of(s, text, most_index));
    if (const std::string k = cut('#'); !k.empty()) delay.number = static_cast<int>(number_of(k, text, most_index));
    if (delay.name.empty()) number_of("", text, 0);
    delays.push_back(delay);
  }
  return delays;
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

std::string pairs(const char* key, const std::vector<Message>& messages) {
  std::ostringstream text;
  text << ",\"" << key << "\":[";
  for (const Message& m : messages) text << (&m == messages.data() ? "[" : ",[") << m.peer << ',' << m.bytes << ']';
  text << ']';
  return text.str();
}

// The arguments of an MPI call as JSON, to be appended to others.
std::string arguments(const Traffic& traffic) {
  std::string text;
  if (traffic.group >= 0) text += ",\"group\":" + std::to_string(traffic.group);
  if (traffic.request >= 0) text += ",\"request\":" + std::to_string(traffic.request);
  if (traffic.collective != nullptr) text += std::string(R"(,"collective":")") + traffic.collective + "\"";
  if (!traffic.sends.empty()) text += pairs("sends", traffic.sends);
  if (!traffic.receives.empty()) text += pairs("receives", traffic.receives);
  return text;
}

}  // namespace

std::int64_t fresh_request() {
  static std::atomic<std::int64_t> next{0};
  return next.fetch_add(1, std::memory_order_relaxed);
}

std::string_view name(Category category) {
  constexpr std::array<std::string_view, category_count> names{"cpu", "gpu", "mpi", "copy", "launch"};
  return names[static_cast<std::size_t>(category)];
}

void enable(bool on) {
  Recorder& r = recorder();
  const std::lock_guard lock(r.mutex);
  if (on) {
    r.delays = read_delays();
    r.launches.clear();
    r.intervals.clear();
    r.zero = Clock::now();
    r.thread = std::this_thread::get_id();
  }
  detail::enabled.store(on, std::memory_order_relaxed);
}

Pause::Pause() : was_enabled_(detail::enabled.exchange(false, std::memory_order_relaxed)) {}
Pause::~Pause() { detail::enabled.store(was_enabled_, std::memory_order_relaxed); }

const char* intern(std::string_view text) {
  Recorder& r = recorder();
  const std::lock_guard lock(r.mutex);
  const auto found = r.names.find(text);
  return (found != r.names.end() ? found : r.names.emplace(text).first)->c_str();
}

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - recorder().zero).count();
}

std::int64_t zero_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(recorder().zero.time_since_epoch()).count();
}

void set_zero_ns(std::int64_t zero) {
  recorder().zero = Clock::time_point(std::chrono::duration_cast<Clock::duration>(std::chrono::nanoseconds(zero)));
}

std::int64_t delay_ns(const char* name, int stream) {
  Recorder& r = recorder();
  const std::lock_guard lock(r.mutex);
  std::int64_t ns = 0;
  int number = -1;
  for (Delay& delay : r.delays) {
    if (delay.name != name) continue;
    if (number < 0) number = r.launches[{delay.name, stream}]++;
    if ((delay.number < 0 || delay.number == number) && (delay.stream < 0 || delay.stream == stream)) {
      delay.met = true;
      ns = std::max(ns, delay.ns);
    }
  }
  return ns;
}

std::vector<std::string> unmet_delays() {
  Recorder& r = recorder();
  const std::lock_guard lock(r.mutex);
  std::vector<std::string> unmet;
  for (const Delay& delay : r.delays) {
    if (!delay.met) unmet.push_back(delay.text);
  }
  return unmet;
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
  exclusive(intervals(), [&](const Open& open, double s) { seconds[std::string(name(open.back()->category))] += s; });
  return seconds;
}

std::map<std::string, double> exclusive_seconds_by_name() {
  std::map<std::string, double> seconds;
  exclusive(intervals(), [&](const Open& open, double s) { seconds[open.back()->name] += s; });
  return seconds;
}

std::string chrome_trace_events(int rank) {
  const std::string pid = std::to_string(rank);
  std::string text = R"({"ph":"M","name":"process_name","pid":)" + pid + R"(,"args":{"name":"rank )" + pid + "\"}}";
  const std::vector<Interval> all = intervals();
  int streams = 1;
  for (const Interval& i : all) streams = std::max(streams, i.stream + 1);
  for (int thread = 0; thread <= streams; ++thread) {
    text += ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":" + pid + ",\"tid\":" + std::to_string(thread) +
            ",\"args\":{\"name\":\"" + (thread == 0 ? "host" : "stream " + std::to_string(thread - 1)) + "\"}}";
  }
  std::array<char, 128> numbers{};
  for (const Interval& i : all) {
    // Chrome's unit is the microsecond; three decimals keep every nanosecond.
    std::snprintf(numbers.data(), numbers.size(), "\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"bytes\":%lld",
                  1e-3 * static_cast<double>(i.begin_ns), 1e-3 * static_cast<double>(i.end_ns - i.begin_ns),
                  static_cast<long long>(i.bytes));
    text += ",\n{\"ph\":\"X\",\"name\":\"" + escaped(i.name) + "\",\"cat\":\"" + std::string(name(i.category)) +
            "\",\"pid\":" + pid + ",\"tid\":" + std::to_string(i.device ? 1 + i.stream : 0) + "," + numbers.data();
    if (i.traffic != nullptr) text += arguments(*i.traffic);
    text += "}}";
  }
  return text;
}

void write_chrome_trace(const std::string& path, int rank) {
  std::ofstream file(path);
  file << "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n" << chrome_trace_events(rank) << "\n]}\n";
  if (!file.flush()) throw std::runtime_error("cannot write the trace to " + path);
}

void Span::open(const char* name, Category category, std::int64_t bytes,
                const std::shared_ptr<const Traffic>* traffic) {
  if (std::this_thread::get_id() != recorder().thread) return;
  name_ = name;
  category_ = category;
  bytes_ = bytes;
  traffic_ = traffic;
  begin_ns_ = now_ns();
}

void Span::close() {
  record({name_, category_, false, begin_ns_, now_ns(), bytes_, 0, traffic_ != nullptr ? *traffic_ : nullptr});
}

}  // namespace weft::trace
