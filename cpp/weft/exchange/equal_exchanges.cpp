#include "weft/exchange/equal_exchanges.hpp"

#include <algorithm>
#include <deque>
#include <utility>

#include "weft/exchange/digest.hpp"
#include "weft/mpi/attached.hpp"

namespace weft::exchange {
namespace {

// Up to this length, the bytes of a message take a few per cent of its latency, also if the crystal router forwards
// them together with others: at 5 GB/s 50 ns of 1 µs, and where ranks share processors and hand them to each other 0.2
// µs of 15 µs or more.
std::size_t latency_bytes(bool crowded) { return crowded ? 1024 : 256; }
// Work of less than a hand-over.
constexpr std::size_t least_work_bytes = 32768;

struct KnownTunings {
  static constexpr std::size_t most = 64;
  std::deque<std::pair<std::uint64_t, Tuning>> all;  // the oldest first
};

auto find(KnownTunings& known, std::uint64_t kind) {
  return std::ranges::find(known.all, kind, [](const auto& entry) { return entry.first; });
}

}  // namespace

std::uint64_t kind_of_exchange(const mpi::Comm& comm, const device::Device& device, const std::vector<Part>& parts,
                               const std::vector<Choice>& candidates, const std::string& use, std::size_t work_bytes,
                               bool crowded) {
  Digest digest;
  digest.add(static_cast<std::uint64_t>(comm.rank()));
  const device::Info& info = device.info();
  digest.add(device::name(info.backend) + info.name);
  digest.add(static_cast<std::uint64_t>(info.ordinal));
  for (const Choice& candidate : candidates) digest.add(name(candidate));
  digest.add(std::max(work_bytes, least_work_bytes));
  const std::size_t least = latency_bytes(crowded);
  const auto length = [&](std::size_t bytes) { return bytes == 0 ? 0 : std::max(bytes, least); };
  std::size_t longest = 0;
  for (const Part& part : parts) {
    digest.add(static_cast<std::uint64_t>(part.rank));
    for (const std::size_t bytes : {part.send_bytes, part.receive_bytes}) {
      digest.add(length(bytes));
      longest = std::max(longest, bytes);
    }
  }
  if (longest > least) digest.add(use);
  return digest.of_all(comm);
}

const Tuning* known_tuning(const mpi::Comm& comm, std::uint64_t kind) {
  auto& known = mpi::attached<KnownTunings>(comm);
  const auto found = find(known, kind);
  return found == known.all.end() ? nullptr : &found->second;
}

void keep_tuning(const mpi::Comm& comm, std::uint64_t kind, const Tuning& tuning) {
  auto& known = mpi::attached<KnownTunings>(comm);
  if (const auto found = find(known, kind); found != known.all.end()) known.all.erase(found);
  known.all.emplace_back(kind, tuning);
  if (known.all.size() > KnownTunings::most) known.all.pop_front();
}

}  // namespace weft::exchange
