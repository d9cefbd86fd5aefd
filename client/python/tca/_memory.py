"""Memory of a session: arrays in it, regions, and handles by which other ranks put into it."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Optional, Sequence

import numpy as np

from ._base import check
from ._native import ffi, lib

if TYPE_CHECKING:
    from ._session import Session

_LARGE_BYTES = 1 << 20  # a region of its own: its handles become stale when it is freed


def buffer_of(memory: Any, writable: bool = False) -> np.ndarray:
    """An array of the memory of anything that has the buffer protocol or __array_interface__."""
    if isinstance(memory, np.ndarray):
        array = memory
    elif hasattr(memory, "__cuda_array_interface__"):
        raise TypeError("this is memory of a device, which processors cannot reach: export it as a dmabuf, and use session.import_dmabuf()")
    elif hasattr(memory, "__array_interface__"):
        array = np.asarray(memory)
    elif hasattr(memory, "__dlpack__"):
        array = np.from_dlpack(memory)
    else:
        array = np.asarray(memoryview(memory))
    if writable and not array.flags.writeable:
        raise ValueError("this memory is read-only")
    return array


def address_of(array: np.ndarray) -> int:
    """Of its first element, which is not the lowest address where strides are negative."""
    return array.__array_interface__["data"][0]


def span_of(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> tuple[int, int]:
    """The bytes from the first element's address on that an array touches: from, up to."""
    if 0 in shape:
        return 0, 0
    ends = [(count - 1) * stride for count, stride in zip(shape, strides)]
    return sum(end for end in ends if end < 0), sum(end for end in ends if end > 0) + itemsize


class Array(np.ndarray):
    """A numpy array in memory of a session, from session.empty() and the like; so are its slices and views. `handle` lets other
    ranks put into it."""

    _session: Optional["Session"]

    def __array_finalize__(self, other: Any) -> None:
        self._session = getattr(other, "_session", None)

    @property
    def handle(self) -> "ArrayHandle":
        """Names these elements anywhere in the cluster: send it to other ranks (it can be pickled), which put into it, whole or in
        slices. It allows to write no byte outside the range from the first to the last of these elements."""
        if self._session is None:
            raise BufferError("this array is not in memory of a session: tca.Session.empty() makes one that is, attach() shares one")
        return self._session.handle(self)

    def __reduce__(self) -> Any:
        return np.asarray(self).__reduce__()  # a copy is an ordinary array


class ArrayHandle:
    """What other ranks know of an array: where, shape, strides and type. Indices and slices select parts as those of numpy arrays do.
    Plain data: can be pickled, and is valid on any node."""

    __slots__ = ("_handle", "_view")

    def __init__(self, handle: bytes, offset: int, shape: Sequence[int], strides: Sequence[int], dtype: Any):
        self._handle = handle
        # An array at an address that is not memory, and is never looked at: numpy does the arithmetic.
        self._view = np.asarray(_Placed(offset, tuple(shape), tuple(strides), np.dtype(dtype)))

    @classmethod
    def _at(cls, handle: bytes, view: np.ndarray) -> "ArrayHandle":
        made = cls.__new__(cls)
        made._handle, made._view = handle, view
        return made

    def __getitem__(self, index: Any) -> "ArrayHandle":
        for part in index if isinstance(index, tuple) else (index,):
            if not (part is None or part is Ellipsis or isinstance(part, (slice, str)) or np.ndim(part) == 0 and not isinstance(part, (bool, np.bool_))):
                raise IndexError("a handle takes indices and slices only, because other selections are copies")
        if isinstance(index, str):
            field, offset = self.dtype.fields[index][:2]
            return ArrayHandle(self._handle, self.offset + offset, self.shape, self.strides, field)
        # An Ellipsis keeps a selected element an array of no dimensions, instead of loading it.
        index = index if isinstance(index, tuple) else (index,)
        return self._at(self._handle, self._view[index if any(part is Ellipsis for part in index) else index + (Ellipsis,)])

    def transpose(self, *axes: int) -> "ArrayHandle":
        return self._at(self._handle, self._view.transpose(*axes))

    @property
    def T(self) -> "ArrayHandle":  # pylint: disable=invalid-name
        return self.transpose()

    shape = property(lambda self: self._view.shape)
    strides = property(lambda self: self._view.strides)
    dtype = property(lambda self: self._view.dtype)
    size = property(lambda self: self._view.size)
    ndim = property(lambda self: self._view.ndim)
    nbytes = property(lambda self: self._view.nbytes)
    offset = property(lambda self: address_of(self._view) - _BASE, doc="Bytes from the beginning of what the handle covers.")

    def __len__(self) -> int:
        return len(self._view)

    @property
    def node(self) -> int:
        """The node on which the memory is."""
        return check(lib.tca_handle_node(ffi.from_buffer("struct tca_handle *", self._handle)))

    def __reduce__(self) -> Any:
        return ArrayHandle, (self._handle, self.offset, self.shape, self.strides, self.dtype)

    def __repr__(self) -> str:
        return f"<tca.ArrayHandle shape={self.shape} dtype={self.dtype} node={self.node}>"


_BASE = 1 << 60


