"""`serve`: the store for other machines and other languages."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import click

from leasehold.cli.command import command
from leasehold.cli.output import cell, emit_one
from leasehold.cli.session import Session
from leasehold.errors import UnsupportedError

if TYPE_CHECKING:
    import socket

    from leasehold.worker.loglines import LogFormat

PORT: Final = 8700


@command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="0 for any."
)
@click.option("--insecure", is_flag=True, help="Let this machine in without a token.")
@click.option("--allow-host", multiple=True, help="A name it goes by, in the Host header, too.")
@click.option("--tls-cert", type=click.Path(exists=True, dir_okay=False), help="PEM; for https.")
@click.option("--tls-key", type=click.Path(exists=True, dir_okay=False), help="PEM; its key.")
@click.option(
    "--tls-client-ca",
    type=click.Path(exists=True, dir_okay=False),
    help="PEM; only clients with a certificate of this authority are let in.",
)
@click.option("--log-format", type=click.Choice(["plain", "json"]), default="plain",
              show_default=True, help="Log lines for people, or JSON.")  # fmt: skip
def serve(
    session: Session,
    host: str,
    port: int,
    allow_host: tuple[str, ...],
    tls_cert: str | None,
    tls_key: str | None,
    tls_client_ca: str | None,
    log_format: LogFormat,
    *,
    insecure: bool,
) -> None:
    """Serve the store over HTTP, until Ctrl-C or SIGTERM.

    Programs use the API below /api/v1, people the dashboard at the address that is printed.
    Whoever calls needs a token (`token create`); only health and readiness are open. With
    --insecure, which is for this machine alone, no token is needed, and command jobs are refused.

    \b
    Examples: queuectl serve
              queuectl serve --host 0.0.0.0 --allow-host jobs.example.com \\
                  --tls-cert cert.pem --tls-key key.pem
    """
    server = _server_module()
    _check(host, insecure=insecure)
    tls = _tls(tls_cert, tls_key, tls_client_ca)
    try:
        listener = server.bind(host, port)
    except OSError as error:
        raise click.ClickException(f"cannot listen on {host} port {port}: {error}") from None
    store = session.new_queue.store
    address = _address(host, listener, https=bool(tls))
    if not insecure and not store.tokens():
        session.tell("Nobody can come in yet: make a token with `queuectl token create`.")
    if not tls and not _is_loopback(host):
        session.tell(
            "Tokens cross the network as they are: use --tls-cert, or a proxy that speaks https."
        )
    _log_to_stderr(log_format)
    server.serve(
        store,
        listener,
        insecure=insecure,
        hosts=(host, *allow_host),
        beside=_dashboard(session),
        tls=tls,
        on_started=lambda: _show(session, address),
    )


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


def _check(host: str, *, insecure: bool) -> None:
    if insecure and not _is_loopback(host):
        raise click.UsageError(
            f"--insecure lets everybody in who can reach {host}: it is for 127.0.0.1 and ::1 only"
        )


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
    told: dict[str, Any] = {"ssl_certfile": cert, "ssl_keyfile": key}
    if client_ca is not None:
        told |= {"ssl_ca_certs": client_ca, "ssl_cert_reqs": ssl.CERT_REQUIRED}
    return told


def _address(host: str, listener: socket.socket, *, https: bool) -> str:
    port = listener.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if https else 'http'}://{shown}:{port}"


def _show(session: Session, address: str) -> None:
    """The banner: for people a sentence, for programs a document."""
    from leasehold import __version__

    document = {
        "address": address,
        "store": session.shown_store,
        "version": __version__,
        "pid": os.getpid(),
    }
    emit_one(
        session,
        document,
        show=lambda: click.echo(
            f"leasehold {__version__} serves {cell(session.shown_store)} at {address} "
            "(Ctrl-C stops it)"
        ),
    )


def _log_to_stderr(log_format: LogFormat) -> None:
    from leasehold.worker.loglines import log_to_stderr

    log_to_stderr(quiet=True, log_format=log_format)
