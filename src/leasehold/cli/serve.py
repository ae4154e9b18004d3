"""`serve`: the store for other machines and other languages."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from leasehold.cli.command import command
from leasehold.cli.output import cell, emit_one
from leasehold.cli.session import Session
from leasehold.errors import UnsupportedError

if TYPE_CHECKING:
    from leasehold.service.grpc.server import GrpcAddress
    from leasehold.worker.loglines import LogFormat

PORT: Final = 8700


@command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="0 for any."
)
@click.option("--grpc", "grpc_place", metavar="HOST:PORT", help="Also serve gRPC there.")
@click.option("--insecure", is_flag=True, help="Accept this machine without a token.")
@click.option("--allow-host", multiple=True, help="Another name of the server, in the Host header.")
@click.option("--tls-cert", type=click.Path(exists=True, dir_okay=False), help="PEM; for https.")
@click.option("--tls-key", type=click.Path(exists=True, dir_okay=False), help="PEM; its key.")
@click.option(
    "--tls-client-ca",
    type=click.Path(exists=True, dir_okay=False),
    help="PEM; accept only clients with a certificate of this authority.",
)
@click.option(
    "--blobs",
    metavar="PLACE",
    help="Where payloads and results over 256 KiB are kept: a folder, or s3://bucket/prefix.  "
    "[default: a folder beside the database]",
)
@click.option(
    "--backup-dir",
    type=click.Path(exists=True, file_okay=False),
    help="Let admins write backups of a SQLite store into this folder.",
)
@click.option("--log-format", type=click.Choice(["plain", "json"]), default="plain",
              show_default=True, help="Log lines as text, or as JSON.")  # fmt: skip
def serve(
    session: Session,
    host: str,
    port: int,
    grpc_place: str | None,
    allow_host: tuple[str, ...],
    tls_cert: str | None,
    tls_key: str | None,
    tls_client_ca: str | None,
    blobs: str | None,
    backup_dir: str | None,
    log_format: LogFormat,
    *,
    insecure: bool,
) -> None:
    """Serve the store over HTTP, and gRPC with --grpc, until Ctrl-C or SIGTERM.

    Programs use the API below /api/v1, people the dashboard at the address that is printed.
    Every caller needs a token (`token create`); only health and readiness are open. With
    --insecure, which is for this machine alone, no token is needed, and command jobs are refused.

    \b
    Examples:
      queuectl serve
      queuectl serve --grpc 127.0.0.1:8701
      queuectl serve --host 0.0.0.0 --allow-host jobs.example.com \\
          --tls-cert cert.pem --tls-key key.pem
    """
    from leasehold.connect import served

    server = _server_module()
    tls = _tls(tls_cert, tls_key, tls_client_ca)
    grpc_address = None
    if grpc_place is not None:
        grpc_address = _grpc_address(grpc_place, tls_cert, tls_key, tls_client_ca)
    reached = [host] if grpc_address is None else [host, grpc_address.host]
    _check(reached, insecure=insecure)
    try:
        listener = server.bind(host, port)
    except OSError as error:
        raise click.ClickException(f"cannot listen on {host} port {port}: {error}") from None
    session.store_url = served(session.store_url)
    session.tells_of_new_store = False  # The first line names the store.
    store = session.new_queue.store
    address = _address("https" if tls else "http", host, listener.getsockname()[1])
    _log_to_stderr(session, log_format)
    # A program that reads JSON lines reads no others.
    tell = logging.getLogger(__name__).warning if log_format == "json" else session.tell
    if not insecure and not store.tokens():
        tell("No client has access yet: create a token with `queuectl token create`.")
    if not tls and not all(map(_is_loopback, reached)):
        tell(
            "Tokens cross the network unencrypted: use --tls-cert, or a proxy that terminates TLS."
        )

    def show(grpc_port: int | None) -> None:
        at_grpc = None
        if grpc_address is not None and grpc_port is not None:
            at_grpc = _address("grpcs" if tls else "grpc", grpc_address.host, grpc_port)
        _show(session, address, at_grpc)

    try:
        server.serve(
            store,
            listener,
            blob_place=blobs,
            backup_folder=None if backup_dir is None else Path(backup_dir),
            insecure=insecure,
            hosts=(host, *allow_host),
            beside=_dashboard(session),
            tls=tls,
            grpc_address=grpc_address,
            on_started=show,
        )
    except OSError as error:
        if grpc_address is None:
            raise
        raise click.ClickException(f"cannot serve gRPC on {grpc_place}: {error}") from None


def _server_module() -> Any:
    try:
        from leasehold.service import server
    except ImportError as error:
        raise UnsupportedError(
            f"the service is not installed ({error.name} is missing): "
            "pip install 'leasehold[service]'"
        ) from None
    return server


def _dashboard(session: Session) -> Any:
    """What makes the dashboard's routes; none where it is not installed."""
    try:
        from leasehold.dashboard import dashboard_routes
    except ImportError as error:
        session.tell(
            f"There is no dashboard ({error.name} is missing): pip install 'leasehold[dashboard]'."
        )
        return lambda _: ()
    return dashboard_routes


