// Turns exceptions in C functions into one message for all ranks, and ends the job.
#pragma once

#include "weft/gs/threads.hpp"
#include "weft/mpi/comm.hpp"

namespace weft::gs {

// The communicator for a set-up. std::logic_error if MPI is not running, or is not the library that weft was built
// with.
mpi::Comm running(MPI_Comm comm);

// Called inside a catch block. `call` is the function's name in the message.
[[noreturn]] void abort_job(const char* call) noexcept;

// Waits between printing a message and MPI_Abort, which may end the launcher before it has forwarded the message.
void let_it_be_read() noexcept;

// Runs the body of a C function.
template <class F>
auto guarded(const char* call, F&& body) noexcept {
  const Threads threads;
  try {
    return body();
  } catch (...) {
    abort_job(call);
  }
}

}  // namespace weft::gs
