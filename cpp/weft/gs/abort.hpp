// What a C function does with an exception: one message for all ranks, and the end of the job.
#pragma once

namespace weft::gs {

// Called inside a catch block. `call` is the function's name in the message.
[[noreturn]] void abort_job(const char* call) noexcept;

// Between a message and MPI_Abort, which ends launchers that have not yet passed the message on.
void let_it_be_read() noexcept;

// Runs the body of a C function.
template <class F>
auto guarded(const char* call, F&& body) noexcept {
  try {
    return body();
  } catch (...) {
    abort_job(call);
  }
}

}  // namespace weft::gs
