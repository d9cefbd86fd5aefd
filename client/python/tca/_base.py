"""What all parts of the package need: errors, times, calls into libtca that can be interrupted."""

from __future__ import annotations

import asyncio
import errno
import os
import time
import weakref
from typing import Any, Awaitable, Callable, Optional

from ._native import ffi, lib


class Error(OSError):
    """A call of libtca has failed. `errno` is its error code (tca.h lists them), `strerror` says what is wrong and what to do.

    Where Python has a class for an error code, such as TimeoutError or PermissionError, the error is of this class, too."""


_BUILTIN = {
    errno.ETIMEDOUT: TimeoutError,
    errno.EACCES: PermissionError,
    errno.EPERM: PermissionError,
    errno.ECONNREFUSED: ConnectionRefusedError,
    errno.ECONNRESET: ConnectionResetError,
    errno.EPIPE: BrokenPipeError,
    errno.EEXIST: FileExistsError,
    errno.ENOMEM: MemoryError,
}
_classes: dict[int, type] = {}


def _class_of(number: int) -> type:
    builtin = _BUILTIN.get(number)
    if builtin is None:
        return Error
    if number not in _classes:
        _classes[number] = type(builtin.__name__, (Error, builtin), {"__module__": "tca"})
    return _classes[number]


def text(chars: Any) -> str:
    return ffi.string(chars).decode("utf-8", "replace")


def error(result: int) -> Error:
    """The exception for a negative result of the last call."""
    return _class_of(-result)(-result, text(lib.tca_error_text()))


def check(result: int) -> int:
    if result < 0:
        raise error(result)
    return result


# ---- times: seconds in Python, nanoseconds in C

class _Default:
    def __repr__(self) -> str:
        return "tca.DEFAULT"


DEFAULT = _Default()
"""As a timeout: the session's, `tca.open(timeout=...)`, TCA_TIMEOUT or 10 seconds."""

Timeout = Any  # float, None (no limit) or DEFAULT


def nanoseconds(timeout: Timeout) -> int:
    if timeout is None:
        return -1
    if timeout is DEFAULT:
        return -2
    if not timeout >= 0:
        raise ValueError(f"a timeout is 0 or more seconds, None or tca.DEFAULT, not {timeout!r}")
    return min(int(timeout * 1e9), 1 << 62)


# Python handles signals, such as that of Ctrl-C, between two slices.
_SLICE_NS = 50_000_000


def wait(call: Callable[[int], int], timeout: Timeout, default_ns: int) -> int:
    """Calls a waiting function of libtca with a time-out in nanoseconds until it returns something else than -ETIMEDOUT, and no
    longer than `timeout`. Returns its result, which is not negative."""
    left = nanoseconds(timeout)
    if left == -2:
        left = default_ns
    if 0 <= left <= _SLICE_NS:
        return check(call(left))
    end = None if left == -1 else time.monotonic_ns() + left
    while True:
        result = call(_SLICE_NS if end is None else max(0, min(_SLICE_NS, end - time.monotonic_ns())))
        if result != -errno.ETIMEDOUT:
            return check(result)
        if end is not None and time.monotonic_ns() >= end:
            raise error(result)


async def wait_async(test: Callable[[], int], event_fd: int, timeout: Timeout, default_ns: int) -> int:
    """The same for coroutines, with a function that only tests: other tasks of the event loop run meanwhile."""
    left = nanoseconds(timeout)
    if left == -2:
        left = default_ns
    end = None if left == -1 else time.monotonic() + left / 1e9
    loop = asyncio.get_running_loop()
    pause = 0.0
    # The descriptor is of this wait only: several waits of one loop may watch the same session.
    fd = os.dup(event_fd)
    event = asyncio.Event()
    loop.add_reader(fd, event.set)
    try:
        while True:
            result = check(test())
            if result:
                return result
            if end is not None and time.monotonic() >= end:
                raise _class_of(errno.ETIMEDOUT)(errno.ETIMEDOUT, f"not complete after {left / 1e9:g} s")
            event.clear()
            # What processes of this node do in the client's seat, no descriptor tells.
            waiter: Awaitable = event.wait() if pause else asyncio.sleep(0)
            try:
                await asyncio.wait_for(waiter, pause or None)
            except (TimeoutError, asyncio.TimeoutError):
                pass
            pause = min(0.001, pause * 2 or 0.00005)
    finally:
        loop.remove_reader(fd)
        os.close(fd)


def number(prefix: str, value: Any) -> int:
    """The value of an enum of a header by its name in Python: 'tcp' of TCA_RAIL_TCP. None: 0."""
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    name = f"TCA_{prefix}_{str(value).upper().replace('-', '_')}"
    try:
        return getattr(lib, name)
    except AttributeError:
        start = f"TCA_{prefix}_"
        known = sorted(known[len(start):].lower() for known in dir(lib) if known.startswith(start))
        raise ValueError(f"{value!r} is none of {', '.join(known)}") from None


def optional(chars: Optional[str]) -> Any:
    """A C string, which the caller keeps, or NULL."""
    return ffi.NULL if chars is None else ffi.new("char[]", os.fsencode(chars))


def weak_set() -> Any:
    """Of objects that the owner must reach while they live."""
    return weakref.WeakSet()
