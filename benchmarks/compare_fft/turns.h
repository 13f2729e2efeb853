/* What the programs of compare_fft.py share: waiting for their turn without using a core, and timing it.

Every rank has a named pipe, PREFIX.rank; a line on it with a number says how many pairs of transforms to time, 0 to
end. Rank 0 answers with a line of JSON. MPI's own waiting would keep a core busy while others have their turn. */
#ifndef COMPARE_FFT_TURNS_H
#define COMPARE_FFT_TURNS_H
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static FILE* turns_pipe;

static void turns_open(const char* prefix) {
  int rank;
  char path[4096];
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  snprintf(path, sizeof path, "%s.%d", prefix, rank);
  turns_pipe = fopen(path, "r");
  if (turns_pipe == NULL) {
    fprintf(stderr, "there is no pipe %s: start this by compare_fft.py\n", path);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

/* Prints what is known before the first turn. `error`: largest difference after a pair, of this rank. */
static void turns_ready(double setup_seconds, double error, const char* version) {
  int rank;
  double mine[2] = {setup_seconds, error}, all[2];
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Reduce(mine, all, 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    printf("{\"setup_seconds\": %.6g, \"error\": %.3g, \"version\": \"%s\"}\n", all[0], all[1], version);
    fflush(stdout);
  }
}

/* Pairs to time in this turn, 0 at the end. */
static int turns_next(void) {
  int pairs = 0;
  if (fscanf(turns_pipe, "%d", &pairs) != 1) pairs = 0;
  return pairs;
}

static double turns_begin(void) {
  MPI_Barrier(MPI_COMM_WORLD);
  return MPI_Wtime();
}

static void turns_end(double begin, int pairs) {
  int rank;
  double mine = (MPI_Wtime() - begin) / pairs, all;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Reduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    printf("{\"seconds\": %.9g}\n", all);
    fflush(stdout);
  }
}

/* The field all contestants transform: a value that depends on the point alone. */
static double turns_field(long x, long y, long z) {
  unsigned long h = (unsigned long)x * 0x9e3779b97f4a7c15UL + (unsigned long)y * 0xc2b2ae3d27d4eb4fUL;
  h += (unsigned long)z * 0x165667b19e3779f9UL;
  h ^= h >> 29;
  h *= 0xbf58476d1ce4e5b9UL;
  h ^= h >> 32;
  return (double)(h >> 11) / 9007199254740992.0 - 0.5;
}
#endif