def _check(hosts: list[str], *, insecure: bool) -> None:
    for host in hosts:
        if insecure and not _is_loopback(host):
            raise click.UsageError(
                f"--insecure gives access to everybody who can reach {host}: use it with "
                f"127.0.0.1 or ::1 only"
            )


def _grpc_address(
    place: str, cert: str | None, key: str | None, client_ca: str | None
) -> GrpcAddress:
    # Its library would write a line of its own about each client that fails to shake hands.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    try:
        from leasehold.service.grpc.server import GrpcAddress
    except ImportError as error:
        raise UnsupportedError(
            f"gRPC is not installed ({error.name} is missing): pip install 'leasehold[grpc]'"
        ) from None
    host, colon, port = place.rpartition(":")
    if not (colon and host and port.isdecimal() and int(port) <= 65535):
        raise click.UsageError(f"--grpc takes HOST:PORT, as in 127.0.0.1:8701, not {place!r}")
    return GrpcAddress(host, int(port), cert, key, client_ca)


def _is_loopback(host: str) -> bool:
    from leasehold.service.http_guard import is_loopback

    return is_loopback(host)


def _tls(cert: str | None, key: str | None, client_ca: str | None) -> dict[str, Any]:
    """What uvicorn is told about TLS."""
    import ssl

    if cert is None:
        if key or client_ca:
            raise click.UsageError("--tls-key and --tls-client-ca need --tls-cert")
        return {}
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key)
    except OSError as error:
        raise click.UsageError(
            f"{cert} is no certificate in PEM, or {key or cert} does not have its key (--tls-key): "
            f"{error}"
        ) from None
    told: dict[str, Any] = {"ssl_certfile": cert, "ssl_keyfile": key}
    if client_ca is not None:
        told |= {"ssl_ca_certs": client_ca, "ssl_cert_reqs": ssl.CERT_REQUIRED}
    return told


def _address(scheme: str, host: str, port: int) -> str:
    shown = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return f"{scheme}://{shown}:{port}"


def _show(session: Session, address: str, at_grpc: str | None) -> None:
    """The banner: for people a sentence, for programs a document."""
    from leasehold import __version__

    document = {
        "address": address,
        "store": session.shown_store,
        "version": __version__,
        "pid": os.getpid(),
    }
    if at_grpc is not None:
        document["grpc_address"] = at_grpc
    places = address if at_grpc is None else f"{address} and {at_grpc}"
    emit_one(
        session,
        document,
        show=lambda: click.echo(
            f"leasehold {__version__} serves {cell(session.shown_store)} at {places} "
            "(Ctrl-C stops it)"
        ),
    )


def _log_to_stderr(session: Session, log_format: LogFormat) -> None:
    from leasehold.worker.loglines import log_to_stderr

    log_to_stderr(quiet=True, log_format=log_format, utc=session.utc)
