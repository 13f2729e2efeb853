// weft_mpi_probe BACKEND: exit code 0 if MPI moves that backend's memory. Run by gpu_aware() in a process of its own.
#include <mpi.h>

#include <cstdio>
#include <exception>

#include "weft/mpi/probe.hpp"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    weft::mpi::prove_transfer(argc > 1 ? argv[1] : "host");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;  // without MPI_Finalize, which may wait for what failed
  }
  MPI_Finalize();
  return 0;
}
