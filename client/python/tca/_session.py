"""Sessions and groups."""

from __future__ import annotations

import os
import pickle
import weakref
from typing import Any, Iterable, Optional

import numpy as np

from . import _base
from ._base import DEFAULT, Timeout, check, nanoseconds, optional, text
from ._coll import Collectives
from ._memory import Array, ArrayHandle, Blocks, Region, address_of, buffer_of, span_of
from ._msg import Messenger
from ._native import ffi, lib
from ._plan import Counter, Plan, plan_args

_sessions: "weakref.WeakSet[Session]" = weakref.WeakSet()
_PAGE = os.sysconf("SC_PAGE_SIZE")


class _Ranks(Collectives):
    """What sessions and groups have in common."""

    __slots__ = ()

    session: "Session"
    rank: int
    size: int

    def _group(self) -> Any:
        raise NotImplementedError

    def _allgather(self, data: bytes, timeout: Timeout) -> list[bytes]:
        everybody = ffi.new("char[]", max(1, self.size * len(data)))
        session = self.session._open()
        group = self._group()
        if group == ffi.NULL:
            check(lib.tca_allgather(session, data, len(data), everybody, nanoseconds(timeout)))
        else:
            check(lib.tca_group_allgather(group, data, len(data), everybody, nanoseconds(timeout)))
        whole = bytes(ffi.buffer(everybody, self.size * len(data)))
        return [whole[rank * len(data):(rank + 1) * len(data)] for rank in range(self.size)]

    def allgather(self, value: Any, timeout: Timeout = DEFAULT) -> list[Any]:
        """What every rank has given, by rank: any objects that can be pickled, such as handles; each at most 4096 bytes then.
        Collective; takes milliseconds. For data, see Allgather_init()."""
        pickled = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        # An object that is too long must not leave the others waiting: all hear of it.
        lengths = [int.from_bytes(each, "little") for each in self._allgather(len(pickled).to_bytes(8, "little"), timeout)]
        most = max(lengths)
        if most > 4096:
            raise ValueError(f"the object of rank {lengths.index(most)} takes {most} bytes pickled; 4096 is the limit")
        return [pickle.loads(each) for each in self._allgather(pickled.ljust(most, b"\0"), timeout)]

    def barrier(self, timeout: Timeout = DEFAULT) -> None:
        """Returns when all ranks have called it. Takes milliseconds; Barrier_init() makes one that takes microseconds."""
        group = self._group()
        if group == ffi.NULL:
            check(lib.tca_barrier(self.session._open(), nanoseconds(timeout)))
        else:
            check(lib.tca_group_barrier(group, nanoseconds(timeout)))

    def split(self, colour: Optional[int], key: int = 0, timeout: Timeout = DEFAULT) -> Optional["Group"]:
        """Divides these ranks: those with the same colour are a group, in the order of keys, then of ranks. None as the colour: no
        group, and None is returned. Collective."""
        made = ffi.new("struct tca_group **")
        check(lib.tca_group_split(self.session._open(), self._group(), 0xFFFFFFFF if colour is None else colour, key, nanoseconds(timeout),
                                  made))
        return None if made[0] == ffi.NULL else Group(self.session, made[0])

    def shrink(self, timeout: Timeout = DEFAULT) -> "Group":
        """A group of those that have not ended, after an error EOWNERDEAD or EHOSTDOWN. Collective for them."""
        made = ffi.new("struct tca_group **")
        check(lib.tca_group_shrink(self.session._open(), self._group(), nanoseconds(timeout), made))
        return Group(self.session, made[0])

    def messenger(self, **options: Any) -> Messenger:
        """Two-sided messages between these ranks. Collective. Options: as of Session.plan()."""
        return Messenger(self, **options)

    def __repr__(self) -> str:
        return f"<tca.{type(self).__name__} rank {self.rank} of {self.size}>"


