"""Collective operations and halo exchanges: prepared once, started many times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Optional, Sequence

import numpy as np

from . import _base
from ._base import Timeout, check, number, text
from ._layout import type_of
from ._memory import address_of, buffer_of
from ._native import ffi, lib
from ._plan import Receipt, plan_args, receipt_of

if TYPE_CHECKING:
    from ._session import _Ranks


class _Started:
    """What can be started again and again, and tested and waited for."""

    __slots__ = ("_session", "_pointer", "_kept", "__weakref__")
    _start: Callable
    _test: Callable
    _wait: Callable
    _free: Callable

    def _keep(self, session: Any, pointer: Any, kept: Any) -> None:
        self._session, self._pointer, self._kept = session, pointer, kept
        session._closers.add(self)

    def _object(self) -> Any:
        self._session._open()
        if self._pointer is None:
            raise ValueError(f"this {type(self).__name__} has been freed")
        return self._pointer

    def start(self) -> None:
        check(self._start(self._object()))

    def test(self) -> bool:
        """Whether the last start is complete at this rank."""
        return check(self._test(self._object())) > 0

    def wait(self, timeout: Timeout = None) -> None:
        """Waits until the last start is complete at this rank."""
        pointer = self._object()
        _base.wait(lambda ns: self._wait(pointer, ns), timeout, self._session._default_ns)

    def __call__(self, timeout: Timeout = None) -> None:
        """Starts it and waits for it."""
        self.start()
        self.wait(timeout)

    async def completion(self, timeout: Timeout = None) -> None:
        """wait() for coroutines."""
        pointer = self._object()
        await _base.wait_async(lambda: self._test(pointer), self._session.fileno(), timeout, self._session._default_ns)

    def free(self) -> None:
        """Releases it. Doing so again does nothing."""
        if self._pointer is not None and not self._session.closed:
            self._free(self._pointer)
        self._pointer, self._kept = None, None

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: Any) -> None:
        self.free()


class Collective(_Started):
    """A collective operation: Session.Allreduce_init() and others. All ranks start it equally often, and free it (or close their
    sessions) at the same place. Between start and completion, its arrays belong to it."""

    __slots__ = ()
    _start, _test, _wait, _free = lib.tca_coll_start, lib.tca_coll_test, lib.tca_coll_wait, lib.tca_coll_free

    @property
    def algorithm(self) -> str:
        return text(lib.tca_coll_algorithm_name(lib.tca_coll_algorithm_of(self._object())))

    def explain(self) -> str:
        """Lines of text: algorithm, steps, and the predicted costs of those that suit."""
        lines = ffi.new("char[8192]")
        lib.tca_coll_explain(self._object(), lines, 8192)
        return ffi.string(lines).decode()


def _contiguous(array: Any, what: str, writable: bool = False) -> np.ndarray:
    array = buffer_of(array, writable)
    if not array.flags.c_contiguous:
        raise ValueError(f"`{what}` must be contiguous: copy it, or put slices of it with a plan")
    return array


def _pointer_of(array: Optional[np.ndarray]) -> Any:
    return ffi.NULL if array is None else ffi.cast("void *", address_of(array))


def _same_bytes(left: np.ndarray, right: np.ndarray, ratio: int) -> None:
    if left.nbytes * ratio != right.nbytes:
        raise ValueError(f"`out` takes {ratio} times the {left.nbytes} bytes of `data`, but has {right.nbytes}")


class Collectives:
    """Persistent collective operations of a session's ranks, or a group's, named as in mpi4py. Memory is in the session: arrays of
    session.empty(), or attached. Each is called by all ranks in the same order; all ranks succeed, or all fail. Options: algorithm
    ('ring', 'doubling', ...), segment_bytes, thread (True: a thread of the library carries it out), and those of Session.plan()."""

    __slots__ = ()

    def _make(self: "_Ranks", call: Callable, *arguments: Any, kept: Any, algorithm: Optional[str] = None, segment_bytes: int = 0,
              thread: bool = False, **options: Any) -> Collective:
        group = None if self is self.session else self
        plan, names = plan_args(group=group, **options)
        args = ffi.new("struct tca_coll_args *")
        args.algorithm, args.segment_bytes, args.thread = number("COLL", algorithm), segment_bytes, bool(thread)
        args.plan = plan[0]
        made = ffi.new("struct tca_coll **")
        check(call(self.session._open(), *arguments, args, made))
        collective = Collective()
        collective._keep(self.session, made[0], (kept, names))
        return collective

    def Barrier_init(self, **options: Any) -> Collective:  # pylint: disable=invalid-name
        return self._make(lib.tca_coll_barrier, kept=None, **options)

    def Bcast_init(self, data: Any, root: int = 0, **options: Any) -> Collective:  # pylint: disable=invalid-name
        """Copies the root's data to all ranks."""
        array = _contiguous(data, "data", writable=self.rank != root)  # type: ignore[attr-defined]
        return self._make(lib.tca_coll_broadcast, _pointer_of(array), array.nbytes, root, kept=data, **options)

    def Allgather_init(self, data: Any, out: Any, **options: Any) -> Collective:  # pylint: disable=invalid-name
        """Every rank receives the data of all ranks, in rank order. data None: in place."""
        out = _contiguous(out, "out", writable=True)
        if data is None:
            if out.nbytes % self.size:  # type: ignore[attr-defined]
                raise ValueError(f"`out` has {out.nbytes} bytes, which {self.size} ranks cannot share equally")  # type: ignore[attr-defined]
            nbytes = out.nbytes // self.size  # type: ignore[attr-defined]
        else:
            data = _contiguous(data, "data")
            _same_bytes(data, out, self.size)  # type: ignore[attr-defined]
            nbytes = data.nbytes
        return self._make(lib.tca_coll_allgather, _pointer_of(data), _pointer_of(out), nbytes, kept=(data, out), **options)

    def Alltoall_init(self, data: Any, out: Any, **options: Any) -> Collective:  # pylint: disable=invalid-name
        """Block s of rank r's data becomes block r of rank s's `out`."""
        data, out = _contiguous(data, "data"), _contiguous(out, "out", writable=True)
        _same_bytes(data, out, 1)
        if data.nbytes % self.size:  # type: ignore[attr-defined]
            raise ValueError(f"`data` has {data.nbytes} bytes, which {self.size} ranks cannot share equally")  # type: ignore[attr-defined]
        return self._make(lib.tca_coll_alltoall, _pointer_of(data), _pointer_of(out), data.nbytes // self.size,  # type: ignore[attr-defined]
                          kept=(data, out), **options)

    def _reduction(self, data: Any, out: Any, op: Any) -> tuple:
        out = _contiguous(out, "out", writable=True)
        data = None if data is None else _contiguous(data, "data")
        if data is not None and data.dtype != out.dtype:
            raise TypeError(f"`data` is of {data.dtype}, `out` of {out.dtype}")
        kind = type_of(out.dtype)
        if kind is None:
            raise TypeError(f"elements of {out.dtype} cannot be combined")
        operator = ffi.new("struct tca_coll_operator *", {"combine": number("COMBINE", op), "type": kind})
        return data, out, operator

    def Reduce_init(self, data: Any, out: Any, op: str = "sum", root: int = 0, **options: Any) -> Collective:  # pylint: disable=invalid-name
        """Combines the elements of all ranks into `out` of the root; other ranks' `out` may be None."""
        if out is None:
            out = data
        data, out, operator = self._reduction(data, out, op)
        if data is not None:
            _same_bytes(data, out, 1)
        return self._make(lib.tca_coll_reduce, _pointer_of(data), _pointer_of(out), out.size, operator, root, kept=(data, out, operator),
                          **options)

    def Allreduce_init(self, data: Any, out: Any, op: str = "sum", **options: Any) -> Collective:  # pylint: disable=invalid-name
        """Combines the elements of all ranks into `out` of all ranks: 'sum', 'product', 'min', 'max', 'logical_and', ... data None: in
        place."""
        data, out, operator = self._reduction(data, out, op)
        if data is not None:
            _same_bytes(data, out, 1)
        return self._make(lib.tca_coll_allreduce, _pointer_of(data), _pointer_of(out), out.size, operator, kept=(data, out, operator),
                          **options)

    def Reduce_scatter_init(self, data: Any, out: Any, counts: Optional[Sequence[int]] = None, op: str = "sum",
                            **options: Any) -> Collective:  # pylint: disable=invalid-name
        """Combines the elements of all ranks; rank 0 receives the first counts[0], rank 1 the next counts[1], and so on. counts None:
        equally many."""
        data, out, operator = self._reduction(data, out, op)
        if data is None:
            raise TypeError("`data` is needed: the operation is not done in place")
        if counts is None:
            counts = [out.size] * self.size  # type: ignore[attr-defined]
        if len(counts) != self.size or sum(counts) != data.size or counts[self.rank] != out.size:  # type: ignore[attr-defined]
            raise ValueError(f"counts {list(counts)} do not fit {data.size} elements of `data` and {out.size} of `out`")
        return self._make(lib.tca_coll_reduce_scatter, _pointer_of(data), _pointer_of(out), ffi.new("uint64_t[]", list(counts)), operator,
                          kept=(data, out, operator), **options)

    def halo(self, arrays: Any, grid: Sequence[int], width: Any = 1, **options: Any) -> "Halo":
        """A halo exchange: class Halo."""
        return Halo(self, arrays, grid, width, **options)


