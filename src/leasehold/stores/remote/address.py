"""The address of a service, and how to talk to it, from a URL.

http://TOKEN@jobs.example.com:8700                one server
https://TOKEN@jobs-1:8700,jobs-2:8700/prefix      several, any of which will do
https://jobs?timeout_seconds=20&retry_seconds=60  the token from LEASEHOLD_TOKEN
grpc://TOKEN@jobs.example.com:8701                the same over gRPC; grpcs:// with TLS
"""

from __future__ import annotations

import os
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from leasehold.errors import UnsupportedError

TOKEN_VARIABLE: Final = "LEASEHOLD_TOKEN"  # noqa: S105  # the name of it
_PORTS: Final = {"http": 80, "https": 443, "grpc": 8701, "grpcs": 8701}


class Address(NamedTuple):
    """The address of a service, with all its servers."""

    scheme: str
    servers: tuple[tuple[str, int], ...]
    """Hosts and ports, in the order in which they are tried."""
    prefix: str
    """The path of the service on its servers, "" for the root."""
    token: str | None
    timeout_seconds: float
    """How long one reply may take."""
    retry_seconds: float
    """How long in total a call waits for a server to come back."""
    ca: str | None
    """A PEM file with the authorities to trust instead of the system's."""
    cert: str | None
    key: str | None
    """The client's own certificate and its key, PEM files, if the service asks for one."""

    @property
    def is_grpc(self) -> bool:
        return self.scheme.startswith("grpc")

    @property
    def is_secure(self) -> bool:
        return self.scheme.endswith("s")

    @property
    def certificate_hint(self) -> str:
        """The hint for a connection closed by a server, which does not say that a certificate is
        missing.
        """
        if not self.is_secure or self.cert is not None:
            return ""
        return (
            " (does the server ask for a client certificate? It is cert=FILE&key=FILE in the URL)"
        )

    def __str__(self) -> str:
        """The URL without its secret."""
        servers = ",".join(f"{_bracketed(host)}:{port}" for host, port in self.servers)
        return f"{self.scheme}://{servers}{self.prefix}"


def parse(url: str) -> Address:
    """The address in a URL; raises UnsupportedError, which never contains the token."""
    scheme, _, rest = url.partition("://")
    place, _, query = rest.partition("?")
    names, slash, prefix = place.partition("/")
    user, at, hosts = names.rpartition("@")
    options = dict(parse_qsl(query, keep_blank_values=True))
    address = Address(
        scheme,
        tuple(_server(scheme, each) for each in hosts.split(",")),
        (slash + prefix).rstrip("/"),
        unquote(user.removesuffix(":")) if at else os.environ.get(TOKEN_VARIABLE) or None,
        _seconds(options, "timeout_seconds", 60.0),
        _seconds(options, "retry_seconds", 10.0),
        options.pop("ca", None),
        options.pop("cert", None),
        options.pop("key", None),
    )
    if address.is_grpc and address.prefix:
        raise UnsupportedError(f"'{address}': gRPC URLs have no path: write {scheme}://host:port")
    if options:
        raise UnsupportedError(f"'{address}': unknown parameter {min(options)!r}")
    for name, file in (("ca", address.ca), ("cert", address.cert), ("key", address.key)):
        _check_readable(address, name, file)
    return address


def _check_readable(address: Address, name: str, file: str | None) -> None:
    """OpenSSL reports that a file is missing, but not which one."""
    if file is not None:
        try:
            open(file, "rb").close()
        except OSError as error:
            raise UnsupportedError(
                f"'{address}': {name}={file} cannot be read: {error.strerror}"
            ) from error


def _server(scheme: str, text: str) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host:
        raise UnsupportedError(
            f"'{scheme}://...' names no server: write {scheme}://TOKEN@host:port, or several "
            "host:port separated by commas"
        )
    return host, port or _PORTS[scheme]


def _seconds(options: dict[str, str], name: str, default: float) -> float:
    text = options.pop(name, None)
    if text is None:
        return default
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 86_400:
        raise UnsupportedError(f"{name} is a number of seconds, at most a day, not {text!r}")
    return seconds


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
