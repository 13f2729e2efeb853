#include "weft/gs/abort.hpp"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>

namespace weft::gs {
namespace {

constexpr unsigned to_be_read = 200'000, to_speak = 2'000'000, longest = 6'000'000;  // microseconds

[[noreturn]] void end(const char* call, const char* text, int rank, bool agreed) noexcept {
  // Rank 0 prints for all ranks that have the same error. A collective error is known to reach rank 0. For other
  // errors, the other ranks print if rank 0 has not ended the job by then.
  usleep(agreed && rank > 0 ? longest : std::min(longest, to_speak * static_cast<unsigned>(rank)));
  if (rank == 0) {
    std::fprintf(stderr, "weft: %s: %s\n", call, text);
  } else if (!agreed) {
    std::fprintf(stderr, "weft: %s: rank %d: %s\n", call, rank, text);
  }
  std::fflush(stderr);
  let_it_be_read();
  MPI_Abort(MPI_COMM_WORLD, 1);
  _exit(1);
}

// The reason why MPI cannot be called; empty if it can.
std::string unusable() {
#ifdef OPEN_MPI
  constexpr bool open_mpi = true;
#else
  constexpr bool open_mpi = false;
#endif
  const std::string library = mpi::library_version();
  if (library.starts_with("Open MPI") != open_mpi) {
    return "the program runs on " + library + ", but weft was built with " + (open_mpi ? "Open MPI" : "an MPICH") +
           ": build weft with the program's MPI";
  }
  int started = 0, finished = 0;
  MPI_Initialized(&started);
  MPI_Finalized(&finished);
  if (started != 0 && finished == 0) return "";
  return std::string("called ") + (started == 0 ? "before MPI_Init" : "after MPI_Finalize") + " of " + library;
}

}  // namespace

mpi::Comm running(MPI_Comm comm) {
  if (const std::string why = unusable(); !why.empty()) throw std::logic_error(why);
  return mpi::Comm(comm);
}

void let_it_be_read() noexcept { usleep(to_be_read); }

void abort_job(const char* call) noexcept {
  if (const std::string why = unusable(); !why.empty()) {
    std::fprintf(stderr, "weft: %s: %s\n", call, why.c_str());
    std::fflush(stderr);
    _exit(1);
  }
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  try {
    throw;
  } catch (const mpi::CollectiveError& error) {
    end(call, error.what(), rank, true);
  } catch (const std::exception& error) {
    end(call, error.what(), rank, false);
  } catch (...) {
    end(call, "an exception of unknown type", rank, false);
  }
}

}  // namespace weft::gs