class _Placed:
    def __init__(self, offset: int, shape: tuple, strides: tuple, dtype: np.dtype):
        self.__array_interface__ = {"version": 3, "data": (_BASE + offset, False), "shape": shape, "strides": strides,
                                    "typestr": dtype.str, "descr": dtype.descr if dtype.names else [("", dtype.str)]}


class Region:
    """Memory that other processes can put into: `session.region(nbytes)`, `session.attach(array)`, `session.import_dmabuf(fd)`.
    Arrays in it (`array()`) keep it: free() refuses while there are any."""

    __slots__ = ("_session", "_pointer", "_owner", "_kept", "__weakref__")

    def __init__(self, session: "Session", pointer: Any, kept: Any = None):
        self._session, self._pointer, self._owner, self._kept = session, pointer, None, kept
        session._regions.add(self)

    def _region(self) -> Any:
        if self._pointer is None:
            raise ValueError("this region has been freed")
        return self._pointer

    @property
    def address(self) -> int:
        return int(ffi.cast("uintptr_t", lib.tca_region_address(self._region())))

    @property
    def nbytes(self) -> int:
        return lib.tca_region_bytes(self._region())

    def array(self, shape: Any = None, dtype: Any = np.uint8, offset: int = 0) -> Array:
        """An array in this region; shape None: all of it, in one dimension."""
        dtype = np.dtype(dtype)
        if shape is None:
            shape = (self.nbytes - offset) // dtype.itemsize
        owner = self._owner() if self._owner else None
        if owner is None:
            # Whoever views the memory keeps this object, and it keeps the region.
            owner = ffi.gc(ffi.cast("char *", lib.tca_region_address(self._region())), lambda _, region=self: None)
            self._owner = weakref.ref(owner)
        return array_at(self._session, ffi.buffer(owner, self.nbytes), shape, dtype, offset)

    def handle(self, offset: int = 0, nbytes: Optional[int] = None) -> ArrayHandle:
        """Of a part, or all, of the region, as bytes."""
        if nbytes is None:
            nbytes = self.nbytes - offset
        made = ffi.new("struct tca_handle *")
        check(lib.tca_region_handle(self._region(), offset, nbytes, made))
        return ArrayHandle(bytes(ffi.buffer(made)), 0, (nbytes,), (1,), np.uint8)

    def free(self) -> None:
        """Frees the region; its handles become stale. BufferError while arrays view it; Error (EBUSY) while plans use it."""
        if self._pointer is None:
            return
        if self._owner is not None and self._owner() is not None:
            raise BufferError("arrays still view this region")
        check(lib.tca_region_free(self._pointer))
        self._pointer, self._kept = None, None
        self._session._regions.discard(self)

    def __enter__(self) -> "Region":
        return self

    def __exit__(self, *_: Any) -> None:
        self.free()


def array_at(session: "Session", buffer: Any, shape: Any, dtype: np.dtype, offset: int = 0) -> Array:
    array = np.ndarray.__new__(Array, shape, dtype, buffer, offset)
    array._session = session
    return array


class Blocks:
    """The memory of a session's arrays. Freed when the last array that views it is gone: not at once, because that may be in any
    thread, but by the session's next call that allocates, or when it is closed."""

    __slots__ = ("_session", "_used", "_unused")

    def __init__(self, session: "Session"):
        self._session = session
        self._used: dict[int, tuple[int, Any]] = {}  # by address: bytes, region or None (tca_alloc)
        self._unused: list[int] = []

    def empty(self, shape: Any, dtype: np.dtype) -> Array:
        self.free_unused()
        if dtype.hasobject:
            raise TypeError(f"other processes cannot use Python objects: dtype {dtype}")
        wanted = (shape,) if np.ndim(shape) == 0 else tuple(shape)
        nbytes = int(np.prod([int(each) for each in wanted], dtype=object)) * dtype.itemsize or 1
        session = self._session._open()
        region = None
        if nbytes >= _LARGE_BYTES:
            made = ffi.new("struct tca_region **")
            check(lib.tca_region_alloc(session, nbytes, made))
            region = made[0]
            pointer = lib.tca_region_address(region)
        else:
            made = ffi.new("void **")
            check(lib.tca_alloc(session, nbytes, made))
            pointer = made[0]
        address = int(ffi.cast("uintptr_t", pointer))
        self._used[address] = (nbytes, region)
        owner = ffi.gc(ffi.cast("char *", pointer), lambda _, unused=self._unused, address=address: unused.append(address))
        return array_at(self._session, ffi.buffer(owner, nbytes), shape, dtype)

    def free_unused(self) -> None:
        later = []
        while self._unused:
            address = self._unused.pop()
            nbytes, region = self._used[address]
            if region is not None:
                result = lib.tca_region_free(region)
            else:
                result = lib.tca_free(self._session._open(), ffi.cast("void *", address))
            if result < 0:  # a plan that was not freed yet still uses it
                later.append(address)
            else:
                del self._used[address]
        self._unused.extend(later)

    def live(self) -> list[tuple[int, int]]:
        """Address and bytes of what arrays still view."""
        unused = set(self._unused)
        return [(address, nbytes) for address, (nbytes, _) in self._used.items() if address not in unused]
