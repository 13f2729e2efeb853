// Joins the nodes of benchmarks/emulated_nodes.py by links of a given rate and latency: one TAP device per node, and
// this relay behind all of them. A frame departs when the sender's link is free, occupies it for size / rate, and
// arrives one latency later. The last byte of the destination address is the number of the node, counted from 1.
//
//   network_relay DEVICE DEVICE ...
//
// Each line on standard input, "BYTES_PER_SECOND SECONDS", sets rate and latency, and is answered by a line on the time
// since the line before: "FRAMES BYTES PROCESSOR_SECONDS MEAN_LATENESS LARGEST_LATENESS". The end of the input ends it.

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <deque>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr std::size_t header_bytes = 10;      // struct virtio_net_hdr, which carries checksums that are yet to be made
constexpr std::size_t largest_frame = 65536;  // of a TAP device with its largest MTU, 65521

constexpr double longest_spin = 100e-6;  // s

struct Frame {
  std::array<unsigned char, header_bytes + largest_frame> data;
  std::size_t size = 0;  // with the header
  std::size_t target = 0;
  double due = 0;
};

struct Statistics {
  std::uint64_t frames = 0, bytes = 0;
  double lateness = 0, largest_lateness = 0;
};

double now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what + ": " + std::strerror(errno)); }

int open_device(const char* name) {
  const int file = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) fail("/dev/net/tun");
  ifreq request{};
  request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
  std::strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  if (ioctl(file, TUNSETIFF, &request) < 0) fail(std::string("TAP device ") + name);
  if (ioctl(file, TUNSETOFFLOAD, TUN_F_CSUM) < 0) fail(std::string("checksums of ") + name);
  return file;
}

class Relay {
 public:
  explicit Relay(const std::vector<const char*>& names) : links_(names.size()) {
    for (std::size_t i = 0; i < names.size(); ++i) links_[i].file = open_device(names[i]);
  }

  void run() {
    std::vector<pollfd> watched(links_.size() + 1);
    watched.back() = {STDIN_FILENO, POLLIN, 0};
    for (;;) {
      for (std::size_t i = 0; i < links_.size(); ++i) watched[i] = {links_[i].file, POLLIN, 0};
      const double next = deliver(), asked = now();
      const double seconds = std::max(0.0, next - asked - oversleeps_);
      timespec wait{};
      wait.tv_sec = static_cast<time_t>(seconds);
      wait.tv_nsec = static_cast<long>(1e9 * (seconds - static_cast<double>(wait.tv_sec)));
      const int found = ppoll(watched.data(), watched.size(), next > 0 ? &wait : nullptr, nullptr);
      if (found < 0 && errno != EINTR) fail("ppoll");
      // A timer ends late, on virtual machines by tens of microseconds: it is set earlier by as much, on average.
      if (found == 0 && seconds > 0)
        oversleeps_ = std::min(0.9 * oversleeps_ + 0.1 * std::max(0.0, now() - asked - seconds), longest_spin);
      for (std::size_t i = 0; i < links_.size(); ++i)
        if (watched[i].revents != 0) receive(links_[i]);
      if (watched.back().revents != 0 && !obey()) return;
    }
  }

 private:
  struct Link {  // from one node
    int file = -1;
    double free = 0;
    std::deque<std::unique_ptr<Frame>> frames = {};  // in the order of their arrival, as all take the same latency
  };

  std::unique_ptr<Frame> frame() {
    if (spare_.empty()) return std::make_unique<Frame>();
    auto found = std::move(spare_.back());
    spare_.pop_back();
    return found;
  }

  void receive(Link& link) {
    for (;;) {
      auto one = frame();
      const ssize_t size = read(link.file, one->data.data(), one->data.size());
      if (size < 0 && errno == EBADFD) link.file = -1;  // the node has ended, and with it the device
      if (size < 0 && errno != EAGAIN && errno != EINTR && errno != EBADFD) fail("read");
      const std::size_t target = size > static_cast<ssize_t>(header_bytes + 6) ? one->data[header_bytes + 5] : 0;
      // Multicast and broadcast are for nobody: the nodes know each other's addresses.
      const bool one_node = target >= 1 && target <= links_.size() && (one->data[header_bytes] & 1) == 0;
      if (!one_node) {
        spare_.push_back(std::move(one));
        if (size < 0) return;
        continue;
      }
      one->size = static_cast<std::size_t>(size);
      one->target = target - 1;
      link.free = std::max(link.free, now()) + static_cast<double>(one->size - header_bytes) / rate_;
      one->due = link.free + latency_;
      link.frames.push_back(std::move(one));
    }
  }

  // Hands over all frames that are due, and returns when the next one is; 0 if there is none.
  double deliver() {
    double next = 0;
    for (Link& link : links_) {
      while (!link.frames.empty()) {
        Frame& first = *link.frames.front();
        const double late = now() - first.due;
        if (late < 0) {
          next = next > 0 ? std::min(next, first.due) : first.due;
          break;
        }
        if (write(links_[first.target].file, first.data.data(), first.size) < 0 && errno != EIO && errno != EBADFD &&
            errno != EBADF)
          fail("write");  // these three: the device is not up, or its node has ended
        statistics_.frames += 1;
        statistics_.bytes += first.size - header_bytes;
        statistics_.lateness += late;
        statistics_.largest_lateness = std::max(statistics_.largest_lateness, late);
        spare_.push_back(std::move(link.frames.front()));
        link.frames.pop_front();
      }
    }
    return next;
  }

  // Reads a line of the input; false at its end.
  bool obey() {
    double rate = 0, latency = 0;
    std::array<char, 256> line{};
    if (std::fgets(line.data(), line.size(), stdin) == nullptr) return false;
    if (std::sscanf(line.data(), "%lf %lf", &rate, &latency) != 2 || !(rate > 0) || !(latency >= 0))
      throw std::runtime_error("each line of the input needs a rate above zero and a latency of at least zero");
    const double processor = processor_seconds();
    const double frames = static_cast<double>(std::max<std::uint64_t>(statistics_.frames, 1));
    std::printf("%llu %llu %.6f %.9f %.9f\n", static_cast<unsigned long long>(statistics_.frames),
                static_cast<unsigned long long>(statistics_.bytes), processor - processor_,
                statistics_.lateness / frames, statistics_.largest_lateness);
    std::fflush(stdout);
    statistics_ = {};
    processor_ = processor;
    rate_ = rate;
    latency_ = latency;
    return true;
  }

  std::vector<Link> links_;
  std::vector<std::unique_ptr<Frame>> spare_;
  Statistics statistics_;
  double rate_ = 1e12, latency_ = 0, processor_ = 0;
  double oversleeps_ = 0;  // mean time (s) by which a wait ends late
};

}  // namespace

int main(int count, char** arguments) {
  try {
    if (count < 3) throw std::runtime_error("give the names of at least two devices");
    // Ranks poll their sockets without a pause; the relay must not wait for their turn to end.
    const sched_param priority{.sched_priority = 50};
    if (sched_setscheduler(0, SCHED_FIFO, &priority) < 0) fail("SCHED_FIFO");
    if (mlockall(MCL_CURRENT | MCL_FUTURE) < 0) fail("mlockall");
    std::setvbuf(stdin, nullptr, _IONBF, 0);  // what poll sees is what is left to read
    Relay(std::vector<const char*>(arguments + 1, arguments + count)).run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "network_relay: %s\n", error.what());
    return 1;
  }
  return 0;
}
