// Whether MPI can still be called: after MPI_Finalize almost any MPI call ends the process.
#pragma once

#include <mpi.h>

#include <stdexcept>

namespace weft::mpi {

inline bool finalized() {
  int flag = 0;
  MPI_Finalized(&flag);
  return flag != 0;
}

// Throws std::runtime_error after MPI_Finalize.
inline void require_not_finalized() {
  if (finalized()) throw std::runtime_error("weft was used after MPI_Finalize");
}

}  // namespace weft::mpi