def _widths(width: Any, dimensions: int) -> list[tuple[int, int]]:
    each = [width] * dimensions if np.ndim(width) == 0 else list(width)
    if len(each) != dimensions:
        raise ValueError(f"{len(each)} widths for {dimensions} dimensions")
    return [(one, one) if np.ndim(one) == 0 else (int(one[0]), int(one[1])) for one in each]


class Halo(_Started):
    """Exchanges the halos of distributed arrays between the neighbours of a process grid.

    arrays: one array, or several; each may be a pair of arrays of which one is read and the other written, alternately. An array
    contains its halo: `width` elements on both sides of each dimension, or (below, above) for each. grid: processes in each
    dimension; rank r is number r in row-major order. periodic: True, or for each dimension. diagonals: 1: faces only; 2: also edges;
    ... All ranks make the same calls. Start an exchange when the halos have been read and own elements written; do not touch
    halos before it is complete (tca-halo.h says exactly when what may be read and written)."""

    __slots__ = ("_double",)
    _start, _test, _wait, _free = lib.tca_halo_start, lib.tca_halo_test, lib.tca_halo_wait, lib.tca_halo_free

    def __init__(self, ranks: "_Ranks", arrays: Any, grid: Sequence[int], width: Any = 1, *, periodic: Any = False, diagonals: int = 1,
                 **options: Any):
        dimensions = len(grid)
        if not 1 <= dimensions <= lib.TCA_HALO_DIMENSIONS:
            raise ValueError(f"a grid has 1 to {lib.TCA_HALO_DIMENSIONS} dimensions, not {dimensions}")
        listed = list(arrays) if isinstance(arrays, (list, tuple)) else [arrays]
        if isinstance(arrays, tuple) and len(arrays) == 2 and all(isinstance(each, np.ndarray) for each in arrays):
            listed = [arrays]  # one pair
        widths = _widths(width, dimensions)
        described = ffi.new("struct tca_halo_array[]", len(listed))
        for array, slot in zip(listed, described):
            pair = [_contiguous(each, "array", writable=True) for each in (array if isinstance(array, (tuple, list)) else [array])]
            if len(pair) > 2 or any(each.shape != pair[0].shape or each.dtype != pair[0].dtype for each in pair):
                raise ValueError("an array, or a pair of the same shape and type")
            if pair[0].ndim < dimensions:
                raise ValueError(f"an array of {pair[0].ndim} dimensions on a grid of {dimensions}")
            # Dimensions that the grid does not have belong to the elements.
            slot.element_bytes = pair[0].itemsize * int(np.prod(pair[0].shape[dimensions:], dtype=np.int64))
            for i, (low, high) in enumerate(widths):
                own = pair[0].shape[i] - low - high
                if own < 0:
                    raise ValueError(f"dimension {i} has {pair[0].shape[i]} elements, fewer than its halo: {low} + {high}")
                slot.extents[i], slot.low[i], slot.high[i] = own, low, high
            for i, each in enumerate(pair):
                slot.memory[i] = _pointer_of(each)
        group = None if ranks is ranks.session else ranks
        plan, names = plan_args(group=group, **options)
        args = ffi.new("struct tca_halo_args *")
        args.dimensions, args.diagonals = dimensions, diagonals
        args.arrays, args.array_count, args.plan = described, len(listed), plan[0]
        for i, size in enumerate(grid):
            args.grid[i] = size
            args.periodic[i] = bool(periodic if np.ndim(periodic) == 0 else periodic[i])
        made = ffi.new("struct tca_halo **")
        check(lib.tca_halo_new(ranks.session._open(), args, made))
        self._keep(ranks.session, made[0], (listed, names))

    @property
    def buffer(self) -> int:
        """Which array of each pair the next start exchanges: 0 or 1."""
        return lib.tca_halo_buffer(self._object())

    @property
    def faces(self) -> list[dict]:
        """Of each face, edge and corner with a neighbour: direction, rank, kind, sent_bytes, received_bytes."""
        face, found = ffi.new("struct tca_halo_face *"), []
        for i in range(lib.tca_halo_faces(self._object())):
            check(lib.tca_halo_face(self._pointer, i, face))
            found.append({"direction": tuple(face.direction), "rank": face.rank, "kind": text(lib.tca_halo_kind_name(face.kind)),
                          "sent_bytes": face.sent_bytes, "received_bytes": face.received_bytes})
        return found

    def wait_face(self, face: int, timeout: Timeout = None) -> None:
        """Waits for the halos that the neighbour of this face fills."""
        pointer = self._object()
        _base.wait(lambda ns: lib.tca_halo_wait_face(pointer, face, ns), timeout, self._session._default_ns)

    def receipt(self, face: int) -> Receipt:
        receipt = ffi.new("struct tca_receipt *")
        check(lib.tca_halo_receipt(self._object(), face, receipt))
        return receipt_of(receipt)


def simulate(operation: str, ranks: int, nbytes: int = 8, *, algorithm: Optional[str] = None, per_node: int = 0,
             per_subcluster: int = 0, root: int = 0, segment_bytes: int = 0) -> dict:
    """Predicts a collective operation ('allreduce', 'broadcast', ...) of ranks that need not exist, as `tcactl simulate`: algorithm,
    segment_bytes (None: one piece) and ns."""
    name = ffi.new("char[]", operation.encode())
    simulation = ffi.new("struct tca_coll_simulation *", {
        "operation": name, "algorithm": number("COLL", algorithm), "ranks": ranks, "per_node": per_node, "per_subcluster": per_subcluster,
        "root": root, "bytes": nbytes, "segment_bytes": segment_bytes})
    found = ffi.new("struct tca_coll_simulated *")
    check(lib.tca_coll_simulate(simulation, ffi.NULL, ffi.NULL, found))
    return {"algorithm": text(lib.tca_coll_algorithm_name(found.algorithm)), "ns": found.ns,
            "segment_bytes": None if found.segment_bytes == 2**64 - 1 else found.segment_bytes}
