"""A stream of calls over gRPC on which the calling thread itself sends and waits.

With grpcio's own streams, one thread takes messages from an iterator and sends them, and another
receives answers and wakes the caller: a dozen thread switches per call, and more processor time
than the rest of it. grpcio's single calls need neither, and this stream uses the parts that they
are built from. Those are not public, so `call_streams.CallStream` replaces it in untested versions,
and if those parts have changed (`is_possible`).
"""

from __future__ import annotations

import threading
from importlib import import_module
from itertools import islice
from typing import Any, Final

import grpc

from leasehold.interrupts import SHIELD
from leasehold.stores.remote.carrying import FailedError

try:
    cygrpc: Any = import_module("grpc._cython.cygrpc")
except ImportError:
    cygrpc = None

_NEEDED: Final = (
    *("PropagationConstants", "OperationType", "SendInitialMetadataOperation"),
    *("ReceiveInitialMetadataOperation", "SendMessageOperation", "ReceiveMessageOperation"),
    "ReceiveStatusOnClientOperation",
)
_TRIED: Final = ((1, 70), (1, 85))
"""The first and last versions of grpcio with which the tests have passed on these streams."""
_NO_FLAGS: Final = 0
_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}
_CANCELLED: Final = grpc.StatusCode.CANCELLED.value[0]


def is_possible(method: Any) -> bool:
    """Whether this grpcio has the parts needed, for a method of a channel."""
    first, last = _TRIED
    return (
        first <= _version(grpc.__version__) <= last
        and all(hasattr(cygrpc, name) for name in _NEEDED)
        and all(hasattr(method, name) for name in ("_channel", "_method", "_context"))
        and hasattr(method._channel, "segregated_call")  # noqa: SLF001  # as the docstring says
    )


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2] if part.isdecimal())


class StreamEndError(grpc.RpcError):  # type: ignore[misc]  # untyped
    """The end of a stream, in the form that grpcio uses."""

    def __init__(self, status: Any) -> None:
        super().__init__()
        self._status = status

    def code(self) -> grpc.StatusCode:
        return _CODES.get(self._status.code(), grpc.StatusCode.UNKNOWN)

    def details(self) -> str:
        told = self._status.details()
        return told.decode(errors="replace") if isinstance(told, bytes) else str(told or "")

    def trailing_metadata(self) -> Any:
        return self._status.trailing_metadata()


class DirectStream:
    """As `call_streams.CallStream`: one stream, of one verb to one server."""

    def __init__(self, method: Any, metadata: Any) -> None:
        begin = (
            cygrpc.SendInitialMetadataOperation(metadata, _NO_FLAGS),
            cygrpc.ReceiveStatusOnClientOperation(_NO_FLAGS),
        )
        batches = (begin, (cygrpc.ReceiveInitialMetadataOperation(_NO_FLAGS),))
        self._turn = threading.Lock()
        """Held by the thread that takes events."""
        self._due = len(batches)
        """Batches of operations whose event has not arrived: a channel cannot be closed until the
        events of all its calls have been taken.
        """
        self._taken: list[Any] = []
        """The event whose taker was interrupted before it could look at it."""
        self._end: StreamEndError | None = None
        self._is_closing = False
        self._call = method._channel.segregated_call(  # noqa: SLF001  # as the docstring says
            cygrpc.PropagationConstants.GRPC_PROPAGATE_DEFAULTS,
            method._method,  # noqa: SLF001
            None,
            None,
            metadata,
            None,
            tuple((batch, None) for batch in batches),
            method._context,  # noqa: SLF001
            None,
        )

    @property
    def is_open(self) -> bool:
        """Whether it is not known to have ended; nobody listens between two calls."""
        return self._end is None and not self._is_closing

    def ask(self, message: bytes) -> bytes:
        """The answer to a message; raises grpc.RpcError or FailedError."""
        try:
            with self._turn:
                return self._ask(message)
        finally:
            if self._is_closing:
                self._take_the_rest()

    def _ask(self, message: bytes) -> bytes:
        batch = (
            cygrpc.SendMessageOperation(message, _NO_FLAGS),
            cygrpc.ReceiveMessageOperation(_NO_FLAGS),
        )
        has_begun = False
        with SHIELD:  # An event that nobody has counted would be left behind.
            if self._end is None and self._call.operate(batch, None):
                self._due += 1
                has_begun = True
        if has_begun:
            while True:
                answer = self._take_event()
                if answer is not None:
                    return answer
                if self._end is not None:
                    break
        if self._end is None or self._end.code() is grpc.StatusCode.OK:
            raise FailedError("the server has ended the stream", was_sent=True)
        raise self._end

    def _take_event(self) -> bytes | None:
        """Wait for the next event: the answer, or anything else."""
        taken = self._taken
        if not taken:
            events = islice(iter(self._call.next_event, None), 1)
            try:
                # In C as a whole: what the handler of a signal raises is raised while gRPC waits,
                # or when the event is safe in the list.
                taken.extend(events)
            except BaseException:
                if not taken:
                    # While it waited: gRPC has then given up the call, with all its events.
                    self._due = 0
                raise
        # No signal can come between these lines: no call, no jump back.
        event = taken[0]
        del taken[0]
        self._due -= 1
        answer: bytes | None = None
        for operation in event.batch_operations:
            kind = operation.type()
            if kind == cygrpc.OperationType.receive_message:
                answer = operation.message()
            elif kind == cygrpc.OperationType.receive_status_on_client:
                self._end = StreamEndError(operation)
        return answer

    def close(self) -> None:
        """End the stream, and the call in progress on it."""
        self._is_closing = True
        self._call.cancel(_CANCELLED, "closed here")
        self._take_the_rest()

    def _take_the_rest(self) -> None:
        # Otherwise the thread in a call does it at the end of that call.
        if self._turn.acquire(blocking=False):
            try:
                while self._due:
                    self._take_event()
            finally:
                self._turn.release()
