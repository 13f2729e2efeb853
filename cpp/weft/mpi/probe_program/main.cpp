// weft_mpi_probe [BACKEND [NUMBER]]: exits with code 0 if MPI can transfer memory of device NUMBER (default 0) of that
// backend. gpu_aware() runs it in a separate process.
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
    return 1;  // without MPI_Finalize, which might wait for the failed transfer
  }
  MPI_Finalize();
  return 0;
}
