#include "weft/exchange/ipc.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "weft/device/shared.hpp"
#include "weft/mpi/crowd.hpp"
#include "weft/trace/recorder.hpp"

namespace weft::exchange {
namespace {

using Round = std::uint64_t;
constexpr std::size_t slots = 2, line = 64, slot_unit = 256;

// The flags through which a rank talks to its neighbours, in shared memory, initially zero.
struct Flags {
  // Written only by the rank itself and read by all neighbours. Both counters are in one cache line, so that a rank
  // that sees a ready round also sees which round has been read.
  alignas(line) std::atomic<Round> ready;  // the last round whose parts are in its slot (on a GPU: event recorded)
  std::atomic<Round> read;                 // the last round for which it has read its neighbours' parts
  std::atomic<std::uint32_t> gone;         // 1: the rank has abandoned the transfer
  // Written by the neighbours.
  alignas(line) std::atomic<std::uint32_t> closed;  // how many neighbours no longer use its memory
};
static_assert(std::atomic<Round>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

// Sent once to each neighbour, which uses it to open this rank's memory.
struct Introduction {
  device::SharedHandle flags, memory;
  std::array<device::SharedHandle, slots> ready, read;  // events, on GPUs only
  std::uint64_t slot_bytes, offset, bytes;              // where the neighbour's part is within a slot
  std::int64_t process;
};
static_assert(std::is_trivially_copyable_v<Introduction>);

// One event per slot; none on the host, where streams are synchronous.
using Events = std::vector<device::Event>;

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// A counter is written by tell(). If ranks outnumber processors, readers sleep with futex(2), which watches the 32-bit
// half of the counter that changes.
const std::uint32_t* changing_half(const std::atomic<Round>& counter) {
  return reinterpret_cast<const std::uint32_t*>(&counter) + (std::endian::native == std::endian::little ? 0 : 1);
}
void sleep_while_below(const std::atomic<Round>& counter, Round value) {
  const Round seen = counter.load(std::memory_order_acquire);
  if (seen >= value) return;
  constexpr timespec longest{.tv_sec = 0, .tv_nsec = 200'000};
  syscall(SYS_futex, changing_half(counter), FUTEX_WAIT, static_cast<std::uint32_t>(seen), &longest, nullptr, 0);
}
void tell(std::atomic<Round>& counter, Round value, bool somebody_may_sleep) {
  counter.store(value, std::memory_order_release);
  if (!somebody_may_sleep) return;
  syscall(SYS_futex, changing_half(counter), FUTEX_WAKE, std::numeric_limits<int>::max(), nullptr, nullptr, 0);
}

bool process_is_there(std::int64_t process) { return kill(static_cast<pid_t>(process), 0) == 0 || errno == EPERM; }

// GPU memory must not be released while another process has it open, and ranks run their destructors at different
// times. Memory that is still open then is kept here and checked again later. What is left is released when the process
// ends.
struct Remains {
  device::SharedMemory flags, memory;
  Events events;
  std::uint32_t users;
  bool closed_by_all() const {
    return reinterpret_cast<const Flags*>(flags.data())->closed.load(std::memory_order_acquire) >= users;
  }
};
void bury(std::optional<Remains> remains) {
  static auto& graves = *new std::vector<Remains>;  // outlives the driver's own clean-up
  if (remains) graves.push_back(std::move(*remains));
  std::erase_if(graves, [](const Remains& r) { return r.closed_by_all(); });
}

}  // namespace

struct Ipc::State {
  // A neighbour, and how this process sees its memory.
  struct Neighbor {
    Part part;
    bool watched = false;  // whether this process can detect the end of the neighbour's process
    Introduction known{};
    device::SharedMemory flags_memory, memory;
    Events ready_events, read_events;
    Flags* flags = nullptr;
    Round seen_read = 0;
    std::shared_ptr<const trace::Traffic> receive_traffic;  // for the recorder
  };

  State(std::shared_ptr<device::Device> device_in, const mpi::Comm& comm_in, int tag, std::vector<Part> parts,
        std::size_t send_bytes)
      : device(std::move(device_in)),
        host(device::open("host")),
        comm(comm_in),
        slot_bytes((send_bytes + slot_unit - 1) / slot_unit * slot_unit),
        crowded(mpi::crowded(comm)) {
    trace::Traffic sends;
    sends.group = comm.group(tag);
    sends.request = trace::fresh_request();
    for (const Part& part : parts) {
      Neighbor& neighbor = neighbors.emplace_back();
      neighbor.part = part;
      trace::Traffic receive;
      receive.group = sends.group;
      receive.receives.push_back({comm.world_rank(part.rank), static_cast<std::int64_t>(part.receive_bytes)});
      neighbor.receive_traffic = std::make_shared<const trace::Traffic>(std::move(receive));
      if (part.send_bytes > 0) {
        sends.sends.push_back({comm.world_rank(part.rank), static_cast<std::int64_t>(part.send_bytes)});
      }
    }
    send_traffic = std::make_shared<const trace::Traffic>(std::move(sends));
    if (neighbors.empty()) return;
    bury({});
    flags_memory = device::SharedMemory::allocate(host, sizeof(Flags));
    mine = new (flags_memory.data()) Flags{};
    memory = device::SharedMemory::allocate(device, std::max(slots * slot_bytes, slot_unit));
    introduction.flags = flags_memory.handle();
    introduction.memory = memory.handle();
    introduction.slot_bytes = slot_bytes;
    introduction.process = getpid();
    if (device->is_host()) return;
    for (std::size_t slot = 0; slot < slots; ++slot) {
      ready_events.push_back(device::Event::shared(device, introduction.ready[slot]));
      read_events.push_back(device::Event::shared(device, introduction.read[slot]));
    }
    free_slot.emplace(device);
  }

  ~State() {
    if (mine == nullptr) return;
    mine->gone.store(1, std::memory_order_release);
    if (free_slot && round > 0) {
      try {
        free_slot->synchronize();        // the neighbours' memory and events are no longer in use
      } catch (const std::exception&) {  // the device is lost
      }
    }
    for (Neighbor& neighbor : neighbors) {
      neighbor.ready_events.clear();
      neighbor.read_events.clear();
      neighbor.memory = {};
      if (neighbor.flags != nullptr) neighbor.flags->closed.fetch_add(1, std::memory_order_acq_rel);
    }
    Events events = std::move(ready_events);
    for (device::Event& event : read_events) events.push_back(std::move(event));
    const auto users = introduced ? static_cast<std::uint32_t>(neighbors.size()) : 0;
    // Shared host memory lives until the last process that opened it closes it.
    if (!device->is_host()) bury(Remains{std::move(flags_memory), std::move(memory), std::move(events), users});
  }

  void introduce(int tag) {
    std::vector<Introduction> to(neighbors.size(), introduction);
    std::vector<MPI_Request> requests;
    requests.reserve(2 * neighbors.size());
    constexpr int bytes = sizeof(Introduction);
    for (std::size_t i = 0; i < neighbors.size(); ++i) {
      Neighbor& n = neighbors[i];
      to[i].offset = n.part.send_offset;
      to[i].bytes = n.part.send_bytes;
      mpi::check(MPI_Irecv(&n.known, bytes, MPI_BYTE, n.part.rank, tag, comm.get(), &requests.emplace_back()),
                 "MPI_Irecv");
      mpi::check(MPI_Isend(&to[i], bytes, MPI_BYTE, n.part.rank, tag, comm.get(), &requests.emplace_back()),
                 "MPI_Isend");
    }
    mpi::check(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
    introduced = true;
  }

  void open() {
    for (Neighbor& n : neighbors) {
      if (n.known.bytes != n.part.receive_bytes) {
        throw std::logic_error("rank " + std::to_string(n.part.rank) + " sends " + std::to_string(n.known.bytes) +
                               " bytes, but " + std::to_string(n.part.receive_bytes) + " are expected from it");
      }
      n.flags_memory = device::SharedMemory::open(host, n.known.flags);
      n.flags = reinterpret_cast<Flags*>(n.flags_memory.data());
      n.memory = device::SharedMemory::open(device, n.known.memory);
      if (!device->is_host()) {
        for (std::size_t slot = 0; slot < slots; ++slot) {
          n.ready_events.push_back(device::Event::opened(device, n.known.ready[slot]));
          n.read_events.push_back(device::Event::opened(device, n.known.read[slot]));
        }
      }
      n.watched = process_is_there(n.known.process);
    }
  }

  // Waits until a neighbour's counter has reached `value`.
  void wait(const std::atomic<Round>& counter, Round value, const Neighbor& neighbor) const {
    const int spins = crowded ? 20 : 400;
    for (int i = 0; i < spins; ++i) {
      if (counter.load(std::memory_order_acquire) >= value) return;
      relax();
    }
    wait_longer(counter, value, neighbor);
  }

  // The neighbour may need this processor to get there, or MPI progress on this rank; or it may never get there.
  void wait_longer(const std::atomic<Round>& counter, Round value, const Neighbor& neighbor) const {
    using Clock = std::chrono::steady_clock;
    constexpr auto between_looks = std::chrono::milliseconds(100);
    // A launcher ends all ranks when one has ended too early. That one has said why: a second message would hide it.
    constexpr auto for_the_launcher = std::chrono::seconds(3);
    auto next_look = Clock::now() + between_looks;
    for (unsigned turn = 1;; ++turn) {
      if (crowded) {
        sleep_while_below(counter, value);
      } else {
        sched_yield();
      }
      if (counter.load(std::memory_order_acquire) >= value) return;
      if (!crowded && turn % 16 != 0) continue;
      int there = 0;
      mpi::check(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm.get(), &there, MPI_STATUS_IGNORE), "MPI_Iprobe");
      const bool gone = neighbor.flags->gone.load(std::memory_order_acquire) != 0;
      bool ended = false;
      if (Clock::now() >= next_look) {
        ended = neighbor.watched && !process_is_there(neighbor.known.process);
        next_look = Clock::now() + between_looks;
      }
      if (!gone && !ended) continue;
      if (ended) std::this_thread::sleep_for(for_the_launcher);
      if (counter.load(std::memory_order_acquire) >= value) return;  // it did so before it ended
      throw std::runtime_error("waited for values from rank " + std::to_string(neighbor.part.rank) + ", " +
                               (gone ? "which has abandoned the exchange" : "whose process has ended"));
    }
  }

  Neighbor& neighbor(int rank) {
    const auto found = std::ranges::find(neighbors, rank, [](const Neighbor& n) { return n.part.rank; });
    if (found == neighbors.end()) throw std::logic_error("no memory is shared with rank " + std::to_string(rank));
    return *found;
  }

  std::byte* slot(Round r) const { return memory.data() + r % slots * slot_bytes; }

  std::shared_ptr<device::Device> device, host;
  mpi::Comm comm;
  std::size_t slot_bytes;
  bool crowded;
  bool introduced = false;
  Introduction introduction{};
  device::SharedMemory flags_memory, memory;
  Events ready_events, read_events;
  std::optional<device::Event> free_slot;  // GPUs: the neighbours have read the slot to be written next
  Flags* mine = nullptr;
  std::vector<Neighbor> neighbors;
  Round round = 0;                                     // the last round that was started
  std::vector<Neighbor*> readers, former_readers;      // of the last published round, and of the one before
  std::shared_ptr<const trace::Traffic> send_traffic;  // a request that no call waits for
};

Ipc::Ipc(std::shared_ptr<device::Device> device, const mpi::Comm& comm, int tag, std::vector<Part> parts,
         std::size_t send_bytes) {
  comm.node();
  comm.together([&] { state_ = std::make_unique<State>(std::move(device), comm, tag, std::move(parts), send_bytes); });
  state_->introduce(tag);
  comm.together([&] { state_->open(); });
  state_->flags_memory.stop_sharing();
  state_->memory.stop_sharing();
}
Ipc::~Ipc() = default;

std::byte* Ipc::send(device::Stream& stream) {
  State& s = *state_;
  if (s.free_slot && s.round > 0) s.free_slot->wait_on(stream);
  return s.slot(s.round + 1);
}

void Ipc::take(const std::byte* from, device::Stream& stream) {
  State& s = *state_;
  std::byte* to = send(stream);
  for (const State::Neighbor& n : s.neighbors) {
    if (n.part.send_bytes == 0) continue;
    s.device->copy(to + n.part.send_offset, from + n.part.send_offset, n.part.send_bytes,
                   device::CopyKind::device_to_device, stream);
  }
}

void Ipc::start(device::Stream& stream) {
  State& s = *state_;
  if (s.mine == nullptr) return;
  const trace::Span span("publish", trace::Category::mpi, 0, &s.send_traffic);
  const Round round = ++s.round;
  if (!s.ready_events.empty()) s.ready_events[round % slots].record(stream);
  tell(s.mine->ready, round, s.crowded);
}

void Ipc::finish(std::byte* to, device::Stream& stream) {
  State& s = *state_;
  if (s.mine == nullptr) return;
  const Round round = s.round;
  const bool host = s.device->is_host();
  for (State::Neighbor& n : s.neighbors) {
    if (n.part.receive_bytes == 0) continue;
    {
      const trace::Span span("receive", trace::Category::mpi, 0, &n.receive_traffic);
      s.wait(n.flags->ready, round, n);
    }
    n.seen_read = n.flags->read.load(std::memory_order_relaxed);  // was written before `ready`
    if (!host) n.ready_events[round % slots].wait_on(stream);
    s.device->copy(to + n.part.receive_offset, n.memory.data() + round % slots * n.known.slot_bytes + n.known.offset,
                   n.part.receive_bytes, device::CopyKind::device_to_device, stream);
  }
  if (!host) s.read_events[round % slots].record(stream);
  tell(s.mine->read, round, s.crowded);

  // The next start will write the slot of the previous round, so all neighbours must have read it.
  for (State::Neighbor& n : s.neighbors) {
    if (n.part.send_bytes == 0 || round == 1) continue;
    if (n.seen_read < round - 1) {
      const trace::Span span("until read", trace::Category::mpi);
      s.wait(n.flags->read, round - 1, n);
    }
    if (!host) n.read_events[(round - 1) % slots].wait_on(stream);
  }
  if (s.free_slot) s.free_slot->record(stream);
}

void Ipc::publish(const std::vector<int>& ranks, device::Stream& stream,
                  const std::shared_ptr<const trace::Traffic>& traffic) {
  State& s = *state_;
  if (s.mine == nullptr) return;
  const trace::Span span("publish", trace::Category::mpi, 0, &traffic);
  if (s.round > 0) {
    if (!s.read_events.empty()) s.read_events[s.round % slots].record(stream);
    tell(s.mine->read, s.round, s.crowded);
  }
  s.former_readers = std::move(s.readers);
  s.readers.clear();
  for (const int rank : ranks) s.readers.push_back(&s.neighbor(rank));
  const Round round = ++s.round;
  if (!s.ready_events.empty()) s.ready_events[round % slots].record(stream);
  tell(s.mine->ready, round, s.crowded);
}

const std::byte* Ipc::arrived(int rank, device::Stream& stream, const std::shared_ptr<const trace::Traffic>& traffic) {
  State& s = *state_;
  State::Neighbor& n = s.neighbor(rank);
  {
    const trace::Span span("receive", trace::Category::mpi, 0, &traffic);
    s.wait(n.flags->ready, s.round, n);
  }
  if (!n.ready_events.empty()) n.ready_events[s.round % slots].wait_on(stream);
  return n.memory.data() + s.round % slots * n.known.slot_bytes;
}

void Ipc::reclaim(device::Stream& stream) {
  State& s = *state_;
  for (State::Neighbor* n : s.former_readers) {
    const trace::Span span("until read", trace::Category::mpi);
    s.wait(n->flags->read, s.round - 1, *n);
    if (!n->read_events.empty()) n->read_events[(s.round - 1) % slots].wait_on(stream);
  }
  keep_until_read(stream);
}

void Ipc::keep_until_read(device::Stream& stream) {
  if (state_->free_slot) state_->free_slot->record(stream);
}

std::size_t Ipc::bytes() const { return slots * state_->slot_bytes; }

namespace {

// Three rounds of known values, so that both slots are reused.
void prove(const std::shared_ptr<device::Device>& device, const mpi::Comm& comm) {
  const int tag = comm.fresh_tag();
  const std::vector<int>& node = comm.node();
  constexpr std::size_t words = 1024;
  const std::size_t bytes = words * sizeof(std::int64_t);
  // On GPUs all pairs are tested, because some may lack access to each other; on the host one pair is enough.
  std::vector<int> others;
  const auto size = node.size();
  const auto place = static_cast<std::size_t>(std::find(node.begin(), node.end(), comm.rank()) - node.begin());
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t distance = (i + size - place) % size;
    if (distance != 0 && (!device->is_host() || distance == 1 || distance == size - 1)) others.push_back(node[i]);
  }
  std::vector<Part> parts;
  for (const int rank : others) parts.push_back({rank, 0, bytes, parts.size() * bytes, bytes});
  std::optional<Ipc> ipc;
  ipc.emplace(device, comm, tag, parts, bytes);
  comm.together([&] {
    try {
      device::Stream stream(device);
      device::Array<std::int64_t> from(device, words), to(device, words * parts.size());
      std::vector<std::int64_t> values(words);
      for (std::int64_t round = 0; round < 3; ++round) {
        std::iota(values.begin(), values.end(), 1000000 * comm.rank() + round);
        from.upload(std::span<const std::int64_t>(values));
        ipc->take(reinterpret_cast<const std::byte*>(from.data()), stream);
        ipc->start(stream);
        ipc->finish(reinterpret_cast<std::byte*>(to.data()), stream);
        stream.synchronize();
        const auto found = to.download();
        for (std::size_t i = 0; i < found.size(); ++i) {
          const auto expected = 1000000 * others[i / words] + round + static_cast<std::int64_t>(i % words);
          if (found[i] != expected) throw std::runtime_error("another rank reads data that differ from those written");
        }
      }
    } catch (...) {
      ipc.reset();  // so that no other rank waits for it
      throw;
    }
  });
}

}  // namespace

PathState ipc_state(device::Device& device, const mpi::Comm& comm) {
  const auto most = comm.max(static_cast<std::int64_t>(comm.node().size()));
  if (most == 1) return {Path::ipc, false, "no two ranks share a node"};
  try {
    comm.together([&] {
      if (const std::string problem = device.sharing_problem(); !problem.empty()) throw std::runtime_error(problem);
    });
    prove(device.shared_from_this(), comm);
  } catch (const mpi::CollectiveError& error) {
    return {Path::ipc, false, error.what()};
  }
  return {Path::ipc, true, "ranks of a node read each other's memory; a test transfer succeeded"};
}

}  // namespace weft::exchange
