/* FFTW-MPI's real transforms with transposed output, out of place: fftw PREFIX N FLAG, FLAG one of measure, patient.
   Compiled with -DSINGLE for floats. On one rank `serial-` in front of FLAG takes FFTW's own 3-D plan, without MPI, on
   OMP_NUM_THREADS threads. */
#include <complex.h>
#include <fftw3-mpi.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "turns.h"

#ifdef SINGLE
typedef float real;
#define FFTW(name) fftwf_##name
#else
typedef double real;
#define FFTW(name) fftw_##name
#endif

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  FFTW(init_threads)();
  FFTW(mpi_init)();
  const ptrdiff_t n = atol(argv[2]), half = n / 2 + 1, row = 2 * half;
  const int serial = strncmp(argv[3], "serial-", 7) == 0;
  const unsigned flag = strstr(argv[3], "patient") != NULL ? FFTW_PATIENT : FFTW_MEASURE;
  ptrdiff_t planes, first, rows, first_row;
  const ptrdiff_t size =
      FFTW(mpi_local_size_3d_transposed)(n, n, half, MPI_COMM_WORLD, &planes, &first, &rows, &first_row);
  real* physical = FFTW(alloc_real)((size_t)(2 * size));
  FFTW(complex)* spectral = FFTW(alloc_complex)((size_t)size);
  const ptrdiff_t line = serial ? n : row; /* FFTW-MPI pads real lines, also out of place */
  turns_open(argv[1]);
  const double begin = MPI_Wtime();
  FFTW(plan) forward, backward;
  if (serial) {
    const char* threads = getenv("OMP_NUM_THREADS");
    FFTW(plan_with_nthreads)(threads ? atoi(threads) : 1);
    forward = FFTW(plan_dft_r2c_3d)((int)n, (int)n, (int)n, physical, spectral, flag | FFTW_DESTROY_INPUT);
    backward = FFTW(plan_dft_c2r_3d)((int)n, (int)n, (int)n, spectral, physical, flag | FFTW_DESTROY_INPUT);
  } else {
    forward = FFTW(mpi_plan_dft_r2c_3d)(n, n, n, physical, spectral, MPI_COMM_WORLD,
                                        flag | FFTW_DESTROY_INPUT | FFTW_MPI_TRANSPOSED_OUT);
    backward = FFTW(mpi_plan_dft_c2r_3d)(n, n, n, spectral, physical, MPI_COMM_WORLD,
                                         flag | FFTW_DESTROY_INPUT | FFTW_MPI_TRANSPOSED_IN);
  }
  const double setup = MPI_Wtime() - begin;
  const double points = (double)n * n * n;
  for (int check = 0; check < 2; ++check) {
    double error = 0;
    for (ptrdiff_t z = 0; z < planes; ++z)
      for (ptrdiff_t y = 0; y < n; ++y)
        for (ptrdiff_t x = 0; x < n; ++x) physical[(z * n + y) * line + x] = (real)turns_field(x, y, z + first);
    if (check == 1) break; /* the values the turns begin with */
    FFTW(execute)(forward);
    FFTW(execute)(backward);
    for (ptrdiff_t z = 0; z < planes; ++z)
      for (ptrdiff_t y = 0; y < n; ++y)
        for (ptrdiff_t x = 0; x < n; ++x)
          error = fmax(error, fabs(physical[(z * n + y) * line + x] / points - turns_field(x, y, z + first)));
    turns_ready(setup, error, FFTW(version));
  }
  for (int pairs; (pairs = turns_next()) > 0;) {
    /* No pair divides by n^3: the values must not overflow, and zero takes as long. */
    memset(physical, 0, sizeof(real) * 2 * (size_t)size);
    const double start = turns_begin();
    for (int i = 0; i < pairs; ++i) {
      FFTW(execute)(forward);
      FFTW(execute)(backward);
    }
    turns_end(start, pairs);
  }
  MPI_Finalize();
  return 0;
}
