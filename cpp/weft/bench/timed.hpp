// A piece of communication that is timed by itself: the loop, and the proof that its data arrives.
//
// What it does not do: decide how often, or make statistics of what it measured; that is weft.bench in Python.
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

  // Once, with values that are known: CollectiveError on all ranks if any gets something else. (collective)
  void check();
  // Seconds one of `repetitions` takes on this rank, the device's work included; 0 on a rank that takes no part, which
  // sleeps meanwhile. (collective)
  double run(int repetitions);

 protected:
  const mpi::Comm& comm() const { return comm_; }
  virtual bool takes_part() const { return true; }
  virtual void once() = 0;
  virtual void wait_for_device() = 0;
  // once() with known values: what is wrong with those that came, else nothing.
  virtual std::string wrong() = 0;

 private:
  mpi::Comm comm_;
};

using device::Memory;  // which pointers MPI is given

// Writes bytes that tell whose message it is and to whom; finds out whether they are what is there, in words if not.
void fill_message(std::byte* to, std::size_t bytes, int from_rank, int to_rank, Memory memory, device::Stream& stream);
std::string compare_message(const std::byte* from, std::size_t bytes, int from_rank, int to_rank, Memory memory,
                            device::Stream& stream);

}  // namespace weft::bench
