"""The messages between a worker and a child process: typed, one frame each.

A frame is the message's length (four bytes, most significant first) and the message as MessagePack.
Everything is data: an error crosses as text, never as a pickled exception.

Every message about a job names its lease, and a receiver refuses messages about another lease: a
thread that outlived its job, or a process forked from the child, cannot speak for the next one.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from typing import Final, Literal, Self

import msgspec

from leasehold.core.model.joblog import LogLine
from leasehold.core.model.lease import Lease, Settled
from leasehold.core.model.outcome import JobError, Outcome
from leasehold.errors import PayloadTooLargeError
from leasehold.worker.context import StopCause
from leasehold.worker.dependencies import DependencyResult
from leasehold.worker.loglines import LineStyle

FRAME_BYTES_MAX: Final = 64 * 1024 * 1024
HEADER_BYTES: Final = 4


class LeaseKey(msgspec.Struct, frozen=True, array_like=True):
    """The attempt that a message is about: no other attempt ever has the same job and version."""

    job_id: str
    version: int

    @classmethod
    def of(cls, lease: Lease) -> Self:
        return cls(lease.job_id, lease.version)


class ChildSetup(msgspec.Struct, frozen=True, tag="setup"):
    """The worker's first message: where modules are, which is needed first, how log lines look."""

    sys_path: list[str]
    python_path: str | None
    """The worker's own PYTHONPATH; the child was started with another."""
    module: str
    line_style: LineStyle


class Piece(msgspec.Struct, frozen=True, tag="part"):
    """A piece of a payload or a result that is too large for the message that follows."""

    about: LeaseKey
    data: bytes


class Begin(msgspec.Struct, frozen=True, tag="begin"):
    """Run this job with the function found under this name."""

    lease: Lease
    module: str
    qualname: str
    pickle_key: bytes | None
    result_bytes_max: int
    """The largest result that can be stored."""
    store: str | None = None
    """The address of the job's store, for a transaction of the task's own."""


class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """Stop the job; the child is killed soon after."""

    about: LeaseKey
    cause: StopCause
    reason: str


class DependencyAnswer(msgspec.Struct, frozen=True, tag="answer"):
    """The results of the job's dependencies, or why they could not be read."""

    about: LeaseKey
    results: list[DependencyResult]
    error: JobError | None = None


class Leave(msgspec.Struct, frozen=True, tag="leave"):
    """The answer to a favour, once it is done, or why it could not be done."""

    about: LeaseKey
    granted: bool
    error: JobError | None = None


class KeptResult(msgspec.Struct, frozen=True, tag="kept"):
    """The reference to settle in place of a stored large result, or why it was not stored."""

    about: LeaseKey
    result: bytes
    codec: str
    error: JobError | None = None


class ChildReady(msgspec.Struct, frozen=True, tag="ready"):
    """The child has started."""


class ProgressReport(msgspec.Struct, frozen=True, tag="progress"):
    """The task's progress, as JSON."""

    about: LeaseKey
    document: bytes


class Logged(msgspec.Struct, frozen=True, tag="log"):
    """A line that the task logged."""

    about: LeaseKey
    line: LogLine


class Ask(msgspec.Struct, frozen=True, tag="ask"):
    """The task requests the results of its job's dependencies."""

    about: LeaseKey


Favour = Literal["make_way", "claim", "gave_up"]
"""The requests of a task's own transaction to the worker; see `leasehold.worker.backing`."""


class FavourRequest(msgspec.Struct, frozen=True, tag="request"):
    """The task's own transaction needs a favour."""

    about: LeaseKey
    favour: Favour


class Keep(msgspec.Struct, frozen=True, tag="keep"):
    """Store the result whose parts were sent ahead."""

    about: LeaseKey
    codec: str


class CodeEnded(msgspec.Struct, frozen=True, tag="ended"):
    """The job's code has ended."""

    about: LeaseKey
    outcome: Outcome
    settled: Settled | None = None
    """The store's answer, if the task has completed its job in its own transaction."""
    lasting: str | None = None
    """The task's lasting changes to its process, which must therefore run no other job."""


ToChild = ChildSetup | Piece | Begin | Stop | DependencyAnswer | Leave | KeptResult
FromChild = ChildReady | ProgressReport | Logged | Ask | FavourRequest | Piece | Keep | CodeEnded

_to_child: Final = msgspec.msgpack.Decoder[ToChild](ToChild)
_from_child: Final = msgspec.msgpack.Decoder[FromChild](FromChild)


def to_frame(message: ToChild | FromChild) -> bytes:
    """The bytes of one message; raises PayloadTooLargeError if no frame can hold it."""
    body = msgspec.msgpack.encode(message)
    if len(body) > FRAME_BYTES_MAX:
        raise PayloadTooLargeError(
            f"{len(body)} bytes are too many to pass between a worker and its child process; "
            f"at most {FRAME_BYTES_MAX} are allowed"
        )
    return len(body).to_bytes(HEADER_BYTES) + body


def body_bytes(header: bytes) -> int:
    """How many bytes follow a header; raises ConnectionError for an invalid one."""
    length = int.from_bytes(header)
    if length > FRAME_BYTES_MAX:
        raise ConnectionError(f"the child process sent an invalid message, of {length} bytes")
    return length


def from_child(body: bytes) -> FromChild:
    """The message in a frame that came from a child; raises ConnectionError if there is none."""
    try:
        message: FromChild = _from_child.decode(body)
        return message
    except msgspec.DecodeError as error:
        raise ConnectionError(f"the child process sent an invalid message: {error}") from error


class ChildEnd:
    """The child's end of the connection. Any thread may send; one receives.

    It belongs to the process that made it; in a forked copy it counts as closed.
    """

    def __init__(self, connection: socket.socket) -> None:
        # Set explicitly: the default may have been changed, and the other side may have made the
        # shared descriptor non-blocking.
        connection.settimeout(None)
        self._socket = connection
        self._stream = connection.makefile("rb")
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._inode = os.fstat(connection.fileno()).st_ino
        os.register_at_fork(after_in_child=self._close_in_copy)

    def send(self, message: FromChild) -> None:
        """Send a message; raises ConnectionError if this process or this descriptor must not."""
        if os.getpid() != self._pid:
            raise ConnectionError(
                "only the process that runs a job may send messages to its worker"
            )
        frame = to_frame(message)
        with self._lock:
            # A task may have closed the descriptor, whose number may belong to another file by now.
            if os.fstat(self._socket.fileno()).st_ino != self._inode:
                raise ConnectionError("the connection to the worker was closed and replaced")
            self._socket.sendall(frame)

    def receive(self) -> ToChild | None:
        """The next message; None when the worker has closed the connection or is gone."""
        header = self._stream.read(HEADER_BYTES)
        if len(header) < HEADER_BYTES:
            return None
        length = body_bytes(header)
        body = self._stream.read(length)
        return _to_child.decode(body) if len(body) == length else None

    def _close_in_copy(self) -> None:
        # Close only the descriptor: the stream's lock may be held by a thread that does not exist
        # here.
        with contextlib.suppress(OSError):
            os.close(self._socket.detach())
