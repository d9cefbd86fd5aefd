! The heat equation on a plate, cut into blocks of columns: each rank computes one, and exchanges its rim with its
! neighbours.
!
!     tca-cluster run -n 2 --ppn 2 -- ./heat-fortran [ROWS COLUMNS STEPS]
program heat
  use, intrinsic :: iso_fortran_env, only: real64
  use tca
  implicit none

  type(tca_session) :: session
  type(tca_halo) :: halo
  type(tca_coll) :: largest
  real(real64), pointer :: plate(:, :) => null(), other(:, :) => null(), change(:) => null(), most(:) => null()
  integer :: rows, columns, steps, rank, ranks, own, step
  character(len=20) :: word

  rows = 300
  columns = 400
  steps = 500
  if (command_argument_count() == 3) then
    call get_command_argument(1, word); read (word, *) rows
    call get_command_argument(2, word); read (word, *) columns
    call get_command_argument(3, word); read (word, *) steps
  end if
  call tca_open(session)
  rank = tca_rank(session)
  ranks = tca_size(session)
  own = columns*(rank + 1)/ranks - columns*rank/ranks
  call tca_alloc(session, plate, [rows + 2_8, own + 2_8])
  call tca_alloc(session, other, [rows + 2_8, own + 2_8])
  call tca_alloc(session, change, [1_8])
  call tca_alloc(session, most, [1_8])
  plate = 0
  if (rank == 0) plate(:, 1) = 100                  ! the left edge is hot
  other = plate
  ! Both have their halos exchanged, in turn; each exchange is planned here and started in every step.
  call tca_halo_new(session, halo, grid=[1, ranks], array=plate, low=[1, 1], high=[1, 1], other=other)
  call tca_coll_allreduce(session, change, most, TCA_MAX, largest)

  do step = 1, steps
    call tca_start(halo)
    call tca_wait(halo)
    if (mod(step, 2) == 1) then
      call jacobi(plate, other)
    else
      call jacobi(other, plate)
    end if
  end do
  change(1) = maxval(abs(plate(2:rows + 1, 2:own + 1) - other(2:rows + 1, 2:own + 1)))
  call tca_start(largest)
  call tca_wait(largest)
  call tca_sync(most)
  if (rank == 0) print '(i0, a, i0, a, i0, a, i0, a, f0.6)', &
    rows, ' x ', columns, ', ', steps, ' steps on ', ranks, ' ranks: changes by at most ', most(1)
  call tca_coll_free(largest)
  call tca_halo_free(halo)
  call tca_close(session)

contains

  subroutine jacobi(from, to)
    real(real64), intent(in) :: from(:, :)
    real(real64), intent(inout) :: to(:, :)
    integer :: i, j

    do j = 2, size(from, 2) - 1
      do i = 2, size(from, 1) - 1
        to(i, j) = (from(i - 1, j) + from(i + 1, j) + from(i, j - 1) + from(i, j + 1))/4
      end do
    end do
  end subroutine

end program heat
