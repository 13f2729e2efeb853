/* Direct-stiffness summation with weft_gs in C: a row of spectral elements along x, distributed over the ranks.

       mpicc direct_stiffness.c -lweft_gs -lm && mpiexec -n 2 ./a.out

   Every element has (N+1)^3 Gauss-Lobatto points; points of neighbouring elements that coincide have one global id. The
   local mass matrices are diagonal; adding them up over coinciding points gives the assembled one, and the sum of its
   entries, each point counted once, is the volume. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <weft/gs/gs.h>

enum { N = 4, SIDE = N + 1, POINTS = SIDE * SIDE * SIDE, ELEMENTS = 6 };

/* Gauss-Lobatto-Legendre points and weights of order 4 on [-1, 1]. */
static const double x[SIDE] = {-1, -0.654653670707977144, 0, 0.654653670707977144, 1};
static const double w[SIDE] = {0.1, 49. / 90, 32. / 45, 49. / 90, 0.1};

int main(int argc, char **argv) {
  int rank, ranks, first, last, e, i, j, k, failed;
  long long *ids;
  double *mass, *multiplicity, *coordinate[2], volume = 0, worst = 0;
  size_t n, p = 0;
  weft_gs *gs;

  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  first = ELEMENTS * rank / ranks;
  last = ELEMENTS * (rank + 1) / ranks;
  n = (size_t)(last - first) * POINTS;
  ids = malloc(n * sizeof *ids + 1);
  mass = malloc(n * sizeof *mass + 1);
  multiplicity = malloc(n * sizeof *multiplicity + 1);
  coordinate[0] = malloc(n * sizeof(double) + 1);
  coordinate[1] = malloc(n * sizeof(double) + 1);
  for (e = first; e < last; ++e) {
    for (k = 0; k < SIDE; ++k) {
      for (j = 0; j < SIDE; ++j) {
        for (i = 0; i < SIDE; ++i, ++p) {
          ids[p] = 1 + e * N + i + (ELEMENTS * N + 1LL) * (j + SIDE * k);
          mass[p] = w[i] * w[j] * w[k] / 8; /* unit cubes */
          multiplicity[p] = 1;
          coordinate[0][p] = e + (x[i] + 1) / 2;
          coordinate[1][p] = (x[j] + 1) / 2;
        }
      }
    }
  }

  gs = weft_gs_setup(ids, n, MPI_COMM_WORLD, 0, NULL);
  weft_gs_op(gs, mass, WEFT_GS_DOUBLE, WEFT_GS_ADD, 0);
  weft_gs_op(gs, multiplicity, WEFT_GS_DOUBLE, WEFT_GS_ADD, 0);
  /* two arrays in one message: coinciding points have the same coordinates */
  weft_gs_op_many(gs, (void *const *)coordinate, 2, WEFT_GS_DOUBLE, WEFT_GS_ADD, 0);
  for (p = 0; p < n; ++p) {
    const int at = (int)(p % SIDE), element = first + (int)(p / POINTS);
    const double own = element + (x[at] + 1) / 2;
    const int shared = (at == 0 && element > 0) || (at == N && element < ELEMENTS - 1);
    volume += mass[p] / multiplicity[p];
    worst = fmax(worst, fabs(coordinate[0][p] - own * (shared ? 2 : 1)));
    worst = fmax(worst, fabs(multiplicity[p] - (shared ? 2 : 1)));
  }
  weft_gs_free(gs);

  MPI_Allreduce(MPI_IN_PLACE, &volume, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, &worst, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  failed = !(fabs(volume - ELEMENTS) < 1e-12) || !(worst < 1e-12);
  if (rank == 0) {
    printf("%d elements of order %d on %d rank(s): volume %.15g (exact: %d), %s\n", ELEMENTS, N, ranks, volume, ELEMENTS,
           failed ? "WRONG" : "right");
  }
  free(ids), free(mass), free(multiplicity), free(coordinate[0]), free(coordinate[1]);
  MPI_Finalize();
  return failed;
}
