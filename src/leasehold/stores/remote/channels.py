"""gRPC channels to the servers of a service: each carries any number of calls at once.

The main thread's calls are carried out by another thread (`other_thread`).
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, Final

import grpc
import msgspec
from google.protobuf.wrappers_pb2 import BytesValue
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc

from leasehold.core.contract.wire import STREAMED
from leasehold.core.model.error_documents import error_from
from leasehold.env import Env
from leasehold.error_codes import CodedError
from leasehold.errors import RequestTooLargeError, StoreError, UnsupportedError
from leasehold.stores.remote.address import Address
from leasehold.stores.remote.call_streams import (
    CallStream,
    IdleCallStreams,
    OverdueCalls,
    Stream,
)
from leasehold.stores.remote.carrying import CONNECT_SECONDS, FailedError
from leasehold.stores.remote.direct_stream import DirectStream, is_possible
from leasehold.stores.remote.other_thread import OtherThread

SERVICE: Final = "leasehold.v1.Store"
_DETAILS: Final = "grpc-status-details-bin"
_METADATA_BYTES_MAX: Final = 64 * 1024
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # An answer with a few hundred leases arrives in one frame. This applies to answers only: the
    # server decides how much unread data it accepts.
    ("grpc.http2.max_frame_size", 1024 * 1024),
    ("grpc.http2.lookahead_bytes", 4 * 1024 * 1024),
    ("grpc.max_metadata_size", _METADATA_BYTES_MAX),
    # `transport.py` decides about retries and their timing.
    ("grpc.enable_retries", 0),
    # Each store has its own connection to each server, so none is shared with a closed store.
    ("grpc.use_local_subchannel_pool", 1),
)
_NO_REPLY: Final = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    }
)


class Channels:
    """One channel per server, opened on its first use and after each failure."""

    def __init__(self, address: Address, env: Env) -> None:
        self._address = address
        self._idle = IdleCallStreams(env.clock)
        self._overdue = OverdueCalls(env.clock, address.timeout_seconds)
        self.other_thread = OtherThread()
        self._lock = threading.Lock()
        self._open: dict[int, grpc.Channel] = {}
        self._streams: dict[grpc.Channel, set[Stream]] = {}
        """Open streams: a channel cannot be closed before them."""
        self._credentials = _credentials(address) if address.is_secure else None
        self._metadata: tuple[tuple[str, str], ...] = ()
        if address.token is not None:
            self._metadata = (("authorization", f"Bearer {address.token}"),)

    def call(self, server: int, verb: str, body: bytes) -> bytes:
        carry_out = self._call_on_stream if verb in STREAMED else self._call_alone
        return self.other_thread.run(lambda: carry_out(server, verb, body))

    def _call_alone(self, server: int, verb: str, body: bytes) -> bytes:
        # Without a future, for which another thread would wait for the answer and wake this one.
        channel = self._channel(server)
        method = channel.unary_unary(_path(verb))
        try:
            answer: bytes = method(
                BytesValue(value=body).SerializeToString(),
                timeout=self._address.timeout_seconds,
                metadata=self._metadata,
            )
        except ValueError as closed:  # by another thread, to which it had failed
            raise FailedError(closed, was_sent=False) from None
        except grpc.RpcError as error:
            raise self._failure(server, channel, error) from None
        return _unpacked(answer)

    def line(self) -> GrpcLine:
        return GrpcLine(self)

    def _call_on_stream(self, server: int, verb: str, body: bytes) -> bytes:
        channel = self._channel(server)
        stream = self._idle.take(channel, verb) or self.stream(channel, verb)
        answer = self.ask_on(server, channel, stream, body)
        self._idle.keep(channel, verb, stream)
        return answer

    def open(self, server: int, verb: str) -> tuple[grpc.Channel, Stream]:
        """A new stream; raises FailedError if the server cannot be reached."""
        channel = self._channel(server)
        return channel, self.stream(channel, verb)

    def stream(self, channel: grpc.Channel, verb: str) -> Stream:
        method = channel.stream_stream(_path(verb))
        kind = DirectStream if is_possible(method) else CallStream
        with self._lock:
            streams = self._streams.setdefault(channel, set())
            for ended in [each for each in streams if not each.is_open]:
                streams.remove(ended)
            try:
                stream = kind(method, self._metadata)
            except ValueError as closed:  # by another thread, to which it had failed
                raise FailedError(closed, was_sent=False) from None
            streams.add(stream)
        return stream

    def ask_on(self, server: int, channel: grpc.Channel, stream: Stream, body: bytes) -> bytes:
        """The answer on one stream, which is closed if it fails."""
        try:
            answer = self._overdue.ask(stream, BytesValue(value=body).SerializeToString())
        except grpc.RpcError as error:
            stream.close()
            raise self._failure(server, channel, error) from None
        except BaseException:
            # The next caller must not get the rest of the answer.
            stream.close()
            raise
        return _unpacked(answer)

    def _failure(self, server: int, channel: grpc.Channel, error: Any) -> Exception:
        told = _told(error, self._address)
        # A service that reports that its store is away has answered: the channel works.
        if error.code() is grpc.StatusCode.UNAVAILABLE and isinstance(told, FailedError):
            self._drop(server, channel)
        return told

    def close(self) -> None:
        self.other_thread.run(self._close_all)
        self.other_thread.close()

    def _close_all(self) -> None:
        self._overdue.close()
        self._idle.close()
        with self._lock:
            channels, self._open = list(self._open.values()), {}
        for channel in channels:
            self._close(channel)

    def _channel(self, server: int) -> grpc.Channel:
        """The channel to a server, which has answered on it."""
        with self._lock:
            known = self._open.get(server)
        if known is not None:
            return known
        channel = self._new_channel(server)
        # Until something has come back, a failed call does not show whether it was sent.
        check = health_pb2_grpc.HealthStub(channel).Check
        try:
            check(health_pb2.HealthCheckRequest(), timeout=CONNECT_SECONDS)
        except grpc.RpcError as error:
            if error.code() in _NO_REPLY:
                channel.close()
                told = error.details() or ""
                hint = self._address.certificate_hint if "closed" in told else ""
                raise FailedError(told + hint, was_sent=False) from None
        with self._lock:
            kept = self._open.setdefault(server, channel)
        if kept is not channel:
            channel.close()
        return kept

    def _new_channel(self, server: int) -> grpc.Channel:
        host, port = self._address.servers[server]
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        if self._credentials is None:
            return grpc.insecure_channel(place, _OPTIONS)
        return grpc.secure_channel(place, self._credentials, _OPTIONS)

    def _drop(self, server: int, channel: grpc.Channel) -> None:
        """Drop a channel: a new one connects at once, while this one would wait ever longer."""
        with self._lock:
            if self._open.get(server) is channel:
                del self._open[server]
        self._close(channel)

    def _close(self, channel: grpc.Channel) -> None:
        with self._lock:
            streams = self._streams.pop(channel, set())
        for stream in streams:
            stream.close()
        channel.close()


class GrpcLine:
    """A separate stream, which another thread may close."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self._run = channels.other_thread.run
        self._lock = threading.Lock()
        self._open: tuple[int, grpc.Channel, Stream] | None = None
        self._closed = False

    def call(self, server: int, verb: str, body: bytes) -> bytes:
        return self._run(lambda: self._call(server, verb, body))

    def _call(self, server: int, verb: str, body: bytes) -> bytes:
        if self._open is None or self._open[0] != server or not self._open[2].is_open:
            if self._open is not None:
                self._open[2].close()
            opened = self._channels.open(server, verb)
            with self._lock:
                self._open = (server, *opened)
                if self._closed:
                    opened[1].close()
                    raise FailedError("the connection was closed", was_sent=False)
        return self._channels.ask_on(*self._open, body)

    def hang_up(self) -> None:
        self._run(self._hang_up)

    def _hang_up(self) -> None:
        with self._lock:
            self._closed = True
            if self._open is not None:
                self._open[2].close()

    def close(self) -> None:
        """End the stream; channels belong to the store, and stay open."""
        self.hang_up()