class Group(_Ranks):
    """Some of a session's ranks, with ranks of their own: split()."""

    __slots__ = ("session", "_pointer", "rank", "size", "__weakref__")

    def __init__(self, session: "Session", pointer: Any):
        self.session, self._pointer = session, pointer
        self.rank, self.size = lib.tca_group_rank(pointer), lib.tca_group_size(pointer)

    def _group(self) -> Any:
        self.session._open()
        if self._pointer is None:
            raise ValueError("this group has been freed")
        return self._pointer

    def rank_in_session(self, rank: int) -> int:
        return check(lib.tca_group_rank_in_session(self._group(), rank))

    def rank_of(self, session_rank: int) -> Optional[int]:
        """The rank here of a rank of the session; None: it is not in the group."""
        result = lib.tca_group_rank_of(self._group(), session_rank)
        return None if result == -_base.errno.ENOENT else check(result)

    def free(self) -> None:
        if self._pointer is not None and not self.session.closed:
            lib.tca_group_free(self._pointer)
        self._pointer = None

    def __enter__(self) -> "Group":
        return self

    def __exit__(self, *_: Any) -> None:
        self.free()


class Session(_Ranks):
    """A connection to the tcad of this node, and membership in a group of processes: tca.open().

    It and all that is made from it may be used by one thread at a time. A child of fork() must not use its parent's sessions."""

    __slots__ = ("_pointer", "_pid", "_plans", "_regions", "_closers", "_reached", "_blocks", "_default_ns", "rank", "size", "__weakref__")

    def __init__(self, group: Optional[str] = None, rank: int = 0, size: int = 0, *, name: Optional[str] = None,
                 socket: Optional[str] = None, timeout: Optional[float] = None):
        strings = [optional(each) for each in (socket, group, name)]
        args = ffi.new("struct tca_open_args *", {"socket": strings[0], "group": strings[1], "rank": rank, "size": size, "name": strings[2],
                                                  "timeout_ns": 0 if timeout is None else nanoseconds(timeout)})
        made = ffi.new("struct tca **")
        self._pointer = None
        check(lib.tca_open(args, made))
        self._pointer, self._pid = made[0], os.getpid()
        self._plans: "weakref.WeakSet[Any]" = weakref.WeakSet()
        self._closers: "weakref.WeakSet[Any]" = weakref.WeakSet()
        self._regions: "weakref.WeakSet[Region]" = weakref.WeakSet()
        self._reached: set[tuple[int, int]] = set()  # address and bytes of memory of other ranks
        self._blocks = Blocks(self)
        try:
            default_s = float(os.environ.get("TCA_TIMEOUT", "").removesuffix("s") or 10)
        except ValueError:
            default_s = 10.0
        self._default_ns = int((timeout if timeout is not None else default_s) * 1e9)
        self.rank, self.size = lib.tca_rank(self._pointer), lib.tca_size(self._pointer)
        _sessions.add(self)

    # ---- life

    @property
    def session(self) -> "Session":  # type: ignore[override]
        return self

    def _group(self) -> Any:
        return ffi.NULL

    def _open(self) -> Any:
        if self._pointer is None:
            raise ValueError("this session is closed")
        return self._pointer

    @property
    def closed(self) -> bool:
        return self._pointer is None

    def close(self) -> None:
        """Waits for starts in flight, at most the session's time-out, and leaves the group. Arrays in its memory remain valid and keep
        their contents, but are no longer shared. Closing it again does nothing."""
        if self._pointer is None:
            return
        if os.getpid() != self._pid:
            self._pointer = None  # the parent's
            return
        for each in list(self._closers):
            each.free()
        for plan in list(self._plans):
            plan.free()
        ranges = self._blocks.live() + list(self._reached)
        ranges += [(region.address, region.nbytes) for region in self._regions if region._owner is not None and region._owner() is not None
                   and region._kept is None]
        pointer, self._pointer = self._pointer, None
        held = []
        for begin, end in _pages(ranges):
            copy = lib.tca_python_hold(ffi.cast("void *", begin), end - begin)
            if copy == ffi.NULL:
                self._pointer = pointer
                raise MemoryError(f"cannot map {end - begin} bytes of arrays that outlive their session")
            held.append((copy, begin, end - begin))
        lib.tca_close(pointer)
        for copy, begin, nbytes in held:
            if lib.tca_python_put_back(copy, ffi.cast("void *", begin), nbytes) < 0:
                # Arrays would point to other memory: nothing that goes on is safe.
                os.abort()
        for region in self._regions:
            region._pointer = None

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    # ---- what it is

    @property
    def node(self) -> int:
        return lib.tca_node(self._open())

    @property
    def node_name(self) -> str:
        return text(lib.tca_node_name(self._open()))

    def node_of(self, rank: int) -> int:
        return check(lib.tca_node_of(self._open(), rank))

    def subcluster_of(self, rank: int) -> int:
        return check(lib.tca_subcluster_of(self._open(), rank))

    def fileno(self) -> int:
        """Readable while events of tcad are pending; then call dispatch()."""
        return lib.tca_event_fd(self._open())

    def dispatch(self) -> None:
        """Processes events of tcad and advances running starts, without waiting."""
        check(lib.tca_dispatch(self._open()))

    # ---- memory

    def empty(self, shape: Any, dtype: Any = np.float64) -> Array:
        """An array in memory that other ranks can put into. It lasts as long as an array views it: keep it while others put there."""
        return self._blocks.empty(shape, np.dtype(dtype))

    def zeros(self, shape: Any, dtype: Any = np.float64) -> Array:
        array = self.empty(shape, dtype)
        array.fill(0)
        return array

    def full(self, shape: Any, value: Any, dtype: Any = None) -> Array:
        array = self.empty(shape, np.asarray(value).dtype if dtype is None else dtype)
        array.fill(value)
        return array

    def array(self, values: Any, dtype: Any = None) -> Array:
        """A copy of `values` in memory of the session."""
        values = np.asarray(values, dtype)
        array = self.empty(values.shape, values.dtype)
        array[...] = values
        return array

    def region(self, nbytes: int) -> Region:
        """Zeroed memory, at the same address in all ranks of this node."""
        made = ffi.new("struct tca_region **")
        check(lib.tca_region_alloc(self._open(), nbytes, made))
        return Region(self, made[0])

    def attach(self, memory: Any) -> Region:
        """Shares memory that the program has already, in place, such as an array of any library: the region keeps it. Costs a copy:
        attach once, not for each transfer."""
        array = buffer_of(memory, writable=True)
        low, high = span_of(array.shape, array.strides, array.itemsize)
        made = ffi.new("struct tca_region **")
        check(lib.tca_region_attach(self._open(), ffi.cast("void *", address_of(array) + low), high - low, made))
        return Region(self, made[0], kept=(memory, array))

    def import_dmabuf(self, descriptor: int, offset: int, nbytes: int) -> Region:
        """Memory of a device, which its driver has exported as a dmabuf."""
        made = ffi.new("struct tca_region **")
        check(lib.tca_region_import(self._open(), descriptor, offset, nbytes, made))
        return Region(self, made[0])

    def handle(self, array: Any) -> ArrayHandle:
        """Names the elements of an array in memory of this session: of session.empty(), or attached."""
        array = buffer_of(array)
        low, high = span_of(array.shape, array.strides, array.itemsize)
        made = ffi.new("struct tca_handle *")
        check(lib.tca_handle_of(self._open(), ffi.cast("void *", address_of(array) + low), max(1, high - low), made))
        return ArrayHandle(bytes(ffi.buffer(made)), -low, array.shape, array.strides, array.dtype)

    def reach(self, handle: ArrayHandle) -> Array:
        """Another rank's array itself, in its memory on this node, to read and write in place instead of copying. Only notifications
        order accesses. Valid until the session is closed."""
        address = lib.tca_reach(self._open(), ffi.from_buffer("struct tca_handle *", handle._handle))
        if address == ffi.NULL:
            raise _base.error(-_base.errno.EOPNOTSUPP)
        nbytes = check(lib.tca_handle_bytes(ffi.from_buffer("struct tca_handle *", handle._handle)))
        base = int(ffi.cast("uintptr_t", address))
        self._reached.add((base, nbytes))
        whole = np.asarray(_Reached(self, base, nbytes))
        array = np.ndarray(handle.shape, handle.dtype, whole, handle.offset, handle.strides).view(Array)
        array._session = self
        return array

    def publish(self, name: str, array: Any) -> None:
        """Makes the handle of an array known to the group by a name; None withdraws it."""
        if array is None:
            check(lib.tca_publish(self._open(), os.fsencode(name), ffi.NULL))
            return
        handle = array if isinstance(array, ArrayHandle) else self.handle(array)
        check(lib.tca_publish(self._open(), os.fsencode(name), ffi.from_buffer("struct tca_handle *", handle._handle)))

    def lookup(self, name: str, timeout: Timeout = DEFAULT) -> ArrayHandle:
        """Waits until a rank has published the name. The handle is that of bytes: names carry neither shape nor type."""
        made = ffi.new("struct tca_handle *")
        check(lib.tca_lookup(self._open(), os.fsencode(name), nanoseconds(timeout), made))
        nbytes = check(lib.tca_handle_bytes(made))
        return ArrayHandle(bytes(ffi.buffer(made)), 0, (nbytes,), (1,), np.uint8)

    def counter(self) -> Counter:
        """A counter to which any rank can add: Plan.signal()."""
        return Counter(self)

    # ---- plans and notifications

    def plan(self, **options: Any) -> Plan:
        """A plan: add steps, commit it, and start it as often as needed. Options, all of which may be left out: name; rail ('tcp',
        'shm', ... or the name of one rail); seat ('client', 'daemon'); channel (0 to 3); group (a Group); timed, landed, prefer,
        repeat (True: the flags TCA_PLAN_* of tca.h); together."""
        return Plan(self, plan_args(**options))

    def notified(self, rank: int, slot: int = 0) -> bool:
        """Takes one notification of (rank, slot) if one has arrived."""
        return check(lib.tca_notified(self._open(), rank, slot)) > 0

    def notified_count(self, rank: int, slot: int = 0) -> int:
        return lib.tca_notified_count(self._open(), rank, slot)

    def wait_notified(self, rank: int, slot: int = 0, timeout: Timeout = None) -> None:
        """Waits for a notification of (rank, slot) and takes it: data put before it is there then."""
        pointer = self._open()
        if lib.tca_notified(pointer, rank, slot) <= 0:
            _base.wait(lambda ns: lib.tca_notified_wait(pointer, rank, slot, ns), timeout, self._default_ns)

    async def notification(self, rank: int, slot: int = 0, timeout: Timeout = None) -> None:
        """The same for coroutines."""
        pointer = self._open()
        await _base.wait_async(lambda: lib.tca_notified(pointer, rank, slot), self.fileno(), timeout, self._default_ns)

    def wait_notified_any(self, slot: int = 0, timeout: Timeout = None) -> int:
        """Waits for a notification in this slot from any rank, takes it, and returns the rank."""
        pointer, rank = self._open(), ffi.new("uint32_t *")
        _base.wait(lambda ns: lib.tca_notified_wait_any(pointer, slot, ns, rank), timeout, self._default_ns)
        return rank[0]


