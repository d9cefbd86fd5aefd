! use tca: libtca for Fortran. Plans, halo exchanges, collective operations, messages, groups and
! counters; doc/fortran.md is the introduction, tca.h and its companions are the reference.
!
! Array arguments are passed by descriptor, without copies: sections, pointers and reversed arrays
! are layouts. Elements are in Fortran's order. Ranks count from 0, as in C, indices from 1.
!
! Every subroutine has `ierror` as its last argument: 0, or a negative error code (tca.h); the text
! is tca_error_text(). Without it, a call that fails prints the text and ends the program with 1.
!
! An array in a plan, an exchange or a request is read and written while the program does other
! things: declare it `asynchronous` or `target`, or call tca_sync(array) after the wait, so that the
! compiler loads it again.
!
! gfortran 12 changes the address of an allocatable or pointer array when a component of its elements
! is an argument, as in tca_plan_put(plan, particles%x, there): let a pointer lead to the component,
! x => particles%x, and use that. Arrays of constant shape are not affected.
module tca
  use, intrinsic :: iso_c_binding
  implicit none

  type, bind(C) :: tca_session
    type(c_ptr) :: pointer = c_null_ptr
  end type
  type, bind(C) :: tca_group
    type(c_ptr) :: pointer = c_null_ptr
  end type
  type, bind(C) :: tca_region
    type(c_ptr) :: pointer = c_null_ptr
  end type
  type, bind(C) :: tca_plan
    type(c_ptr) :: pointer = c_null_ptr
  end type
  type, bind(C) :: tca_halo
    type(c_ptr) :: pointer = c_null_ptr
  end type
  type, bind(C) :: tca_coll
    type(c_ptr) :: pointer = c_null_ptr
  end type
  type, bind(C) :: tca_msg
    type(c_ptr) :: pointer = c_null_ptr
  end type
  type, bind(C) :: tca_request
    type(c_ptr) :: pointer = c_null_ptr
  end type

  ! Names the elements of an array of any rank of the group, or a section of them (tca_section).
  ! Plain data: tell other ranks by tca_allgather() or by any other means.
  type, bind(C) :: tca_handle
    integer(c_int8_t) :: bytes(64) = 0
    integer(c_int64_t) :: offset = 0                   ! of the first element
    integer(c_int64_t) :: extent(7) = 0, stride(7) = 0 ! stride: bytes
    integer(c_int64_t) :: element_bytes = 0
    integer(c_int32_t) :: dimensions = 0, kind = 0
  end type

  type, bind(C) :: tca_status
    integer(c_int32_t) :: rank, tag
    integer(c_int64_t) :: bytes
  end type

  integer(c_int64_t), parameter :: TCA_FOREVER = -1, TCA_DEFAULT = -2 ! times are nanoseconds
  integer(c_int), parameter :: TCA_ANY = -1                       ! any rank, any tag
  integer(c_int), parameter :: TCA_SEAT_ANY = 0, TCA_SEAT_CLIENT = 1, TCA_SEAT_DAEMON = 2
  integer(c_int), parameter :: TCA_PLAN_TIMED = 1, TCA_PLAN_LANDED = 2, TCA_PLAN_PREFER = 4, TCA_PLAN_REPEAT = 8
  integer(c_int), parameter :: TCA_SUM = 1, TCA_PRODUCT = 2, TCA_MIN = 3, TCA_MAX = 4
  integer(c_int), parameter :: TCA_BIT_AND = 8, TCA_BIT_OR = 9, TCA_BIT_XOR = 10
  integer(c_int), parameter :: TCA_EQ = 1, TCA_NE = 2, TCA_GT = 3, TCA_GE = 4, TCA_LT = 5, TCA_LE = 6

  interface ! ---- sessions and groups
    ! Without group, rank and size: those of the launcher.
    subroutine tca_open(session, group, rank, size, name, timeout_ns, ierror) bind(C, name="tca_f_open")
      import
      type(tca_session), intent(out) :: session
      character(kind=c_char, len=*), intent(in), optional :: group, name
      integer(c_int), intent(in), optional :: rank, size
      integer(c_int64_t), intent(in), optional :: timeout_ns
      integer(c_int), intent(out), optional :: ierror
    end subroutine

    subroutine tca_close(session) bind(C, name="tca_f_close")
      import
      type(tca_session), intent(inout) :: session
    end subroutine

    ! Of the group, or of the session.
    pure integer(c_int) function tca_rank(session, group) bind(C, name="tca_f_rank")
      import
      type(tca_session), intent(in) :: session
      type(tca_group), intent(in), optional :: group
    end function
    pure integer(c_int) function tca_size(session, group) bind(C, name="tca_f_size")
      import
      type(tca_session), intent(in) :: session
      type(tca_group), intent(in), optional :: group
    end function

    ! Node of a rank; without one, of this process.
    pure integer(c_int) function tca_node(session, rank) bind(C, name="tca_f_node")
      import
      type(tca_session), intent(in) :: session
      integer(c_int), intent(in), optional :: rank
    end function

    subroutine tca_barrier(session, group, timeout_ns, ierror) bind(C, name="tca_f_barrier")
      import
      type(tca_session), intent(in) :: session
      type(tca_group), intent(in), optional :: group
      integer(c_int64_t), intent(in), optional :: timeout_ns
      integer(c_int), intent(out), optional :: ierror
    end subroutine

    ! `value` of every rank, at most 4096 bytes, in `all`, in rank order. For set-up: handles, for example.
    subroutine tca_allgather(session, value, all, group, timeout_ns, ierror) bind(C, name="tca_f_allgather")
      import
      type(tca_session), intent(in) :: session
      type(*), dimension(..), intent(in) :: value
      type(*), dimension(..), intent(inout) :: all
      type(tca_group), intent(in), optional :: group
      integer(c_int64_t), intent(in), optional :: timeout_ns
      integer(c_int), intent(out), optional :: ierror
    end subroutine

    ! colour < 0: no group.
    subroutine tca_group_split(session, colour, key, group, parent, timeout_ns, ierror) bind(C, name="tca_f_group_split")
      import
      type(tca_session), intent(in) :: session
      integer(c_int), value :: colour, key
      type(tca_group), intent(out) :: group
      type(tca_group), intent(in), optional :: parent
      integer(c_int64_t), intent(in), optional :: timeout_ns
      integer(c_int), intent(out), optional :: ierror
    end subroutine
    subroutine tca_group_free(group) bind(C, name="tca_f_group_free")
      import
      type(tca_group), intent(inout) :: group
    end subroutine
  end interface

  interface ! ---- memory
    ! Shares an array that the program has, in place, until tca_region_free().
    subroutine tca_region_attach(session, array, region, ierror) bind(C, name="tca_f_region_attach")
      import
      type(tca_session), intent(in) :: session
      type(*), dimension(..), intent(in), asynchronous :: array
      type(tca_region), intent(out) :: region
      integer(c_int), intent(out), optional :: ierror
    end subroutine
    subroutine tca_region_free(region, ierror) bind(C, name="tca_f_region_free")
      import
      type(tca_region), intent(inout) :: region
      integer(c_int), intent(out), optional :: ierror
    end subroutine

    ! Memory of tca_alloc(). The pointer must not be used afterwards.
    subroutine tca_free(session, array, ierror) bind(C, name="tca_f_free")
      import
      type(tca_session), intent(in) :: session
      type(*), dimension(..), intent(in) :: array
      integer(c_int), intent(out), optional :: ierror
    end subroutine

    subroutine tca_handle_of(session, array, handle, ierror) bind(C, name="tca_f_handle_of")
      import
      type(tca_session), intent(in) :: session
      type(*), dimension(..), intent(in), asynchronous :: array
      type(tca_handle), intent(out) :: handle
      integer(c_int), intent(out), optional :: ierror
    end subroutine

    ! first:last:step of each dimension of what a handle names, from 1 on. Without `step`: 1.
    subroutine tca_section(handle, first, last, section, step, ierror) bind(C, name="tca_f_section")
      import
      type(tca_handle), intent(in) :: handle
      integer(c_int), intent(in) :: first(*), last(*)
      type(tca_handle), intent(out) :: section
      integer(c_int), intent(in), optional :: step(*)
      integer(c_int), intent(out), optional :: ierror
    end subroutine

    ! Tells the compiler that the array may have changed.
    subroutine tca_sync(array) bind(C, name="tca_f_sync")
      import
      type(*), dimension(..), intent(inout), asynchronous :: array
    end subroutine
  end interface

  interface tca_alloc ! array(shape(1), shape(2), ...) in memory of the session; free it with tca_free()
    subroutine tca_alloc_r4_1(session, array, shape, ierror) bind(C, name="tca_f_alloc")
      import
      type(tca_session), intent(in) :: session
      real(c_float), pointer, intent(inout) :: array(:)
      integer(c_int64_t), intent(in) :: shape(1)
      integer(c_int), intent(out), optional :: ierror
    end subroutine

    subroutine tca_alloc_r4_2(session, array, shape, ierror) bind(C, name="tca_f_alloc")
      import
      type(tca_session), intent(in) :: session
      real(c_float), pointer, intent(inout) :: array(:,:)
      integer(c_int64_t), intent(in) :: shape(2)
      integer(c_int), intent(out), optional :: ierror
    end subroutine

    subroutine tca_alloc_r4_3(session, array, shape, ierror) bind(C, name="tca_f_alloc")
      import
      type(tca_session), intent(in) :: session
      real(c_float), pointer, intent(inout) :: array(:,:,:)
      integer(c_int64_t), intent(in) :: shape(3)
      integer(c_int), intent(out), optional :: ierror
    end subroutine

    subroutine tca_alloc_r4_4(session, array, shape, ierror) bind(C, name="tca_f_alloc")
      import
      type(tca_session), intent(in) :: session
      real(c_float), pointer, intent(inout) :: array(:,:,:,:)
      integer(c_int64_t), intent(in) :: shape(4)
      integer(c_int), intent(out), optional :: ierror
    end subroutine

    subroutine tca_alloc_r8_1(session, array, shape, ierror) bind(C, name="tca_f_alloc")
      import
      type(tca_session), intent(in) :: session
      real(c_double), pointer, intent(inout) :: array(:)
      integer(c_int64_t), intent(in) :: shape(1)
      integer(c_int), intent(out), optional :: ierror
    end subroutine

    subroutine tca_alloc_r8_2(session, array, shape, ierror) bind(C, name="tca_f_alloc")
      import
      type(tca_session), intent(in) :: session
      real(c_double), pointer, intent(inout) :: array(:,:)
      integer(c_int64_t), intent(in) :: shape(2)
      integer(c_int), intent(out), optional :: ierror
    end subroutine

    subroutine tca_alloc_r8_3(session, array, shape, ierror) bind(C, name="tca_f_alloc")
      import
      type(tca_session), intent(in) :: session
      real(c_double), pointer, intent(inout) :: array(:,:,:)
      integer(c_int64_t), intent(in) :: shape(3)
      integer(c_int), intent(out), optional :: ierror
    end subroutine

    subroutine tca_alloc_r8_4(session, array, shape, ierror) bind(C, name="tca_f_alloc")
      import
      type(tca_session), intent(in) :: session
      real(c_double), pointer, intent(inout) :: array(:,:,:,:)
      integer(c_int64_t), intent(in) :: shape(4)
      integer(c_int), intent(out), optional :: ierror
    end subroutine

    subroutine tca_alloc_i4_1(session, array, shape, ierror) bind(C, name="tca_f_alloc")
      import
      type(tca_session), intent(in) :: session
      integer(c_int32_t), pointer, intent(inout) :: array(:)
      integer(c_int64_t), intent(in) :: shape(1)
      integer(c_int), intent(out), optional :: ierror
    end subroutine

    subroutine tca_alloc_i4_2(session, array, shape, ierror) bind(C, name="tca_f_alloc")
      import
      type(tca_session), intent(in) :: session
      integer(c_int32_t), pointer, intent(inout) :: array(:,:)
      integer(c_int64_t), intent(in) :: shape(2)
      integer(c_int), intent(out), optional :: ierror
    end subroutine

    subroutine tca_alloc_i4_3(session, array, shape, ierror) bind(C, name="tca_f_alloc")
      import
      type(tca_session), intent(in) :: session
      integer(c_int32_t), pointer, intent(inout) :: array(:,:,:)
      integer(c_int64_t), intent(in) :: shape(3)
      integer(c_int), intent(out), optional :: ierror
    end subroutine

    subroutine tca_alloc_i4_4(session, array, shape, ierror) bind(C, name="tca_f_alloc")
      import
      type(tca_session), intent(in) :: session
      integer(c_int32_t), pointer, intent(inout) :: array(:,:,:,:)
      integer(c_int64_t), intent(in) :: shape(4)
      integer(c_int), intent(out), optional :: ierror
    end subroutine

    subroutine tca_alloc_i8_1(session, array, shape, ierror) bind(C, name="tca_f_alloc")
      import
      type(tca_session), intent(in) :: session
      integer(c_int64_t), pointer, intent(inout) :: array(:)
      integer(c_int64_t), intent(in) :: shape(1)
      integer(c_int), intent(out), optional :: ierror
    end subroutine

    subroutine tca_alloc_i8_2(session, array, shape, ierror) bind(C, name="tca_f_alloc")
      import
      type(tca_session), intent(in) :: session
      integer(c_int64_t), pointer, intent(inout) :: array(:,:)
      integer(c_int64_t), intent(in) :: shape(2)
      integer(c_int), intent(out), optional :: ierror
    end subroutine

    subroutine tca_alloc_i8_3(session, array, shape, ierror) bind(C, name="tca_f_alloc")
      import
      type(tca_session), intent(in) :: session
      integer(c_int64_t), pointer, intent(inout) :: array(:,:,:)
      integer(c_int64_t), intent(in) :: shape(3)
      integer(c_int), intent(out), optional :: ierror
    end subroutine

    subroutine tca_alloc_i8_4(session, array, shape, ierror) bind(C, name="tca_f_alloc")
      import
      type(tca_session), intent(in) :: session
      integer(c_int64_t), pointer, intent(inout) :: array(:,:,:,:)
      integer(c_int64_t), intent(in) :: shape(4)
      integer(c_int), intent(out), optional :: ierror
    end subroutine

    subroutine tca_alloc_c16_1(session, array, shape, ierror) bind(C, name="tca_f_alloc")
      import
      type(tca_session), intent(in) :: session
      complex(c_double_complex), pointer, intent(inout) :: array(:)
      integer(c_int64_t), intent(in) :: shape(1)
      integer(c_int), intent(out), optional :: ierror
    end subroutine

    subroutine tca_alloc_c16_2(session, array, shape, ierror) bind(C, name="tca_f_alloc")
      import
      type(tca_session), intent(in) :: session
      complex(c_double_complex), pointer, intent(inout) :: array(:,:)
      integer(c_int64_t), intent(in) :: shape(2)
      integer(c_int), intent(out), optional :: ierror
    end subroutine

    subroutine tca_alloc_c16_3(session, array, shape, ierror) bind(C, name="tca_f_alloc")
      import
      type(tca_session), intent(in) :: session
      complex(c_double_complex), pointer, intent(inout) :: array(:,:,:)
      integer(c_int64_t), intent(in) :: shape(3)
      integer(c_int), intent(out), optional :: ierror
    end subroutine

    subroutine tca_alloc_c16_4(session, array, shape, ierror) bind(C, name="tca_f_alloc")
      import
      type(tca_session), intent(in) :: session
      complex(c_double_complex), pointer, intent(inout) :: array(:,:,:,:)
      integer(c_int64_t), intent(in) :: shape(4)
      integer(c_int), intent(out), optional :: ierror
    end subroutine
  end interface

  interface ! ---- plans
    subroutine tca_plan_new(session, plan, name, rail, seat, channel, flags, group, ierror) bind(C, name="tca_f_plan_new")
      import
      type(tca_session), intent(in) :: session
      type(tca_plan), intent(out) :: plan
      character(kind=c_char, len=*), intent(in), optional :: name, rail
      integer(c_int), intent(in), optional :: seat, channel, flags
      type(tca_group), intent(in), optional :: group
      integer(c_int), intent(out), optional :: ierror
    end subroutine

    ! Puts the elements of an array, or a section, to those that the handle names, in Fortran's order.
    subroutine tca_plan_put(plan, source, target, ordered, ierror) bind(C, name="tca_f_plan_put")
      import
      type(tca_plan), intent(in) :: plan
      type(*), dimension(..), intent(in), asynchronous :: source
      type(tca_handle), intent(in) :: target
      integer(c_int), intent(in), optional :: ordered
      integer(c_int), intent(out), optional :: ierror
    end subroutine

    subroutine tca_plan_notify(plan, rank, slot, ierror) bind(C, name="tca_f_plan_notify")
      import
      type(tca_plan), intent(in) :: plan
      integer(c_int), value :: rank, slot
      integer(c_int), intent(out), optional :: ierror
    end subroutine
    subroutine tca_plan_wait(plan, rank, slot, count, ierror) bind(C, name="tca_f_plan_wait")
      import
      type(tca_plan), intent(in) :: plan
      integer(c_int), value :: rank, slot
      integer(c_int64_t), value :: count
      integer(c_int), intent(out), optional :: ierror
    end subroutine
    ! Adds to the counter, an integer(c_int64_t), that the handle names.
    subroutine tca_plan_signal(plan, counter, value, ierror) bind(C, name="tca_f_plan_signal")
      import
      type(tca_plan), intent(in) :: plan
      type(tca_handle), intent(in) :: counter
      integer(c_int64_t), value :: value
      integer(c_int), intent(out), optional :: ierror
    end subroutine
    subroutine tca_plan_flush(plan, ierror) bind(C, name="tca_f_plan_flush")
      import
      type(tca_plan), intent(in) :: plan
      integer(c_int), intent(out), optional :: ierror
    end subroutine
    subroutine tca_plan_chain(plan, ierror) bind(C, name="tca_f_plan_chain")
      import
      type(tca_plan), intent(in) :: plan
      integer(c_int), intent(out), optional :: ierror
    end subroutine
    subroutine tca_plan_commit(plan, timeout_ns, ierror) bind(C, name="tca_f_plan_commit")
      import
      type(tca_plan), intent(in) :: plan
      integer(c_int64_t), intent(in), optional :: timeout_ns
      integer(c_int), intent(out), optional :: ierror
    end subroutine
    subroutine tca_plan_free(plan) bind(C, name="tca_f_plan_free")
      import
      type(tca_plan), intent(inout) :: plan
    end subroutine

    subroutine tca_notified_wait(session, rank, slot, timeout_ns, ierror) bind(C, name="tca_f_notified_wait")
      import
      type(tca_session), intent(in) :: session
      integer(c_int), value :: rank, slot
      integer(c_int64_t), intent(in), optional :: timeout_ns
      integer(c_int), intent(out), optional :: ierror
    end subroutine
    ! 1: one notification was taken; 0: there is none.
    integer(c_int) function tca_notified(session, rank, slot, ierror) bind(C, name="tca_f_notified")
      import
      type(tca_session), intent(in) :: session
      integer(c_int), value :: rank, slot
      integer(c_int), intent(out), optional :: ierror
    end function
    subroutine tca_signal_wait_until(session, counter, compare, value, timeout_ns, ierror) bind(C, name="tca_f_signal_wait_until")
      import
      type(tca_session), intent(in) :: session
      integer(c_int64_t), intent(in), asynchronous :: counter
      integer(c_int), value :: compare
      integer(c_int64_t), value :: value
      integer(c_int64_t), intent(in), optional :: timeout_ns
      integer(c_int), intent(out), optional :: ierror
    end subroutine
  end interface

  interface ! ---- halo exchanges
    ! Of an array that contains its halo, on a grid of processes whose first index varies fastest. The grid's
    ! dimensions are the array's last ones; earlier ones belong to the elements, and so do all of the halo's
    ! `low` and `high`, which are as long as the grid. With `other`, a second array like it, the two are exchanged in turn.
    subroutine tca_halo_new(session, halo, grid, array, low, high, periodic, diagonals, other, seat, group, ierror) &
        bind(C, name="tca_f_halo_new")
      import
      type(tca_session), intent(in) :: session
      type(tca_halo), intent(out) :: halo
      integer(c_int), intent(in) :: grid(:), low(:), high(:)
      type(*), dimension(..), intent(inout), asynchronous :: array
      integer(c_int), intent(in), optional :: periodic(:), diagonals
      type(*), dimension(..), intent(inout), asynchronous, optional :: other
      integer(c_int), intent(in), optional :: seat
      type(tca_group), intent(in), optional :: group
      integer(c_int), intent(out), optional :: ierror
    end subroutine
    ! 1: `array` is exchanged next; 2: `other`.
    integer(c_int) function tca_halo_buffer(halo) bind(C, name="tca_f_halo_buffer")
      import
      type(tca_halo), intent(in) :: halo
    end function
  end interface

  interface ! ---- collective operations
    subroutine tca_coll_barrier(session, coll, group, ierror) bind(C, name="tca_f_coll_barrier")
      import
      type(tca_session), intent(in) :: session
      type(tca_coll), intent(out) :: coll
      type(tca_group), intent(in), optional :: group
      integer(c_int), intent(out), optional :: ierror
    end subroutine
    subroutine tca_coll_broadcast(session, array, root, coll, group, ierror) bind(C, name="tca_f_coll_broadcast")
      import
      type(tca_session), intent(in) :: session
      type(*), dimension(..), intent(inout), asynchronous :: array
      integer(c_int), value :: root
      type(tca_coll), intent(out) :: coll
      type(tca_group), intent(in), optional :: group
      integer(c_int), intent(out), optional :: ierror
    end subroutine
    subroutine tca_coll_allgather(session, in, out, coll, group, ierror) bind(C, name="tca_f_coll_allgather")
      import
      type(tca_session), intent(in) :: session
      type(*), dimension(..), intent(in), asynchronous :: in
      type(*), dimension(..), intent(inout), asynchronous :: out
      type(tca_coll), intent(out) :: coll
      type(tca_group), intent(in), optional :: group
      integer(c_int), intent(out), optional :: ierror
    end subroutine
    subroutine tca_coll_alltoall(session, in, out, coll, group, ierror) bind(C, name="tca_f_coll_alltoall")
      import
      type(tca_session), intent(in) :: session
      type(*), dimension(..), intent(in), asynchronous :: in
      type(*), dimension(..), intent(inout), asynchronous :: out
      type(tca_coll), intent(out) :: coll
      type(tca_group), intent(in), optional :: group
      integer(c_int), intent(out), optional :: ierror
    end subroutine
    ! op: TCA_SUM, ... Reals, integers and complex numbers.
    subroutine tca_coll_allreduce(session, in, out, op, coll, group, ierror) bind(C, name="tca_f_coll_allreduce")
      import
      type(tca_session), intent(in) :: session
      type(*), dimension(..), intent(in), asynchronous :: in
      type(*), dimension(..), intent(inout), asynchronous :: out
      integer(c_int), value :: op
      type(tca_coll), intent(out) :: coll
      type(tca_group), intent(in), optional :: group
      integer(c_int), intent(out), optional :: ierror
    end subroutine
    subroutine tca_coll_reduce(session, in, out, op, root, coll, group, ierror) bind(C, name="tca_f_coll_reduce")
      import
      type(tca_session), intent(in) :: session
      type(*), dimension(..), intent(in), asynchronous :: in
      type(*), dimension(..), intent(inout), asynchronous :: out
      integer(c_int), value :: op, root
      type(tca_coll), intent(out) :: coll
      type(tca_group), intent(in), optional :: group
      integer(c_int), intent(out), optional :: ierror
    end subroutine
  end interface

  interface ! ---- messages
    subroutine tca_msg_new(session, msg, group, ierror) bind(C, name="tca_f_msg_new")
      import
      type(tca_session), intent(in) :: session
      type(tca_msg), intent(out) :: msg
      type(tca_group), intent(in), optional :: group
      integer(c_int), intent(out), optional :: ierror
    end subroutine
    subroutine tca_msg_free(msg) bind(C, name="tca_f_msg_free")
      import
      type(tca_msg), intent(inout) :: msg
    end subroutine
    ! Any array or section, in any memory. tca_wait() waits for the request and releases it.
    subroutine tca_msg_send(msg, array, rank, tag, request, ierror) bind(C, name="tca_f_msg_send")
      import
      type(tca_msg), intent(in) :: msg
      type(*), dimension(..), intent(in), asynchronous :: array
      integer(c_int), value :: rank, tag
      type(tca_request), intent(out) :: request
      integer(c_int), intent(out), optional :: ierror
    end subroutine
    subroutine tca_msg_recv(msg, array, rank, tag, request, ierror) bind(C, name="tca_f_msg_recv")
      import
      type(tca_msg), intent(in) :: msg
      type(*), dimension(..), intent(inout), asynchronous :: array
      integer(c_int), value :: rank, tag
      type(tca_request), intent(out) :: request
      integer(c_int), intent(out), optional :: ierror
    end subroutine
  end interface

  ! ---- what can be started, tested and waited for
  interface tca_start ! starts a plan, an exchange, an operation
    subroutine tca_start_plan(plan, ierror) bind(C, name="tca_f_plan_start")
      import
      type(tca_plan), intent(in) :: plan
      integer(c_int), intent(out), optional :: ierror
    end subroutine
    subroutine tca_start_halo(halo, ierror) bind(C, name="tca_f_halo_start")
      import
      type(tca_halo), intent(in) :: halo
      integer(c_int), intent(out), optional :: ierror
    end subroutine
    subroutine tca_start_coll(coll, ierror) bind(C, name="tca_f_coll_start")
      import
      type(tca_coll), intent(in) :: coll
      integer(c_int), intent(out), optional :: ierror
    end subroutine
  end interface
  interface tca_test ! 1: the last start, or the request, is complete; 0: not yet
    integer(c_int) function tca_test_plan(plan, ierror) bind(C, name="tca_f_plan_test")
      import
      type(tca_plan), intent(in) :: plan
      integer(c_int), intent(out), optional :: ierror
    end function
    integer(c_int) function tca_test_halo(halo, ierror) bind(C, name="tca_f_halo_test")
      import
      type(tca_halo), intent(in) :: halo
      integer(c_int), intent(out), optional :: ierror
    end function
    integer(c_int) function tca_test_coll(coll, ierror) bind(C, name="tca_f_coll_test")
      import
      type(tca_coll), intent(in) :: coll
      integer(c_int), intent(out), optional :: ierror
    end function
    integer(c_int) function tca_test_request(request, ierror) bind(C, name="tca_f_request_test")
      import
      type(tca_request), intent(inout) :: request
      integer(c_int), intent(out), optional :: ierror
    end function
  end interface
  interface tca_wait ! until the last start is complete; a request is then released
    subroutine tca_wait_plan(plan, timeout_ns, ierror) bind(C, name="tca_f_plan_wait_for")
      import
      type(tca_plan), intent(in) :: plan
      integer(c_int64_t), intent(in), optional :: timeout_ns
      integer(c_int), intent(out), optional :: ierror
    end subroutine
    subroutine tca_wait_halo(halo, timeout_ns, ierror) bind(C, name="tca_f_halo_wait")
      import
      type(tca_halo), intent(in) :: halo
      integer(c_int64_t), intent(in), optional :: timeout_ns
      integer(c_int), intent(out), optional :: ierror
    end subroutine
    subroutine tca_wait_coll(coll, timeout_ns, ierror) bind(C, name="tca_f_coll_wait")
      import
      type(tca_coll), intent(in) :: coll
      integer(c_int64_t), intent(in), optional :: timeout_ns
      integer(c_int), intent(out), optional :: ierror
    end subroutine
    subroutine tca_wait_request(request, status, timeout_ns, ierror) bind(C, name="tca_f_request_wait")
      import
      type(tca_request), intent(inout) :: request
      type(tca_status), intent(out), optional :: status
      integer(c_int64_t), intent(in), optional :: timeout_ns
      integer(c_int), intent(out), optional :: ierror
    end subroutine
  end interface
  interface
    subroutine tca_halo_free(halo) bind(C, name="tca_f_halo_free")
      import
      type(tca_halo), intent(inout) :: halo
    end subroutine
    subroutine tca_coll_free(coll) bind(C, name="tca_f_coll_free")
      import
      type(tca_coll), intent(inout) :: coll
    end subroutine
  end interface

  interface ! ---- the text of the last error
    type(c_ptr) function c_error_text() bind(C, name="tca_f_error_text")
      import
    end function
    pure integer(c_size_t) function c_strlen(text) bind(C, name="tca_f_length")
      import
      type(c_ptr), value :: text
    end function
  end interface

contains

  ! What is wrong with this thread's last call that failed, and what to do.
  function tca_error_text() result(text)
    character(len=:), allocatable :: text
    character(kind=c_char), pointer :: chars(:)
    type(c_ptr) :: said
    integer :: i

    said = c_error_text()
    call c_f_pointer(said, chars, [c_strlen(said)])
    allocate (character(len=size(chars)) :: text)
    do i = 1, size(chars)
      text(i:i) = chars(i)
    end do
  end function

end module tca