def _path(verb: str) -> str:
    return f"/{SERVICE}/{verb.title().replace('_', '')}"


def _unpacked(answer: bytes) -> bytes:
    value: bytes = BytesValue.FromString(answer).value
    return value


def _told(error: Any, address: Address) -> Exception:
    """The error of a status: the service's, or FailedError."""
    code, details = error.code(), error.details() or ""
    if (problem := _problem(error)) is not None:
        return problem
    if "larger than max" in details:
        return RequestTooLargeError(f"{address}: {details}: send less at once")
    if code in _NO_REPLY:
        # An overloaded server says so before it looks at a call.
        return FailedError(details, was_sent=code is not grpc.StatusCode.RESOURCE_EXHAUSTED)
    if code in (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN):
        return StoreError(f"{address} failed ({details}); its log says why")
    return UnsupportedError(
        f"{address} is not a Leasehold service, or runs another version: it answered with "
        f"{code.name} ({details})"
    )


def _problem(error: Any) -> CodedError | None:
    packed = dict(error.trailing_metadata() or ()).get(_DETAILS)
    if packed is None:
        return None
    status = status_pb2.Status.FromString(packed)
    info = error_details_pb2.ErrorInfo()
    if not (status.details and status.details[0].Unpack(info)):
        return None
    fields = msgspec.json.decode(info.metadata.get("fields", "{}"))
    return error_from({"code": info.reason, "message": status.message, "fields": fields})


def _credentials(address: Address) -> Any:
    def pem(path: str | None) -> bytes | None:
        return None if path is None else Path(path).read_bytes()

    key = pem(address.key or address.cert)
    return grpc.ssl_channel_credentials(pem(address.ca), key, pem(address.cert))
