! The Himeno benchmark: Jacobi sweeps of a 19-point stencil over a pressure field, in single precision.
!
!     himeno-fortran IMAX SWEEPS                                    one process, no tcad
!     tca-cluster run -n 2 --ppn 2 -- himeno-fortran IMAX SWEEPS I J K    the same, cut among I x J x K ranks
!
! The grid has IMAX x IMAX/2 x IMAX/2 points: 64 is the size XS, 128 S, 256 M. A sweep is the same code in both: what tcad adds
! is memory that others can put into, and an exchange of p's halo behind each sweep.
program himeno
  use, intrinsic :: iso_fortran_env, only: int64, real32, real64, error_unit
  use tca
  implicit none

  real(real32), parameter :: omega = 0.8
  type(tca_session) :: session
  type(tca_halo) :: halo
  type(tca_coll) :: sum_of_all
  real(real32), allocatable :: a(:, :, :, :), b(:, :, :, :), c(:, :, :, :), wrk1(:, :, :), wrk2(:, :, :), bnd(:, :, :)
  real(real32), pointer :: p(:, :, :) => null()
  real(real64), pointer :: gosa(:) => null(), total(:) => null()
  integer :: points(3), split(3), place(3), first(3), own(3), sweeps, sweep, imax, rank
  real(real64) :: all_ranks
  logical :: alone

  call arguments
  points = [imax, imax/2, imax/2]
  alone = all(split == 1)
  rank = 0
  if (.not. alone) then
    call tca_open(session)
    rank = tca_rank(session)
    if (tca_size(session) /= product(split)) call stop_with('as many ranks are needed as the split has parts')
  end if
  ! Points 2 to n - 1 of each direction are computed, and divided; the first index of the grid of ranks varies fastest.
  place = [mod(rank, split(1)), mod(rank/split(1), split(2)), rank/(split(1)*split(2))]
  first = (points - 2)*place/split
  own = (points - 2)*(place + 1)/split - first
  if (any(own < 1)) call stop_with('the grid is too small for this split')
  call allocate_all
  call initialise
  if (.not. alone) call tca_halo_new(session, halo, grid=split, array=p, low=[1, 1, 1], high=[1, 1, 1], diagonals=2)

  do sweep = 1, sweeps
    call jacobi(gosa(1))
    if (alone) cycle
    call tca_start(halo)
    call tca_wait(halo)
    call tca_sync(p)
  end do
  all_ranks = gosa(1)
  if (.not. alone) then
    call tca_coll_allreduce(session, gosa, total, TCA_SUM, sum_of_all)
    call tca_start(sum_of_all)
    call tca_wait(sum_of_all)
    call tca_sync(total)
    all_ranks = total(1)                             ! its memory goes with the session
    call tca_coll_free(sum_of_all)
    call tca_halo_free(halo)
    call tca_close(session)
  end if
  if (rank == 0) print '(a, es14.7)', 'GOSA ', all_ranks

contains

  subroutine arguments
    character(len=20) :: word
    integer :: numbers(5), i, status

    numbers = [0, 0, 1, 1, 1]
    do i = 1, min(5, command_argument_count())
      call get_command_argument(i, word)
      read (word, *, iostat=status) numbers(i)
      if (status /= 0) numbers(i) = 0
    end do
    if (all(command_argument_count() /= [2, 5]) .or. any(numbers < 1)) &
      call stop_with('usage: himeno-fortran IMAX SWEEPS [I J K]')
    imax = numbers(1)
    sweeps = numbers(2)
    split = numbers(3:5)
  end subroutine

  subroutine stop_with(text)
    character(len=*), intent(in) :: text

    write (error_unit, '(2a)') 'himeno: ', text
    error stop 1, quiet=.true.
  end subroutine

  subroutine allocate_all
    integer :: n(3)

    n = own + 2
    allocate (a(n(1), n(2), n(3), 4), b(n(1), n(2), n(3), 3), c(n(1), n(2), n(3), 3))
    allocate (wrk1(n(1), n(2), n(3)), wrk2(n(1), n(2), n(3)), bnd(n(1), n(2), n(3)))
    if (alone) then
      allocate (p(n(1), n(2), n(3)), gosa(1))
    else
      call tca_alloc(session, p, int(n, int64))
      call tca_alloc(session, gosa, [1_int64])
      call tca_alloc(session, total, [1_int64])
    end if
  end subroutine

  subroutine initialise
    integer :: k

    a(:, :, :, 1:3) = 1
    a(:, :, :, 4) = 1.0/6.0
    b = 0
    c = 1
    wrk1 = 0
    wrk2 = 0
    bnd = 1
    do k = 1, size(p, 3)
      p(:, :, k) = real((first(3) + k - 1)**2, real32)/real((points(3) - 1)**2, real32)
    end do
  end subroutine

  ! The residual is summed in double precision: it hardly depends on the order, which the split changes.
  subroutine jacobi(residual)
    real(real64), intent(out) :: residual
    real(real32) :: s0, ss
    integer :: i, j, k

    residual = 0
    do k = 2, size(p, 3) - 1
      do j = 2, size(p, 2) - 1
        do i = 2, size(p, 1) - 1
          s0 = a(i, j, k, 1)*p(i + 1, j, k) + a(i, j, k, 2)*p(i, j + 1, k) + a(i, j, k, 3)*p(i, j, k + 1) &
            + b(i, j, k, 1)*(p(i + 1, j + 1, k) - p(i + 1, j - 1, k) - p(i - 1, j + 1, k) + p(i - 1, j - 1, k)) &
            + b(i, j, k, 2)*(p(i, j + 1, k + 1) - p(i, j - 1, k + 1) - p(i, j + 1, k - 1) + p(i, j - 1, k - 1)) &
            + b(i, j, k, 3)*(p(i + 1, j, k + 1) - p(i - 1, j, k + 1) - p(i + 1, j, k - 1) + p(i - 1, j, k - 1)) &
            + c(i, j, k, 1)*p(i - 1, j, k) + c(i, j, k, 2)*p(i, j - 1, k) + c(i, j, k, 3)*p(i, j, k - 1) &
            + wrk1(i, j, k)
          ss = (s0*a(i, j, k, 4) - p(i, j, k))*bnd(i, j, k)
          residual = residual + real(ss, real64)**2
          wrk2(i, j, k) = p(i, j, k) + omega*ss
        end do
      end do
    end do
    do k = 2, size(p, 3) - 1
      p(2:size(p, 1) - 1, 2:size(p, 2) - 1, k) = wrk2(2:size(p, 1) - 1, 2:size(p, 2) - 1, k)
    end do
  end subroutine

end program himeno
