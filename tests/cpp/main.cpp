// main of every C++ test: MPI is initialised and finalised around all tests, and a failure on one rank fails the run.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdlib>

int main(int argc, char** argv) {
  setenv("WEFT_FFT_PATH", WEFT_TEST_FFT_PATH, 0);  // the libraries of the Python environment, as the package finds them
  setenv("WEFT_TEST_KERNELS", "1", 0);
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  testing::InitGoogleTest(&argc, argv);
  int failed = RUN_ALL_TESTS();
  int any = 0;
  MPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return any;
}
