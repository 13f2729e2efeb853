! 2DECOMP&FFT's real transform on FFTW, from x-pencils to z-pencils on a grid of 1 x P: decomp2d PREFIX N. The
! precision is the library's. What the programs share is in turns.h, here in Fortran: each rank has a pipe, whose lines
! say how many pairs to time.
program decomp2d
   use, intrinsic :: iso_fortran_env, only: int64
   use decomp_2d
   use decomp_2d_constants
   use decomp_2d_mpi
   use decomp_2d_fft
   use MPI
   implicit none

   type(decomp_info), pointer :: ph => null(), sp => null()
   real(mytype), allocatable :: physical(:, :, :)
   complex(mytype), allocatable :: spectral(:, :, :)
   integer :: ierror, n, rows, columns, pairs, i, rank, ranks, pipe, status
   double precision :: begin, setup, error, mine(2), all(2)
   character(len=4096) :: prefix, text

   call MPI_INIT(ierror)
   call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierror)
   call MPI_COMM_SIZE(MPI_COMM_WORLD, ranks, ierror)
   call get_command_argument(1, prefix)
   call get_command_argument(2, text)
   read (text, *) n
   write (text, '(a, ".", i0)') trim(prefix), rank
   open (newunit=pipe, file=trim(text), status='old', action='read')

   begin = MPI_WTIME()
   rows = 1   ! slabs, as the others: one of the two exchanges is within a rank
   columns = ranks
   call decomp_2d_init(n, n, n, rows, columns)
   call decomp_2d_fft_init(PHYSICAL_IN_X)
   ph => decomp_2d_fft_get_ph()
   sp => decomp_2d_fft_get_sp()
   call alloc_x(physical, ph, .true.)
   call alloc_z(spectral, sp, .true.)
   setup = MPI_WTIME() - begin

   call field(physical)
   call decomp_2d_fft_3d(physical, spectral)
   call decomp_2d_fft_3d(spectral, physical)
   error = difference(physical)
   mine = [setup, error]
   call MPI_REDUCE(mine, all, 2, MPI_DOUBLE_PRECISION, MPI_MAX, 0, MPI_COMM_WORLD, ierror)
   if (rank == 0) then
      write (*, '(a, es13.6, a, es10.3, a)') '{"setup_seconds": ', all(1), ', "error": ', all(2), &
         ', "version": "2DECOMP&FFT 2.1, slabs"}'
      flush (6)
   end if
   do
      read (pipe, *, iostat=status) pairs
      if (status /= 0 .or. pairs == 0) exit
      physical = 0   ! no pair divides by n**3
      call MPI_BARRIER(MPI_COMM_WORLD, ierror)
      begin = MPI_WTIME()
      do i = 1, pairs
         call decomp_2d_fft_3d(physical, spectral)
         call decomp_2d_fft_3d(spectral, physical)
      end do
      mine(1) = (MPI_WTIME() - begin)/pairs
      call MPI_REDUCE(mine, all, 1, MPI_DOUBLE_PRECISION, MPI_MAX, 0, MPI_COMM_WORLD, ierror)
      if (rank == 0) then
         write (*, '(a, es16.9, a)') '{"seconds": ', all(1), '}'
         flush (6)
      end if
   end do
   call decomp_2d_fft_finalize
   call decomp_2d_finalize
   call MPI_FINALIZE(ierror)

contains

   ! A value that depends on the point alone.
   elemental real(mytype) function value_at(x, y, z)
      integer, intent(in) :: x, y, z
      integer(int64) :: h
      h = mod(int(x, int64)*7919_int64 + int(y, int64)*104729_int64 + int(z, int64)*1299709_int64, 15485863_int64)
      value_at = real(h, mytype)/15485863._mytype - 0.5_mytype
   end function

   subroutine field(a)
      real(mytype), intent(out) :: a(ph%xst(1):, ph%xst(2):, ph%xst(3):)
      integer :: x, y, z
      do z = ph%xst(3), ph%xen(3)
         do y = ph%xst(2), ph%xen(2)
            do x = ph%xst(1), ph%xen(1)
               a(x, y, z) = value_at(x, y, z)
            end do
         end do
      end do
   end subroutine

   double precision function difference(a)
      real(mytype), intent(in) :: a(ph%xst(1):, ph%xst(2):, ph%xst(3):)
      integer :: x, y, z
      difference = 0
      do z = ph%xst(3), ph%xen(3)
         do y = ph%xst(2), ph%xen(2)
            do x = ph%xst(1), ph%xen(1)
               difference = max(difference, abs(dble(a(x, y, z))/dble(n)**3 - dble(value_at(x, y, z))))
            end do
         end do
      end do
   end function
end program
