! What `use tca` promises: sections of every kind as layouts, against Fortran's own assignments; exchanges, operations,
! messages, groups, counters, errors. Any number of ranks; prints what is wrong, and fails.
program calls
  use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64, error_unit
  use tca
  implicit none

  type particle
    real(real64) :: x, v
    integer(int32) :: kind
  end type

  type(tca_session) :: session
  integer :: rank, ranks, right, left

  call tca_open(session, timeout_ns=60000000000_int64)
  rank = tca_rank(session)
  ranks = tca_size(session)
  right = mod(rank + 1, ranks)
  left = mod(rank - 1 + ranks, ranks)
  call must(tca_node(session) == tca_node(session, rank), 'node')
  call sections
  call every_type
  call attached
  call counters
  call exchanges
  call operations
  call messages
  call groups
  call errors
  call tca_close(session)

contains

  subroutine must(holds, what)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: what

    if (holds) return
    write (error_unit, '(a, i0, 2a)') 'rank ', rank, ': ', what
    error stop 1
  end subroutine

  ! Puts a section of my array to the same or another one of my right neighbour's, and waits for my left one's.
  subroutine exchange(plan)
    type(tca_plan), intent(inout) :: plan

    call tca_plan_notify(plan, right, 0)
    call tca_plan_commit(plan)
    call tca_start(plan)
    call tca_notified_wait(session, left, 0)
    call tca_wait(plan)
    call tca_plan_free(plan)
    call tca_barrier(session)
  end subroutine

  subroutine sections
    integer, parameter :: N = 12, M = 7
    real(real64), pointer :: a(:, :), b(:, :), view(:, :)
    real(real64) :: expected(N, M), from(N, M)
    type(tca_handle) :: mine, handles(0:ranks - 1), part, half
    type(tca_plan) :: plan
    integer :: i

    call tca_alloc(session, a, [int(N, int64), int(M, int64)])
    call tca_alloc(session, b, shape=[int(N, int64), int(M, int64)])
    call must(all(shape(a) == [N, M]) .and. all(lbound(a) == 1), 'shape of tca_alloc')
    call tca_handle_of(session, b, mine)
    call tca_allgather(session, mine, handles)
    a = reshape([(i + 1000*rank, i=1, N*M)], [N, M])
    from = reshape([(i + 1000*left, i=1, N*M)], [N, M]) ! my left neighbour's
    do i = 1, 10
      b = -1
      expected = -1
      call tca_barrier(session)
      call tca_plan_new(session, plan, name='sections ')
      select case (i)
      case (1) ! every second row
        call tca_section(handles(right), [1, 1], [N/2, M], part)
        call tca_plan_put(plan, a(1:N:2, :), part)
        expected(1:N/2, :) = from(1:N:2, :)
      case (2) ! backwards, both sides
        call tca_section(handles(right), [1, M], [N, 1], part, step=[3, -1])
        call tca_plan_put(plan, a(N:1:-3, :), part)
        expected(1:N:3, M:1:-1) = from(N:1:-3, :)
      case (3) ! a row into a column
        call tca_section(handles(right), [2, 3], [M + 1, 3], part)
        call tca_plan_put(plan, a(5, :), part)
        expected(2:M + 1, 3) = from(5, :)
      case (4) ! nothing
        call tca_section(handles(right), [3, 1], [2, M], part)
        call tca_plan_put(plan, a(3:2, :), part)
      case (5) ! one element
        call tca_section(handles(right), [N, M], [N, M], part)
        call tca_plan_put(plan, a(4, 4), part)
        expected(N, M) = from(4, 4)
      case (6) ! a pointer to a section
        view => a(2:N:5, 1:M:3)
        call tca_section(handles(right), [1, 1], [size(view, 1), size(view, 2)], part)
        call tca_plan_put(plan, view, part)
        expected(1:size(view, 1), 1:size(view, 2)) = from(2:N:5, 1:M:3)
      case (7) ! other lower bounds
        view(-3:, 0:) => a
        call tca_section(handles(right), [1, 1], [2, M], part)
        call tca_plan_put(plan, view(-3:-2, :), part)
        expected(1:2, :) = from(1:2, :)
      case (8) ! a dummy with assumed shape
        call tca_section(handles(right), [1, 2], [N, 3], part)
        call put_dummy(plan, a(:, 5:6), part)
        expected(:, 2:3) = from(:, 5:6)
      case (9) ! all
        call tca_plan_put(plan, a, handles(right))
        expected = from
      case (10) ! a section of a section
        call tca_section(handles(right), [1, 1], [N, M], half, [2, 2])
        call tca_section(half, [2, 2], [3, 2], part)
        call tca_plan_put(plan, a(1:2, 1), part)
        expected(3:5:2, 3) = from(1:2, 1)
      end select
      call exchange(plan)
      call tca_sync(b)
      call must(all(b == expected), 'section '//achar(64 + i))
      call tca_barrier(session)
    end do
    call tca_free(session, a)
    call tca_free(session, b)
  end subroutine

  subroutine put_dummy(plan, array, target)
    type(tca_plan), intent(in) :: plan
    real(real64), intent(in), asynchronous :: array(0:, :)
    type(tca_handle), intent(in) :: target

    call tca_plan_put(plan, array, target)
  end subroutine

  subroutine every_type
    real(real32), pointer :: r4(:)
    integer(int32), pointer :: i4(:, :, :)
    integer(int64), pointer :: i8(:, :)
    complex(real64), pointer :: c16(:, :, :, :)
    type(tca_handle) :: all4(0:ranks - 1), all8(0:ranks - 1), all16(0:ranks - 1), allr(0:ranks - 1), mine
    type(tca_plan) :: plan

    call tca_alloc(session, r4, [10_int64])
    call tca_alloc(session, i4, [4_int64, 3_int64, 2_int64])
    call tca_alloc(session, i8, [4_int64, 0_int64])
    call tca_alloc(session, c16, [2_int64, 2_int64, 2_int64, 2_int64])
    r4 = rank
    i4 = rank
    c16 = (1, -1)*rank
    call tca_handle_of(session, r4(6:10), mine)
    call tca_allgather(session, mine, allr)
    call tca_handle_of(session, i4(:, 2, :), mine)
    call tca_allgather(session, mine, all4)
    call tca_handle_of(session, i8, mine)
    call tca_allgather(session, mine, all8)
    call tca_handle_of(session, c16(2:2, :, :, 2:1:-1), mine)
    call tca_allgather(session, mine, all16)
    call tca_plan_new(session, plan, seat=TCA_SEAT_DAEMON, flags=TCA_PLAN_LANDED)
    call tca_plan_put(plan, r4(1:5), allr(right))
    call tca_plan_put(plan, i4(4:1:-1, 1, 2:1:-1), all4(right))
    call tca_plan_put(plan, i8, all8(right))
    call tca_plan_put(plan, c16(1:1, :, :, :), all16(right))
    call exchange(plan)
    call must(all(r4(1:5) == rank) .and. all(r4(6:) == left), 'real32')
    call must(all(i4(:, 2, :) == left) .and. all(i4(:, 1:3:2, :) == rank), 'int32')
    call must(all(c16(2, :, :, :) == (1, -1)*left) .and. all(c16(1, :, :, :) == (1, -1)*rank), 'complex')
  end subroutine

  ! Memory that the program has, of a derived type: components are sections.
  subroutine attached
    type(particle), target, asynchronous, allocatable :: crowd(:)
    type(particle), target, asynchronous :: few(3)
    real(real64), pointer :: x(:), v(:)
    type(tca_region) :: region
    type(tca_handle) :: mine, handles(0:ranks - 1)
    type(tca_plan) :: plan
    integer :: i

    allocate (crowd(1000))
    crowd%x = rank
    crowd%v = 0
    crowd%kind = [(i, i=1, 1000)]
    call tca_region_attach(session, crowd, region)
    x => crowd%x ! gfortran would change the array's address: see tca.f90
    v => crowd%v
    call tca_handle_of(session, v, mine)
    call tca_allgather(session, mine, handles)
    call tca_plan_new(session, plan)
    call tca_plan_put(plan, x, handles(right))
    call exchange(plan)
    call must(all(crowd%v == left) .and. all(crowd%x == rank) .and. crowd(7)%kind == 7, 'components')
    call tca_region_free(region)

    few%x = rank
    few%v = 0
    call tca_region_attach(session, few, region)
    call tca_handle_of(session, few(3:1:-1)%v, mine)
    call tca_allgather(session, mine, handles)
    call tca_plan_new(session, plan)
    call tca_plan_put(plan, few%x, handles(right))
    call exchange(plan)
    call must(all(few%v == left) .and. all(few%x == rank), 'components of a static array')
    call tca_region_free(region)
  end subroutine

  subroutine counters
    integer(int64), pointer :: arrived(:)
    type(tca_handle) :: mine, handles(0:ranks - 1)
    type(tca_plan) :: plan
    integer :: i

    call tca_alloc(session, arrived, [1_int64])
    arrived = 0
    call tca_handle_of(session, arrived, mine)
    call tca_allgather(session, mine, handles)
    call tca_plan_new(session, plan)
    do i = 0, ranks - 1
      call tca_plan_signal(plan, handles(i), 3_int64)
    end do
    call tca_plan_chain(plan)
    call tca_plan_wait(plan, rank, 5, 1_int64)
    call tca_plan_notify(plan, rank, 6)
    call tca_plan_chain(plan)
    call tca_plan_notify(plan, rank, 5)
    call tca_plan_commit(plan)
    call tca_start(plan)
    call tca_signal_wait_until(session, arrived(1), TCA_GE, 3_int64*ranks)
    do while (tca_notified(session, rank, 6) == 0)
    end do
    do while (tca_test(plan) == 0)
    end do
    call tca_plan_free(plan)
  end subroutine

  ! A torus of two dimensions, the first varying fastest, of elements that are three numbers.
  subroutine exchanges
    integer(int32), pointer :: a(:, :, :)
    type(tca_halo) :: halo
    integer :: grid(2), at(2), i, j, neighbour

    grid = [1, ranks]
    if (mod(ranks, 2) == 0) grid = [2, ranks/2]
    at = [mod(rank, grid(1)), rank/grid(1)]
    call tca_alloc(session, a, [3_int64, 6_int64, 7_int64])
    a = -1
    a(:, 2:5, 3:6) = rank
    call tca_halo_new(session, halo, grid, a, low=[1, 2], high=[1, 1], periodic=[1, 1], diagonals=2)
    call must(tca_halo_buffer(halo) == 1, 'buffer')
    call tca_start(halo)
    do while (tca_test(halo) == 0)
    end do
    call tca_wait(halo)
    call tca_sync(a)
    do j = -1, 1
      do i = -1, 1
        neighbour = modulo(at(1) + i, grid(1)) + modulo(at(2) + j, grid(2))*grid(1)
        call must(all(a(:, merge(1, merge(6, 3, i == 1), i == -1), merge(1, merge(7, 4, j == 1), j == -1)) == neighbour), 'halo')
      end do
    end do
    call tca_halo_free(halo)
  end subroutine

  subroutine operations
    real(real64), pointer :: in(:), out(:), everybody(:, :)
    integer(int32), pointer :: blocks(:), turned(:)
    type(tca_coll) :: sum, gather, broadcast, barrier, most, exchange_all
    integer :: i, e

    call tca_alloc(session, in, [2_int64])
    call tca_alloc(session, out, [2_int64])
    call tca_alloc(session, everybody, [2_int64, int(ranks, int64)])
    call tca_alloc(session, blocks, [int(ranks, int64)])
    call tca_alloc(session, turned, [int(ranks, int64)])
    call tca_coll_allreduce(session, in, out, TCA_SUM, sum)
    call tca_coll_allgather(session, in, everybody, gather)
    call tca_coll_broadcast(session, out, ranks - 1, broadcast)
    call tca_coll_barrier(session, barrier)
    call tca_coll_alltoall(session, blocks, turned, exchange_all)
    call tca_coll_reduce(session, blocks, turned, TCA_MAX, 0, most)
    do i = 1, 3
      in = [real(rank, real64), i*1.5_real64]
      call tca_start(sum)
      call tca_wait(sum)
      call must(all(out == [ranks*(ranks - 1)/2._real64, i*1.5_real64*ranks]), 'allreduce')
    end do
    call tca_start(gather)
    do while (tca_test(gather) == 0)
    end do
    call must(all(everybody(1, :) == [(i, i=0, ranks - 1)]), 'allgather')
    out = rank
    call tca_start(broadcast)
    call tca_wait(broadcast)
    call must(all(out == ranks - 1), 'broadcast')
    call tca_start(barrier)
    call tca_wait(barrier)
    blocks = [(100*rank + i, i=0, ranks - 1)]
    call tca_start(exchange_all)
    call tca_wait(exchange_all)
    call must(all(turned == [(100*i + rank, i=0, ranks - 1)]), 'alltoall')
    call tca_start(most)
    call tca_wait(most)
    if (rank == 0) call must(all(turned == [(100*(ranks - 1) + i, i=0, ranks - 1)]), 'reduce')
    call tca_coll_free(sum)
    call tca_coll_free(gather)
    call tca_coll_free(broadcast)
    call tca_coll_free(barrier)
    call tca_coll_free(exchange_all)
    call tca_coll_free(most)
    call tca_coll_allreduce(session, everybody(1, :), out, TCA_SUM, sum, ierror=e)
    call must(e < 0 .and. (ranks == 1 .or. index(tca_error_text(), 'contiguous') > 0), 'a section in an operation')
  end subroutine

  subroutine messages
    type(tca_msg) :: msg
    type(tca_request) :: requests(2)
    type(tca_status) :: status
    integer(int32), target, asynchronous :: a(20, 30), b(30, 20)
    integer :: i

    call tca_msg_new(session, msg)
    a = reshape([(i + 1000*rank, i=1, 600)], [20, 30])
    b = 0
    call tca_msg_recv(msg, b(1:30:2, 20:1:-1), left, 7, requests(1))
    call tca_msg_send(msg, a(:, 1:30:2), right, 7, requests(2))
    do while (tca_test(requests(1)) == 0)
    end do
    call tca_wait(requests(1), status)
    call tca_wait(requests(2))
    call tca_sync(b)
    call must(status%rank == left .and. status%tag == 7 .and. status%bytes == 1200, 'status')
    call must(all(reshape(b(1:30:2, 20:1:-1), [300]) == reshape(of(left), [300])), 'message')
    call must(all(b(2:30:2, :) == 0), 'between')
    call tca_msg_recv(msg, b(:, 1), TCA_ANY, TCA_ANY, requests(1))
    call tca_msg_send(msg, a(:, 4), right, 9, requests(2))
    call tca_wait(requests(1), status, timeout_ns=60000000000_int64)
    call tca_wait(requests(2))
    call must(status%tag == 9 .and. status%bytes == 80, 'any')
    call tca_msg_free(msg)
  end subroutine

  function of(sender) result(sent)
    integer, intent(in) :: sender
    integer(int32) :: sent(20, 15), a(20, 30)
    integer :: i

    a = reshape([(i + 1000*sender, i=1, 600)], [20, 30])
    sent = a(:, 1:30:2)
  end function

  subroutine groups
    type(tca_group) :: half
    type(tca_coll) :: barrier
    integer(int32), allocatable :: members(:)

    call tca_group_split(session, mod(rank, 2), -rank, half)
    call must(tca_size(session, half) == (ranks + 1 - mod(rank, 2))/2, 'size of a group')
    allocate (members(tca_size(session, half)))
    call tca_allgather(session, rank, members, half)
    call must(members(tca_rank(session, half) + 1) == rank, 'rank in a group')
    call tca_coll_barrier(session, barrier, half)
    call tca_start(barrier)
    call tca_wait(barrier)
    call tca_coll_free(barrier)
    call tca_barrier(session, half)
    call tca_group_free(half)
  end subroutine

  subroutine errors
    type(tca_session) :: none
    type(tca_plan) :: plan
    type(tca_handle) :: handle, section
    real(real64), pointer :: a(:)
    integer :: e

    call tca_open(none, group='of nobody', rank=3, size=2, ierror=e)
    call must(e < 0 .and. len(tca_error_text()) > 0, 'tca_open')
    call tca_alloc(session, a, [5_int64])
    call tca_handle_of(session, a, handle)
    call tca_section(handle, [0], [3], section, ierror=e)
    call must(e < 0 .and. index(tca_error_text(), 'outside') > 0, 'tca_section')
    call tca_section(handle, [1], [3], section, [0], e)
    call must(e < 0, 'step 0')
    call tca_plan_new(session, plan, seat=TCA_SEAT_CLIENT)
    call tca_plan_put(plan, a(1:2), handle, ierror=e)
    call must(e < 0 .and. index(tca_error_text(), '16') > 0, 'sizes')
    call tca_plan_commit(plan, ierror=e)
    call must(e < 0, 'commit')
    call tca_plan_free(plan)
    call tca_notified_wait(session, rank, 77, timeout_ns=1000000_int64, ierror=e)
    call must(e < 0, 'time-out')
    call tca_alloc(session, a, [-1_int64], e)
    call must(e < 0, 'negative shape')
  end subroutine

end program calls
