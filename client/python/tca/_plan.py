"""Plans: transfers that are described once and started many times."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any, Iterable, NamedTuple, Optional, Union

import numpy as np

from . import _base
from ._base import DEFAULT, Timeout, check, number, optional, text
from ._layout import Layout, type_of
from ._memory import ArrayHandle, address_of, buffer_of
from ._native import ffi, lib

if TYPE_CHECKING:
    from ._session import Group, Session

_FLAGS = {"timed": lib.TCA_PLAN_TIMED, "landed": lib.TCA_PLAN_LANDED, "prefer": lib.TCA_PLAN_PREFER, "repeat": lib.TCA_PLAN_REPEAT}
_DRIVERS = {"shm": lib.TCA_RAIL_SHM, "ofi": lib.TCA_RAIL_OFI, "hca": lib.TCA_RAIL_HCA, "peach2": lib.TCA_RAIL_PEACH2,
            "tcp": lib.TCA_RAIL_TCP}


def plan_args(*, name: Optional[str] = None, rail: Optional[str] = None, seat: Optional[str] = None, channel: int = 0,
              together: int = 0, group: Optional["Group"] = None, **flags: bool) -> Any:
    """struct tca_plan_args, and what it points to."""
    unknown = flags.keys() - _FLAGS.keys()
    if unknown:
        raise TypeError(f"{sorted(unknown)[0]!r} is not an option of plans")
    args = ffi.new("struct tca_plan_args *")
    kept = [optional(name), group]
    args.name = kept[0]
    if rail in _DRIVERS:
        args.rail = _DRIVERS[rail]
    elif rail is not None:
        kept.append(optional(rail))
        args.rail_name = kept[-1]
    args.seat = number("SEAT", seat)
    args.channel, args.together = channel, together
    args.flags = sum(_FLAGS[flag] for flag, wanted in flags.items() if wanted)
    if group is not None:
        args.group = group._group()
    return args, kept


class Receipt(NamedTuple):
    """What the last completed start of a plan did. Times are CLOCK_MONOTONIC in ns; 0: not recorded."""

    rail: str
    seat: str
    copy_method: str
    encryption: str
    trying: bool
    status: int
    descriptors: int
    retries: int
    hops: int
    bytes: int
    starts: int
    start_ns: int
    taken_ns: int
    posted_ns: int
    done_ns: int
    seen_ns: int


def receipt_of(receipt: Any) -> Receipt:
    return Receipt(text(receipt.rail_name) or text(lib.tca_rail_name(receipt.rail)), text(lib.tca_seat_name(receipt.seat)),
                   text(lib.tca_copy_method_name(receipt.copy_method)), text(lib.tca_encryption_name(receipt.encryption)),
                   bool(receipt.trying), receipt.status, receipt.descriptors, receipt.retries, receipt.hops, receipt.bytes,
                   receipt.starts, receipt.start_ns, receipt.taken_ns, receipt.posted_ns, receipt.done_ns, receipt.seen_ns)


class Plan:
    """A plan of a session, Session.plan(): add steps, commit() it, and start() it any number of times.

        with session.plan() as plan:
            plan.put(a[2:-2, 0:3], handle[..., 5:8])
            plan.notify(rank)
            plan.commit()
            for step in range(steps):
                plan.start()
                plan.wait()

    It keeps the arrays that it puts from. The methods that add steps return the plan."""

    __slots__ = ("_session", "_pointer", "_kept", "_number", "_name", "__weakref__")

    def __init__(self, session: "Session", args: Any):
        made = ffi.new("struct tca_plan **")
        check(lib.tca_plan_new(session._open(), args[0], made))
        self._session, self._pointer = session, made[0]
        self._kept: list[Any] = [args[1][1]]
        self._name = text(args[0].name) if args[0].name else None
        session._plans.add(self)

    # ---- steps

    def put(self, source: Any, target: ArrayHandle, *, ordered: bool = False, combine: Optional[str] = None,
            parts: bool = False) -> "Plan":
        """Puts the elements of an array, or of anything with the buffer protocol, in memory of the session, to those of the handle, in
        the order of their indices. Both have equally many bytes, and the same element types unless one has bytes (numpy.uint8). combine: 'sum',
        'max', ...: combines them with the elements there instead, on this node. ordered, parts: as in struct tca_put."""
        array = buffer_of(source)
        if not isinstance(target, ArrayHandle):
            raise TypeError(f"the target of a put is a handle (array.handle, of the rank that has the array), not {type(target).__name__}")
        if array.nbytes != target.nbytes and not parts:
            raise ValueError(f"the source has {array.nbytes} bytes (shape {array.shape}), the target {target.nbytes} (shape {target.shape})")
        if array.dtype != target.dtype and array.dtype.itemsize * array.size and not _bytes(array.dtype) and not _bytes(target.dtype):
            raise TypeError(f"the source is of {array.dtype}, the target of {target.dtype}: types are not converted")
        put = ffi.new("struct tca_put *")
        ffi.memmove(ffi.addressof(put, "target"), target._handle, 64)
        put.source_address = ffi.cast("void *", address_of(array))
        put.target_offset_bytes = target.offset
        put.ordered, put.parts = bool(ordered), bool(parts)
        kept = []
        if combine is not None:
            if not array.flags.c_contiguous or not target._view.flags.c_contiguous:
                raise ValueError("a reduction takes contiguous elements on both sides")
            kind = type_of(array.dtype)
            if kind is None:
                raise TypeError(f"elements of {array.dtype} cannot be combined")
            put.combine, put.type, put.bytes = number("COMBINE", combine), kind, array.nbytes
        else:
            kept = [Layout.of(array.shape, array.strides, array.dtype), Layout.of(target.shape, target.strides, target.dtype)]
            put.source_layout, put.target_layout = kept[0]._pointer, kept[1]._pointer
        check(lib.tca_plan_put(self._plan(), put))
        self._kept.append(source)
        return self

    def notify(self, rank: int, slot: int = 0) -> "Plan":
        """Then notifies a rank: the data of earlier puts of the chain to its node is there by then."""
        check(lib.tca_plan_notify(self._plan(), rank, slot))
        return self

    def wait_for(self, rank: int, slot: int = 0, count: int = 1) -> "Plan":
        """A step that waits: the chain goes on when so many notifications have arrived, and takes them."""
        check(lib.tca_plan_wait(self._plan(), rank, slot, count))
        return self

    def signal(self, counter: ArrayHandle, value: int = 1) -> "Plan":
        """Then adds to a counter (Session.counter(), its handle) of any rank."""
        check(lib.tca_plan_signal(self._plan(), ffi.from_buffer("struct tca_handle *", counter._handle), counter.offset, value))
        return self

    def wait_for_signal(self, counter: "Counter", value: int = 1) -> "Plan":
        """A step that waits: the chain goes on when the counter is at least `value`, and subtracts it."""
        check(lib.tca_plan_wait_signal(self._plan(), counter._pointer(), value))
        self._kept.append(counter)
        return self

    def flush(self) -> "Plan":
        """The chain goes on when the data of all its puts so far is visible at its targets."""
        check(lib.tca_plan_flush(self._plan()))
        return self

    def chain(self) -> "Plan":
        """Begins another chain: chains run at the same time."""
        check(lib.tca_plan_chain(self._plan()))
        return self

    def commit(self, timeout: Timeout = DEFAULT) -> "Plan":
        """Checks and compiles the steps, and selects their routes. No steps can be added afterwards."""
        check(lib.tca_plan_commit(self._plan(), _base.nanoseconds(timeout)))
        return self

    # ---- starts

    def start(self) -> None:
        try:
            result = lib.tca_start(self._pointer)
        except TypeError:  # there is no pointer
            self._plan()
            raise
        if result < 0:
            raise _base.error(result)

    def start_parts(self, parts: Iterable[tuple[int, int, int]]) -> None:
        """Starts the plan with parts of its puts with `parts`: (position at the source, at the target, bytes), positions in bytes in the
        order of the elements."""
        parts = list(parts)
        check(lib.tca_start_parts(self._plan(), ffi.new("struct tca_part[]", parts), len(parts)))

    def test(self) -> bool:
        """Whether the last start is complete: what it put from may be written again."""
        return check(lib.tca_test(self._plan())) > 0

    def wait(self, timeout: Timeout = None) -> None:
        """Waits until the last start is complete."""
        pointer = self._pointer or self._plan()
        if lib.tca_test(pointer) <= 0:
            _base.wait(lambda ns: lib.tca_wait(pointer, ns), timeout, self._session._default_ns)

    async def completion(self, timeout: Timeout = None) -> None:
        """The same for coroutines."""
        pointer = self._plan()
        await _base.wait_async(lambda: lib.tca_test(pointer), self._session.fileno(), timeout, self._session._default_ns)

    def cancel(self) -> None:
        check(lib.tca_plan_cancel(self._plan()))

    def stop(self) -> None:
        """Ends the start of a plan with repeat=True."""
        check(lib.tca_plan_stop(self._plan()))

    @property
    def rounds(self) -> int:
        return lib.tca_plan_rounds(self._plan())

    @property
    def receipt(self) -> Optional[Receipt]:
        """What the last completed start did; None: none has."""
        receipt = ffi.new("struct tca_receipt *")
        result = lib.tca_plan_receipt(self._plan(), receipt)
        return None if result == -_base.errno.ENODATA else receipt_of(receipt) if check(result) == 0 else None

    def explain(self) -> dict:
        """What `tcactl plan explain` shows of this committed plan: routes, their predicted costs, and why others were not chosen. It
        needs a name that no other plan of this process has."""
        if self._name is None:
            raise ValueError("this plan has no name: session.plan(name=...)")
        plans = admin("plans")["plans"]
        found = [plan["id"] for plan in plans if plan["name"] == self._name and plan["pid"] == os.getpid()]
        if len(found) != 1:
            raise LookupError(f"{len(found)} plans of this process are committed and named {self._name!r}")
        return admin("plan", found[0])

    def free(self) -> None:
        """Waits for a running start, at most the session's time-out, and releases the plan. Doing so again does nothing."""
        if self._pointer is not None and not self._session.closed:
            lib.tca_plan_free(self._pointer)
        self._pointer = None
        self._kept = []

    def __enter__(self) -> "Plan":
        return self

    def __exit__(self, *_: Any) -> None:
        self.free()

    # ---- in here

    def _plan(self) -> Any:
        self._session._open()
        if self._pointer is None:
            raise ValueError("this plan has been freed")
        return self._pointer


