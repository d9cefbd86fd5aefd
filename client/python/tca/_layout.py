"""Layouts: of numpy arrays, by shape and strides, or made with the functions of tca.h."""

from __future__ import annotations

from typing import Any, Optional, Sequence

import numpy as np

from ._base import check, number
from ._native import ffi, lib

_TYPES = {
    "b1": lib.TCA_TYPE_BOOL, "i1": lib.TCA_TYPE_INT8, "i2": lib.TCA_TYPE_INT16, "i4": lib.TCA_TYPE_INT32, "i8": lib.TCA_TYPE_INT64,
    "u1": lib.TCA_TYPE_UINT8, "u2": lib.TCA_TYPE_UINT16, "u4": lib.TCA_TYPE_UINT32, "u8": lib.TCA_TYPE_UINT64,
    "f2": lib.TCA_TYPE_FLOAT16, "f4": lib.TCA_TYPE_FLOAT, "f8": lib.TCA_TYPE_DOUBLE, "f16": lib.TCA_TYPE_LONG_DOUBLE,
    "c8": lib.TCA_TYPE_COMPLEX_FLOAT, "c16": lib.TCA_TYPE_COMPLEX_DOUBLE,
}


def type_of(dtype: np.dtype) -> Optional[int]:
    """The element type of tca.h; None: it has none, as structured types and other byte orders."""
    return _TYPES.get(f"{dtype.kind}{dtype.itemsize}") if dtype.isnative else None


class Layout:
    """Where the bytes of a transfer are, relative to a base address, and in which order. Arrays need none: their shape and strides
    are one. Immutable, of no session."""

    __slots__ = ("_pointer",)

    def __init__(self, pointer: Any):
        self._pointer = ffi.gc(pointer, lib.tca_layout_free)

    @classmethod
    def _make(cls, call: Any, *arguments: Any) -> "Layout":
        made = ffi.new("struct tca_layout **")
        check(call(*arguments, made))
        return cls(made[0])

    @classmethod
    def element(cls, dtype: Any) -> "Layout":
        """One element of a numpy type. Types that tca.h does not have are bytes, which match any type of their size."""
        dtype = np.dtype(dtype)
        kind = type_of(dtype)
        return cls.contiguous(dtype.itemsize) if kind is None else cls._make(lib.tca_layout_element, kind)

    @classmethod
    def contiguous(cls, nbytes: int) -> "Layout":
        return cls._make(lib.tca_layout_contiguous, nbytes)

    @classmethod
    def strided(cls, count: int, block_bytes: int, stride_bytes: int) -> "Layout":
        return cls._make(lib.tca_layout_strided, count, block_bytes, stride_bytes)

    @classmethod
    def indexed(cls, inner: "Layout", lengths: Sequence[int], offsets: Sequence[int]) -> "Layout":
        """Blocks of lengths[i] copies of `inner`, which start offsets[i] bytes from the base."""
        if len(lengths) != len(offsets):
            raise ValueError(f"{len(lengths)} lengths, but {len(offsets)} offsets")
        lengths_c = np.ascontiguousarray(lengths, np.uint64)
        offsets_c = np.ascontiguousarray(offsets, np.int64)
        return cls._make(lib.tca_layout_hindexed, inner._pointer, len(lengths_c), ffi.from_buffer("uint64_t[]", lengths_c),
                         ffi.from_buffer("int64_t[]", offsets_c))

    @classmethod
    def struct(cls, parts: Sequence[tuple["Layout", int, int]]) -> "Layout":
        """Of (layout, copies, offset in bytes)."""
        return cls._make(lib.tca_layout_struct, len(parts), ffi.new("struct tca_layout *[]", [part[0]._pointer for part in parts]),
                         ffi.new("uint64_t[]", [part[1] for part in parts]), ffi.new("int64_t[]", [part[2] for part in parts]))

    @classmethod
    def subarray(cls, inner: "Layout", sizes: Sequence[int], subsizes: Sequence[int], starts: Sequence[int], order: str = "C") -> "Layout":
        if not len(sizes) == len(subsizes) == len(starts):
            raise ValueError(f"{len(sizes)} sizes, {len(subsizes)} subsizes, {len(starts)} starts")
        if order not in ("C", "F"):
            raise ValueError(f"order is 'C' or 'F', not {order!r}")
        return cls._make(lib.tca_layout_subarray, inner._pointer, len(sizes), *(ffi.new("uint64_t[]", list(each))
                                                                              for each in (sizes, subsizes, starts)),
                         lib.TCA_ORDER_C if order == "C" else lib.TCA_ORDER_FORTRAN)

    @classmethod
    def of(cls, shape: Sequence[int], strides: Sequence[int], dtype: Any) -> "Layout":
        """Of an array: its first element is at the base, strides are in bytes."""
        layout = cls.element(dtype)
        for count, stride in zip(reversed(shape), reversed(strides)):
            layout = layout.repeat(count, stride)
        return layout

    def repeat(self, count: int, stride_bytes: int) -> "Layout":
        """`count` copies whose starts are stride_bytes apart."""
        return self._make(lib.tca_layout_repeat, self._pointer, count, stride_bytes)

    def shift(self, offset_bytes: int) -> "Layout":
        return self._make(lib.tca_layout_shift, self._pointer, offset_bytes)

    def resized(self, lower_bytes: int, extent_bytes: int) -> "Layout":
        return self._make(lib.tca_layout_resized, self._pointer, lower_bytes, extent_bytes)

    @property
    def size(self) -> int:
        """Bytes of data, without gaps."""
        return lib.tca_layout_size(self._pointer)

    @property
    def bounds(self) -> tuple[int, int]:
        """The range of bytes touched, relative to the base."""
        bounds = ffi.new("int64_t[2]")
        lib.tca_layout_bounds(self._pointer, bounds, bounds + 1)
        return bounds[0], bounds[1]

    @property
    def blocks(self) -> int:
        return lib.tca_layout_blocks(self._pointer)

    def __repr__(self) -> str:
        described = ffi.new("char[200]")
        lib.tca_layout_describe(self._pointer, described, 200)
        return f"<tca.Layout {ffi.string(described).decode()}>"


def combine(operator: Any) -> int:
    """The value of an operator of reductions by its name: 'sum', 'min', 'bit_and', ..."""
    return number("COMBINE", operator)
