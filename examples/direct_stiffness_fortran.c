/* Starts MPI for direct_stiffness.f90 and checks its answer: the length of a row of six elements of length 1. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>

void direct_stiffness_(const MPI_Fint *comm, const int *rank, const int *ranks, double *length);

int main(int argc, char **argv) {
  int rank, ranks, wrong;
  double length;
  MPI_Fint comm;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  comm = MPI_Comm_c2f(MPI_COMM_WORLD);
  direct_stiffness_(&comm, &rank, &ranks, &length);
  MPI_Allreduce(MPI_IN_PLACE, &length, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  wrong = !(fabs(length - 6) < 1e-12);
  if (rank == 0) printf("Fortran on %d rank(s): length %.15g (exact: 6), %s\n", ranks, length, wrong ? "WRONG" : "right");
  MPI_Finalize();
  return wrong;
}
