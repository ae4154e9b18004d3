"""The gRPC server: limits, TLS, health, reflection, and a lossless stop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import grpc
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from leasehold.error_codes import CodedError
from leasehold.service.api import Api
from leasehold.service.grpc.call import bearer_in
from leasehold.service.grpc.descriptors import pool
from leasehold.service.grpc.errors import refusal_of
from leasehold.service.grpc.face import GrpcFace
from leasehold.service.grpc.text import SERVICE, STORE_SERVICE
from leasehold.service.limits import CALL_BYTES_MAX, CONNECTIONS_MAX, HEADER_BYTES_MAX, STOP_SECONDS

ENVELOPE_BYTES_MAX: Final = 64 * 1024
"""The bytes of a message around its contents."""
HANDSHAKE_SECONDS_MAX: Final = 10
CALLS_MAX: Final = 4096
"""Calls at once, over all connections."""


class GrpcAddress(NamedTuple):
    """Where the gRPC face listens."""

    host: str
    port: int
    """0 for any."""
    tls_cert: str | None = None
    tls_key: str | None = None
    """PEM files; the key may be in the certificate's."""
    tls_client_ca: str | None = None
    """A PEM file: only clients with a certificate of this authority are let in."""


class GrpcServer:
    """A server beside the one for HTTP, on the same event loop."""

    def __init__(self, api: Api, address: GrpcAddress) -> None:
        """Bind the port, in `port`; raises OSError if that cannot be."""
        self._server = aio.server(
            options=[
                ("grpc.so_reuseport", 0),
                ("grpc.max_receive_message_length", CALL_BYTES_MAX + ENVELOPE_BYTES_MAX),
                ("grpc.max_send_message_length", -1),
                ("grpc.max_metadata_size", HEADER_BYTES_MAX),
                ("grpc.max_allowed_incoming_connections", CONNECTIONS_MAX),
                ("grpc.server_handshake_timeout_ms", HANDSHAKE_SECONDS_MAX * 1000),
            ],
            maximum_concurrent_rpcs=CALLS_MAX,
        )
        self._face = GrpcFace(api)
        self._server.add_generic_rpc_handlers(self._face.handlers())
        health_pb2_grpc.add_HealthServicer_to_server(_Health(api), self._server)
        names = (SERVICE, STORE_SERVICE, health_pb2.DESCRIPTOR.services_by_name["Health"].full_name)
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(
            _Reflection(api, names), self._server
        )
        self.port = self._bind(address)

    def _bind(self, address: GrpcAddress) -> int:
        place = f"{address.host}:{address.port}"
        try:
            if address.tls_cert is None:
                port = self._server.add_insecure_port(place)
            else:
                port = self._server.add_secure_port(place, _credentials(address))
        except RuntimeError as error:
            raise OSError(str(error)) from None
        return int(port)

    async def start(self) -> None:
        await self._server.start()

    async def stop(self) -> None:
        """Accept nothing new, and let calls in flight finish; long polls were told to end."""
        self._face.idle_streams.end()
        await self._server.stop(STOP_SECONDS)


def _credentials(address: GrpcAddress) -> Any:
    assert address.tls_cert is not None
    cert = Path(address.tls_cert).read_bytes()
    key = cert if address.tls_key is None else Path(address.tls_key).read_bytes()
    ca = None if address.tls_client_ca is None else Path(address.tls_client_ca).read_bytes()
    return grpc.ssl_server_credentials([(key, cert)], ca, require_client_auth=ca is not None)


def _described() -> Any:
    """Our descriptors, and those of the health service."""
    known = pool()
    known.AddSerializedFile(health_pb2.DESCRIPTOR.serialized_pb)
    return known


class _Health(health_pb2_grpc.HealthServicer):  # type: ignore[misc]  # untyped
    """Open to everybody: "" is whether the server is alive, a service's name whether it is ready.

    There is no Watch: anybody could keep any number of them open.
    """

    def __init__(self, api: Api) -> None:
        self._api = api

    async def Check(self, request: Any, context: Any) -> Any:  # noqa: N802  # the proto's name
        status = health_pb2.HealthCheckResponse
        if request.service not in ("", SERVICE, STORE_SERVICE):
            await context.abort(grpc.StatusCode.NOT_FOUND, "there is no such service")
        if request.service:
            try:
                await self._api.in_thread(self._api.store.now)
            except CodedError:
                return status(status=status.NOT_SERVING)
        return status(status=status.SERVING)


class _Reflection(reflection.aio.ReflectionServicer):  # type: ignore[misc]  # untyped
    """The schema of the service is for those who may call it.

    Not as an interceptor, by which every other call would have to pass.
    """

    def __init__(self, api: Api, names: Sequence[str]) -> None:
        super().__init__(names, pool=_described())
        self._api = api

    async def ServerReflectionInfo(  # noqa: N802  # the proto's name
        self, request_iterator: Any, context: Any
    ) -> AsyncIterator[Any]:
        secret = bearer_in(context.invocation_metadata())
        try:
            await self._api.on_thread(lambda: self._api.authenticate(secret))
        except CodedError as error:
            refusal = refusal_of(error)
            await context.abort(refusal.code, refusal.message, refusal.metadata)
        async for answer in super().ServerReflectionInfo(request_iterator, context):
            yield answer
