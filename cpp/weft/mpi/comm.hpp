// A communicator, and errors that stop every rank with one message.
//
// It does not wrap all of MPI: other code calls MPI with `get()` and passes the result to `check`.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace weft::trace {
struct Traffic;
}

namespace weft::mpi {

// A collective error: every rank throws it with the same text, so it is enough if rank 0 prints it.
class CollectiveError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// weft's own duplicate of the caller's communicator, so that its messages cannot match the caller's. There is one
// duplicate per communicator, however many Comms are created from it. It is freed after both the caller's communicator
// and the last Comm. MPI is initialised if necessary. Failed MPI calls throw std::runtime_error with the library's
// text.
class Comm {
 public:
  Comm();  // of MPI_COMM_WORLD
  // The Comm of `comm` (collective the first time). std::invalid_argument for MPI_COMM_NULL and inter-communicators.
  explicit Comm(MPI_Comm comm);
  static Comm self();

  int rank() const;
  int size() const;
  MPI_Comm get() const;

  // The ranks on this rank's node, ascending, including this one; they share memory. WEFT_RANKS_PER_NODE=k (for tests)
  // splits every node into virtual nodes of k ranks. (collective the first time)
  const std::vector<int>& node() const;

  void barrier() const;
  // In place; all ranks get the result. Recorded in category mpi.
  void sum(double* values, int count) const;
  void sum(std::int64_t* values, int count) const;
  double max(double value) const;
  std::int64_t max(std::int64_t value) const;
  std::int64_t min(std::int64_t value) const;
  // Sum over the ranks below this one.
  std::int64_t exclusive_scan(std::int64_t value) const;

  // A message tag that no other exchange on this communicator uses (tags repeat after 32 767). It is the same on all
  // ranks if all call this in the same order. Local.
  int fresh_tag() const;

  // A number that identifies matching MPI calls in traces: either this communicator's collectives (tag 0), or its
  // messages with the given tag. It is the same on all ranks, and different for communicators with other ranks. Local.
  std::int64_t group(int tag = 0) const;
  // For the recorder: marks a call from which no rank returns before all ranks of the communicator have entered it.
  // Outlives the spans of this Comm.
  const std::shared_ptr<const trace::Traffic>& barrier_traffic() const;
  // The rank in MPI_COMM_WORLD of a rank of this communicator. Local.
  int world_rank(int rank) const;

  // Runs `work` on every rank. If it throws on any, every rank throws CollectiveError with the text of the lowest rank
  // that failed (and that rank's number, unless all failed). Use it for every set-up step that may fail on some ranks
  // only. `work` must not wait for another rank after a point where that rank may have failed: wrap each such part in
  // its own `together` (calls may be nested). (collective)
  void together(const std::function<void()>& work) const;

 private:
  struct Handle;
  friend struct Duplicates;
  std::shared_ptr<Handle> handle_;
};

// Unless code is MPI_SUCCESS, throws std::runtime_error with `call` and the text of the MPI library.
void check(int code, const char* call);

// "MPICH 5.0.2", for the run record.
std::string library_version();

}  // namespace weft::mpi
