"""Two-sided messages."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Sequence

import numpy as np

from . import _base
from ._base import Timeout, check
from ._layout import Layout
from ._memory import address_of, buffer_of
from ._native import ffi, lib
from ._plan import plan_args

if TYPE_CHECKING:
    from ._session import _Ranks

ANY = lib.TCA_MSG_ANY
"""Of a receive and a probe: any rank, or any tag."""


class Status(NamedTuple):
    """Whose message it is."""

    rank: int
    tag: int
    nbytes: int


class Request:
    """A send or a receive: wait() for it. Persistent ones, of Send_init() and Recv_init(), are started again and again. It keeps its
    memory."""

    __slots__ = ("_messenger", "_pointer", "_kept", "__weakref__")

    def __init__(self, messenger: "Messenger", pointer: Any, kept: Any):
        self._messenger, self._pointer, self._kept = messenger, pointer, kept
        messenger._requests.add(self)

    def _request(self) -> Any:
        self._messenger._open()
        if self._pointer is None:
            raise ValueError("this request has been released")
        return self._pointer

    def start(self) -> None:
        check(lib.tca_msg_start(self._request()))

    def test(self) -> bool:
        return check(lib.tca_msg_test(self._request())) > 0

    def wait(self, timeout: Timeout = None) -> Status:
        pointer = self._request()
        if lib.tca_msg_test(pointer) <= 0:
            _base.wait(lambda ns: lib.tca_msg_wait(pointer, ns), timeout, self._messenger._session._default_ns)
        return self.status

    async def completion(self, timeout: Timeout = None) -> Status:
        """wait() for coroutines."""
        pointer = self._request()
        session = self._messenger._session
        await _base.wait_async(lambda: lib.tca_msg_test(pointer), session.fileno(), timeout, session._default_ns)
        return self.status

    @property
    def status(self) -> Status:
        status = ffi.new("struct tca_msg_status *")
        lib.tca_msg_status(self._request(), status)
        return Status(status.rank, status.tag, status.bytes)

    def release(self) -> None:
        """A receive that no message has matched is withdrawn; what runs goes on. Doing so again does nothing."""
        if self._pointer is None:
            return
        pointer, self._pointer = self._pointer, None
        if self._messenger._pointer is not None:
            if lib.tca_msg_test(pointer) == 0:
                self._messenger._running.append(self._kept)  # its memory must remain
            lib.tca_msg_release(pointer)
        self._kept = None

    def __enter__(self) -> "Request":
        return self

    def __exit__(self, *_: Any) -> None:
        self.release()


class Messenger:
    """Carries messages between the ranks of a session or group: Session.messenger(). Methods with upper case take arrays, with any
    shape and strides, or other buffers, in any memory; send() and recv() take objects that can be pickled. Ranks are those of the
    group; a tag is any number but ANY."""

    def __init__(self, ranks: "_Ranks", **options: Any):
        group = None if ranks is ranks.session else ranks
        args, self._names = plan_args(group=group, **options)
        made = ffi.new("struct tca_msg **")
        self._pointer = None
        check(lib.tca_msg_new(ranks.session._open(), args, made))
        self._session, self._pointer = ranks.session, made[0]
        self._requests: Any = _base.weak_set()
        self._running: list[Any] = []
        self._session._closers.add(self)

    def _open(self) -> Any:
        self._session._open()
        if self._pointer is None:
            raise ValueError("this messenger has been freed")
        return self._pointer

    def _request(self, call: Any, memory: Any, rank: int, tag: int, writable: bool) -> Request:
        array = buffer_of(memory, writable)
        layout = None if array.flags.c_contiguous else Layout.of(array.shape, array.strides, array.dtype)
        buffer = ffi.new("struct tca_msg_buffer *", {"address": ffi.cast("void *", address_of(array)), "bytes": array.nbytes,
                                                     "layout": ffi.NULL if layout is None else layout._pointer})
        made = ffi.new("struct tca_msg_request **")
        check(call(self._open(), rank, tag, buffer, made))
        return Request(self, made[0], (memory, layout))

    def Isend(self, data: Any, rank: int, tag: int = 0) -> Request:  # pylint: disable=invalid-name
        return self._request(lib.tca_msg_send, data, rank, tag, False)

    def Irecv(self, data: Any, rank: int = ANY, tag: int = ANY) -> Request:  # pylint: disable=invalid-name
        return self._request(lib.tca_msg_recv, data, rank, tag, True)

    def Send_init(self, data: Any, rank: int, tag: int = 0) -> Request:  # pylint: disable=invalid-name
        return self._request(lib.tca_msg_send_init, data, rank, tag, False)

    def Recv_init(self, data: Any, rank: int, tag: int = 0) -> Request:  # pylint: disable=invalid-name
        return self._request(lib.tca_msg_recv_init, data, rank, tag, True)

    def Send(self, data: Any, rank: int, tag: int = 0, timeout: Timeout = None) -> None:  # pylint: disable=invalid-name
        with self.Isend(data, rank, tag) as request:
            request.wait(timeout)

    def Recv(self, data: Any, rank: int = ANY, tag: int = ANY, timeout: Timeout = None) -> Status:  # pylint: disable=invalid-name
        with self.Irecv(data, rank, tag) as request:
            return request.wait(timeout)

    def probe(self, rank: int = ANY, tag: int = ANY, timeout: Timeout = None) -> Status:
        """Waits until a message is here that a receive of this rank and tag would get, and describes it; the message stays."""
        pointer, status = self._open(), ffi.new("struct tca_msg_status *")
        _base.wait(lambda ns: lib.tca_msg_probe(pointer, rank, tag, ns, status), timeout, self._session._default_ns)
        return Status(status.rank, status.tag, status.bytes)

    def send(self, value: Any, rank: int, tag: int = 0, timeout: Timeout = None) -> None:
        """Sends an object, which recv() receives."""
        self.Send(np.frombuffer(pickle.dumps(value, pickle.HIGHEST_PROTOCOL), np.uint8), rank, tag, timeout)

    def recv(self, rank: int = ANY, tag: int = ANY, timeout: Timeout = None) -> Any:
        status = self.probe(rank, tag, timeout)
        data = np.empty(status.nbytes, np.uint8)
        self.Recv(data, status.rank, status.tag, timeout)
        return pickle.loads(data)

    def wait_all(self, requests: Sequence[Request], timeout: Timeout = None) -> list[Status]:
        pointers = [request._request() for request in requests]
        array = ffi.new("struct tca_msg_request *[]", pointers)
        _base.wait(lambda ns: lib.tca_msg_wait_all(array, len(pointers), ns), timeout, self._session._default_ns)
        return [request.status for request in requests]

    def wait_any(self, requests: Sequence[Optional[Request]], timeout: Timeout = None) -> int:
        """The index of one that is complete. None in the list is passed over: replace by it what has been found."""
        array = ffi.new("struct tca_msg_request *[]", [ffi.NULL if each is None else each._request() for each in requests])
        index = ffi.new("uint32_t *")
        _base.wait(lambda ns: lib.tca_msg_wait_any(array, len(requests), ns, index), timeout, self._session._default_ns)
        return index[0]

    def free(self) -> None:
        """Sends what is buffered, at most for the session's time-out, and releases the messenger and its requests."""
        if self._pointer is not None and not self._session.closed:
            lib.tca_msg_free(self._pointer)
        self._pointer = None
        self._running = []

    def __enter__(self) -> "Messenger":
        return self

    def __exit__(self, *_: Any) -> None:
        self.free()
