! What MPI promises of messages in Fortran, by the binding that is chosen when this is compiled:
! BINDING 0: mpif.h, 1: use mpi, 2: use mpi_f08. Prints "0 wrong" if all is well.
!
!     mpirun -n 2 fortran
#if BINDING == 2
#define REQUEST type(MPI_Request)
#define STATUS(name) type(MPI_Status) :: name
#define STATUSES(name, count) type(MPI_Status) :: name(count)
#define DATATYPE type(MPI_Datatype)
#define SOURCE(status) status%MPI_SOURCE
#else
#define REQUEST integer
#define STATUS(name) integer :: name(MPI_STATUS_SIZE)
#define STATUSES(name, count) integer :: name(MPI_STATUS_SIZE, count)
#define DATATYPE integer
#define SOURCE(status) status(MPI_SOURCE)
#endif
program fortran
#if BINDING == 2
  use mpi_f08
#elif BINDING == 1
  use mpi
#endif
  implicit none
#if BINDING == 0
  include 'mpif.h'
#endif
  integer, parameter :: long = 100000
  integer :: rank, other, error, i, which, wrong, total, number, ready(2)
  integer :: small(10), sent(10)
  integer, asynchronous :: large(long), larger(long)
  logical :: flag
  integer(kind=MPI_ADDRESS_KIND) :: address(1)
  REQUEST :: requests(2), none
  STATUS(one)
  STATUSES(all, 2)
  DATATYPE :: columns, absolute

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  other = 1 - rank
  wrong = 0
  sent = [(100 * rank + i, i = 1, 10)]

  ! Blocking, with a datatype and with the status that is ignored.
  call MPI_Type_vector(5, 1, 2, MPI_INTEGER, columns, error)
  call MPI_Type_commit(columns, error)
  small = -1
  if (rank == 0) then
    call MPI_Send(sent, 1, columns, other, 1, MPI_COMM_WORLD, error)
    call MPI_Recv(small, 10, MPI_INTEGER, other, 2, MPI_COMM_WORLD, one, error)
    call check(SOURCE(one) == other)
    call MPI_Get_count(one, MPI_INTEGER, number, error)
    call check(number == 10)
    call check(all_are(small, [(100 * other + i, i = 1, 10)]))
  else
    call MPI_Recv(small, 1, columns, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE, error)
    call check(all_are(small(1:9:2), [(i, i = 1, 9, 2)]))
    call check(all_are(small(2:10:2), [(-1, i = 1, 5)]))
    call MPI_Ssend(sent, 10, MPI_INTEGER, other, 2, MPI_COMM_WORLD, error)
  end if
  call MPI_Type_free(columns, error)

  ! Absolute addresses.
  call MPI_Get_address(small, address(1), error)
  call MPI_Type_create_hindexed(1, [10], address, MPI_INTEGER, absolute, error)
  call MPI_Type_commit(absolute, error)
  call MPI_Sendrecv(sent, 10, MPI_INTEGER, other, 3, MPI_BOTTOM, 1, absolute, other, 3, MPI_COMM_WORLD, one, error)
  call MPI_F_sync_reg_here(small)
  call check(all_are(small, [(100 * other + i, i = 1, 10)]))
  call MPI_Type_free(absolute, error)

  ! Nonblocking and persistent: the numbers of requests that live on.
  large = rank
  larger = -1
  call MPI_Recv_init(larger, long, MPI_INTEGER, other, 4, MPI_COMM_WORLD, requests(1), error)
  call MPI_Send_init(large, long, MPI_INTEGER, other, 4, MPI_COMM_WORLD, requests(2), error)
  do i = 1, 5
    large = 10 * i + rank
    call MPI_Startall(2, requests, error)
    select case (i)
    case (1)
      call MPI_Waitall(2, requests, all, error)
    case (2)
      call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, error)
    case (3)
      call MPI_Waitany(2, requests, which, one, error) ! MPICH 4.0's mpi_f08 may count from 0
      call MPI_Waitany(2, requests, which, MPI_STATUS_IGNORE, error)
    case (4)
      flag = .false.
      do while (.not. flag)
        call MPI_Testall(2, requests, flag, MPI_STATUSES_IGNORE, error)
      end do
    case (5)
      call MPI_Waitsome(2, requests, number, ready, all, error)
      call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, error)
    end select
    call check(larger(1) == 10 * i + other .and. larger(long) == 10 * i + other)
  end do
  call MPI_Request_free(requests(1), error)
  call MPI_Request_free(requests(2), error)
  none = MPI_REQUEST_NULL
  call check(requests(1) == none)

  call MPI_Irecv(small, 10, MPI_INTEGER, other, 5, MPI_COMM_WORLD, requests(1), error)
  call MPI_Cancel(requests(1), error)
  call MPI_Wait(requests(1), one, error)
  call MPI_Test_cancelled(one, flag, error)
  call check(flag)

  total = 0
  call MPI_Allreduce(wrong, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
  call MPI_Allreduce(MPI_IN_PLACE, wrong, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
  if (wrong /= total) total = total + 1
  if (rank == 0) print '(i0, a)', total, ' wrong'
  call MPI_Finalize(error)

contains

  subroutine check(good)
    logical, intent(in) :: good
    if (.not. good) wrong = wrong + 1
  end subroutine

  logical function all_are(values, expected)
    integer, intent(in) :: values(:), expected(:)
    all_are = all_of(values == expected)
  end function

  logical function all_of(values)
    logical, intent(in) :: values(:)
    integer :: at
    all_of = .true.
    do at = 1, size(values)
      all_of = all_of .and. values(at)
    end do
  end function

  ! The compiler must not assume that memory without a name in a call has kept its values.
  subroutine MPI_F_sync_reg_here(values)
    integer, intent(inout), asynchronous :: values(:)
    if (size(values) < 0) values = 0
  end subroutine
end program
