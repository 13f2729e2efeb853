// weft_mpi_probe [BACKEND [NUMBER]]: exit code 0 if MPI moves the memory of that backend's device of this number (0).
// Run by gpu_aware() in a process of its own.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

#include "weft/mpi/probe.hpp"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    weft::mpi::prove_transfer(argc > 1 ? argv[1] : "host", argc > 2 ? std::atoi(argv[2]) : 0);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;  // without MPI_Finalize, which may wait for what failed
  }
  MPI_Finalize();
  return 0;
}
