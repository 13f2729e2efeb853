// A communication pattern that is timed in isolation: the timing loop, and the check that the data arrive.
//
// The number of repetitions and the statistics are up to weft.bench in Python.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "weft/device/buffer.hpp"
#include "weft/device/device.hpp"
#include "weft/mpi/comm.hpp"

namespace weft::bench {

class Timed {
 public:
  explicit Timed(mpi::Comm comm) : comm_(std::move(comm)) {}
  virtual ~Timed() = default;
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

  // Runs once with known values. CollectiveError on all ranks if any rank receives something else. (collective)
  void check();
  // Seconds that one of `repetitions` takes on this rank, including the device's work. 0 on a rank that does not take
  // part; such a rank sleeps meanwhile. (collective)
  double run(int repetitions);

 protected:
  const mpi::Comm& comm() const { return comm_; }
  virtual bool takes_part() const { return true; }
  virtual void once() = 0;
  virtual void wait_for_device() = 0;
  // Runs once() with known values; describes what is wrong with the result, or returns an empty text.
  virtual std::string wrong() = 0;

 private:
  mpi::Comm comm_;
};

using device::Memory;  // which kind of pointers MPI is given

// fill_message writes bytes that identify sender and receiver. compare_message describes how the bytes differ from
// these, or returns an empty text.
void fill_message(std::byte* to, std::size_t bytes, int from_rank, int to_rank, Memory memory, device::Stream& stream);
std::string compare_message(const std::byte* from, std::size_t bytes, int from_rank, int to_rank, Memory memory,
                            device::Stream& stream);

}  // namespace weft::bench
