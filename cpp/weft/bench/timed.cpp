#include "weft/bench/timed.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <thread>
#include <vector>

namespace weft::bench {
namespace {

std::vector<std::byte> message(std::size_t bytes, int from_rank, int to_rank) {
  std::vector<std::byte> values(bytes);
  const auto start = static_cast<std::size_t>(from_rank) * 101 + static_cast<std::size_t>(to_rank) * 29 + 1;
  // The period is not a power of two, so that data in the wrong place are detected.
  for (std::size_t i = 0; i < bytes; ++i) values[i] = static_cast<std::byte>((start + i) % 251);
  return values;
}

}  // namespace

void Timed::check() {
  const std::string found = wrong();
  comm_.together([&] {
    if (!found.empty()) throw std::runtime_error(found);
  });
}

double Timed::run(int repetitions) {
  using Clock = std::chrono::steady_clock;
  comm_.barrier();
  double seconds = 0;
  if (takes_part()) {
    const auto begin = Clock::now();
    for (int i = 0; i < repetitions; ++i) once();
    wait_for_device();
    seconds = std::chrono::duration<double>(Clock::now() - begin).count() / repetitions;
  }
  MPI_Request done = MPI_REQUEST_NULL;
  mpi::check(MPI_Ibarrier(comm_.get(), &done), "MPI_Ibarrier");
  if (takes_part()) {
    mpi::check(MPI_Wait(&done, MPI_STATUS_IGNORE), "MPI_Wait");
  } else {
    // If there are more ranks than cores, a rank waiting in MPI would take a core from those that are timed.
    for (int finished = 0; finished == 0;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      mpi::check(MPI_Test(&done, &finished, MPI_STATUS_IGNORE), "MPI_Test");
    }
  }
  return seconds;
}

void fill_message(std::byte* to, std::size_t bytes, int from_rank, int to_rank, Memory memory, device::Stream& stream) {
  const std::vector<std::byte> values = message(bytes, from_rank, to_rank);
  if (memory == Memory::host) {
    std::ranges::copy(values, to);
  } else {
    stream.device().copy(to, values.data(), bytes, device::CopyKind::host_to_device, stream);
    stream.synchronize();
  }
}

std::string compare_message(const std::byte* from, std::size_t bytes, int from_rank, int to_rank, Memory memory,
                            device::Stream& stream) {
  std::vector<std::byte> values(bytes);
  if (memory == Memory::host) {
    std::copy_n(from, bytes, values.begin());
  } else {
    stream.device().copy(values.data(), from, bytes, device::CopyKind::device_to_host, stream);
    stream.synchronize();
  }
  const std::vector<std::byte> expected = message(bytes, from_rank, to_rank);
  const auto found = std::ranges::mismatch(values, expected).in1;
  if (found == values.end()) return {};
  return "the message of " + std::to_string(bytes) + " bytes from rank " + std::to_string(from_rank) + " to rank " +
         std::to_string(to_rank) + " arrived damaged, first at byte " + std::to_string(found - values.begin());
}

}  // namespace weft::bench
