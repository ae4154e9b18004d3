"""Streams of calls over gRPC: a frequently called verb has a stream that stays open.

On it a call costs one message each way, whereas a separate call has to be set up and ended. A
stream carries one call at a time, like an HTTP connection. Most are a `DirectStream`; the one here
needs only the public parts of grpcio, and grpcio's threads.
"""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import Any, Final, Protocol

import grpc

from leasehold.env import Clock
from leasehold.interrupts import SHIELD
from leasehold.stores.remote.carrying import IDLE_MAX, IDLE_SECONDS_MAX, FailedError

LOOKS_PER_TIMEOUT: Final = 4


class Stream(Protocol):
    """One stream, of one verb to one server."""

    @property
    def is_open(self) -> bool: ...

    def ask(self, message: bytes) -> bytes:
        """The answer to a message; raises grpc.RpcError or FailedError."""

    def close(self) -> None:
        """End it, and the call that is under way on it."""


class CallStream:
    """A stream that uses only grpcio's public API."""

    def __init__(self, method: Any, metadata: Any) -> None:
        self._sent: SimpleQueue[bytes | None] = SimpleQueue()
        self._call = method(iter(self._sent.get, None), metadata=metadata)

    @property
    def is_open(self) -> bool:
        is_active: bool = self._call.is_active()
        return is_active

    def ask(self, message: bytes) -> bytes:
        """The answer to a message; raises grpc.RpcError or FailedError."""
        self._sent.put(message)
        try:
            answer: bytes = next(self._call)
        except StopIteration:
            raise FailedError("the server has ended the stream", was_sent=True) from None
        return answer

    def close(self) -> None:
        """End it, and the call that is under way on it."""
        self._sent.put(None)
        self._call.cancel()


class IdleCallStreams:
    """Streams that are kept for later calls."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._idle: list[tuple[grpc.Channel, str, float, Stream]] = []
        """Idle streams, each with its channel, its verb, and when it became idle."""

    def take(self, channel: grpc.Channel, verb: str) -> Stream | None:
        """The stream that was used last, if it is still usable."""
        oldest = self._clock.monotonic() - IDLE_SECONDS_MAX
        with self._lock:
            stale = [each for each in self._idle if each[2] < oldest or not each[3].is_open]
            self._idle = [each for each in self._idle if each not in stale]
            fitting = [each for each in self._idle if each[0] is channel and each[1] == verb]
            if fitting:
                self._idle.remove(fitting[-1])
        for each in stale:
            each[3].close()
        return fitting[-1][3] if fitting else None

    def keep(self, channel: grpc.Channel, verb: str, stream: Stream) -> None:
        """Keep a stream for the next caller."""
        with self._lock:
            is_kept = len(self._idle) < IDLE_MAX
            if is_kept:
                self._idle.append((channel, verb, self._clock.monotonic(), stream))
        if not is_kept:
            stream.close()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for each in idle:
            each[3].close()


class OverdueCalls:
    """Ends streams whose answer is overdue, since gRPC has no timeout for a single message.

    One thread checks all calls a few times per timeout, while there are any.
    """

    def __init__(self, clock: Clock, timeout_seconds: float) -> None:
        self._clock = clock
        self._timeout_seconds = timeout_seconds
        self._condition = threading.Condition()
        self._due_at: dict[Stream, float] = {}
        self._thread: threading.Thread | None = None
        self._is_idle = False
        self._closed = False

    def ask(self, stream: Stream, message: bytes) -> bytes:
        """As `Stream.ask`, with a timeout."""
        with SHIELD, self._condition:
            self._due_at[stream] = self._clock.monotonic() + self._timeout_seconds
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._watch, name="leasehold-grpc-timeouts", daemon=True
                )
                self._thread.start()
            elif self._is_idle:
                self._condition.notify()
        try:
            return stream.ask(message)
        finally:
            with SHIELD, self._condition:
                self._due_at.pop(stream, None)

    def close(self) -> None:
        with self._condition:
            self._closed = True
            self._condition.notify()

    def _watch(self) -> None:
        with self._condition:
            while not self._closed:
                self._is_idle = not self._due_at
                if self._is_idle:
                    self._condition.wait()
                    self._is_idle = False
                self._clock.wait(self._condition, self._timeout_seconds / LOOKS_PER_TIMEOUT)
                now = self._clock.monotonic()
                overdue = [stream for stream, at in self._due_at.items() if at <= now]
                for stream in overdue:
                    stream.close()