class _Reached:
    """What arrays in memory of another rank view."""

    def __init__(self, session: Session, address: int, nbytes: int):
        self.session = session
        self.__array_interface__ = {"version": 3, "data": (address, False), "shape": (nbytes,), "typestr": "|u1"}


def _pages(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The whole pages of ranges (address, bytes), from, up to. Ranges with a page in common are joined: they are in one mapping."""
    pages: list[tuple[int, int]] = []
    for address, nbytes in sorted(ranges):
        begin, end = address // _PAGE * _PAGE, -(-(address + nbytes) // _PAGE) * _PAGE
        if pages and begin < pages[-1][1]:
            pages[-1] = pages[-1][0], max(end, pages[-1][1])
        else:
            pages.append((begin, end))
    return pages


def open(group: Optional[str] = None, rank: int = 0, size: int = 0, **options: Any) -> Session:  # pylint: disable=redefined-builtin
    """Opens a session, and returns when all ranks of its group have. Without arguments, group, rank and size are those of the
    launcher: tca-cluster run, mpirun, srun and others. Options: name (for displays), socket (of the tcad), timeout (seconds)."""
    return Session(group, rank, size, **options)


def from_mpi(comm: Any, **options: Any) -> Session:
    """A session of the ranks of an mpi4py communicator. Collective."""
    name = comm.bcast(f"mpi4py-{os.getpid()}-{os.urandom(8).hex()}" if comm.rank == 0 else None)
    return Session(name, comm.rank, comm.size, **options)


def _in_child() -> None:
    for session in list(_sessions):
        session._pointer = None
        for plan in list(session._plans):
            plan._pointer = None


os.register_at_fork(after_in_child=_in_child)
