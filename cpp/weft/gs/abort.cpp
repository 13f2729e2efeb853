#include "weft/gs/abort.hpp"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>

#include "weft/mpi/comm.hpp"

namespace weft::gs {
namespace {

constexpr unsigned wait_for_first = 1'000'000;  // microseconds

[[noreturn]] void end(const char* call, const char* text, int rank, bool agreed) noexcept {
  // Rank 0 speaks for all where all have met the same error; the others speak if it has not ended the job by then.
  if (rank != 0) usleep(std::min(wait_for_first, wait_for_first / 2 + 1000U * static_cast<unsigned>(rank)));
  if (agreed || rank == 0) {
    std::fprintf(stderr, "weft: %s: %s\n", call, text);
  } else {
    std::fprintf(stderr, "weft: %s: rank %d: %s\n", call, rank, text);
  }
  std::fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, 1);
  _exit(1);
}

}  // namespace

void abort_job(const char* call) noexcept {
  int started = 0, finished = 0, rank = 0;
  MPI_Initialized(&started);
  MPI_Finalized(&finished);
  if (started == 0 || finished != 0) {
    std::fprintf(stderr, "weft: %s: called %s\n", call, started == 0 ? "before MPI_Init" : "after MPI_Finalize");
    _exit(1);
  }
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