def _bytes(dtype: np.dtype) -> bool:
    return dtype in (np.uint8, np.dtype("V1"), np.dtype("S1"))


class Counter:
    """A counter in memory of a session, to which any rank can add (Plan.signal(counter.handle)): wait() until it has some value."""

    __slots__ = ("_session", "_array")

    def __init__(self, session: "Session"):
        self._session = session
        self._array = session.zeros(1, np.uint64)

    def _pointer(self) -> Any:
        self._session._open()
        return ffi.cast("uint64_t *", address_of(self._array))

    @property
    def handle(self) -> ArrayHandle:
        return self._array.handle

    @property
    def value(self) -> int:
        """To set it while others may add is not safe."""
        return int(self._array[0])

    @value.setter
    def value(self, value: int) -> None:
        self._array[0] = value

    def test(self, value: int, compare: str = "ge") -> bool:
        """compare: 'eq', 'ne', 'gt', 'ge', 'lt', 'le'."""
        return check(lib.tca_signal_test(self._session._open(), self._pointer(), number("SIGNAL", compare), value)) > 0

    def wait(self, value: int, compare: str = "ge", timeout: Timeout = None) -> None:
        """Waits until the comparison holds: the data before the signals that made it true is there then."""
        session, pointer, how = self._session._open(), self._pointer(), number("SIGNAL", compare)
        _base.wait(lambda ns: lib.tca_signal_wait_until(session, pointer, how, value, ns), timeout, self._session._default_ns)


def admin(verb: str, argument: Optional[str] = None, socket: Optional[str] = None, timeout: float = 10) -> Union[dict, str]:
    """Asks the tcad, as tcactl does: 'status', 'nodes', 'topology', 'sessions', 'regions', 'plans', 'plan', 'stats', 'config', ...:
    a dict. 'metrics': text."""
    made, answer = ffi.new("struct tca_admin **"), ffi.new("char **")
    path, word = optional(socket), optional(argument)
    check(lib.tca_admin_open(path, _base.nanoseconds(timeout), made))
    try:
        check(lib.tca_admin_ask(made[0], verb.encode(), word, answer))
        said = text(answer[0])
        lib.free(answer[0])
    finally:
        lib.tca_admin_close(made[0])
    return said if verb == "metrics" else json.loads(said)


def tcactl(*words: str) -> dict:
    """Runs the command tcactl with --json, and returns its document: tcactl('place', '4x4', '--ppn', '4'), tcactl('simulate', ...)."""
    done = subprocess.run(["tcactl", "--json", *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if not done.stdout:
        raise RuntimeError(done.stderr.strip() or f"tcactl ended with {done.returncode}")
    return json.loads(done.stdout)
