! Direct-stiffness summation in Fortran with gslib's calls, as in a Nek-like code. Linking libweft_gs runs them on weft.
! The main program is in C (direct_stiffness_fortran.c) and starts MPI, because not every MPI supports Fortran.
subroutine direct_stiffness(comm, rank, ranks, length)
  implicit none
  integer, intent(in) :: comm, rank, ranks   ! comm: the Fortran handle of a communicator
  real(8), intent(out) :: length             ! this rank's part of the row of elements
  integer, parameter :: order = 4, elements = 6, double_precision_ = 1, add = 1
  real(8), parameter :: w(0:order) = [1d-1, 49d0/90, 32d0/45, 49d0/90, 1d-1]
  integer :: handle, n, e, i, first, last, p
  integer(8), allocatable :: ids(:)
  real(8), allocatable :: mass(:), multiplicity(:), both(:, :)
  external :: fgslib_gs_setup, fgslib_gs_op, fgslib_gs_op_fields, fgslib_gs_free

  first = elements * rank / ranks
  last = elements * (rank + 1) / ranks - 1
  n = (last - first + 1) * (order + 1)
  allocate (ids(n), mass(n), multiplicity(n), both(n, 2))
  p = 0
  do e = first, last
    do i = 0, order
      p = p + 1
      ids(p) = 1 + e * order + i
      mass(p) = w(i) / 2
      multiplicity(p) = 1
    end do
  end do

  call fgslib_gs_setup(handle, ids, n, comm, ranks)
  both(:, 1) = mass
  both(:, 2) = multiplicity
  call fgslib_gs_op(handle, mass, double_precision_, add, 0)
  call fgslib_gs_op_fields(handle, both, n, 2, double_precision_, add, 0)
  call fgslib_gs_free(handle)
  length = sum(both(:, 1) / both(:, 2))
  if (any(both(:, 1) /= mass)) length = -1
end subroutine direct_stiffness
