"""The first check of every request: its Host must be this service's, and no other site may have
sent it.

A page of another site can make a browser send requests here (CSRF), and a name that its owner
points here (DNS rebinding) makes them look like the service's own: the first has a foreign Origin,
the second a foreign Host.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leasehold.service.http_answers import plain_problem

ANY_HOST: Final = "*"
PROBES: Final = (b"/healthz", b"/readyz")
"""Answered under any Host: balancers check a server by its address. They tell nothing to strangers.
"""
LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")

SECURITY_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)


SENT_ONCE: Final = (b"authorization", b"idempotency-key")
"""Of two such headers a proxy may go by one, and the service by the other."""


class Guard:
    """Admits requests that name one of the hosts and come from no other site."""

    def __init__(self, app: ASGIApp, hosts: Sequence[str] = ()) -> None:
        self._app = app
        self._hosts = frozenset(host.lower().strip("[]") for host in (*LOOPBACK, *hosts))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await plain_problem(*refusal)(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                said = {name.lower() for name, _ in message["headers"]}
                more = [header for header in SECURITY_HEADERS if header[0] not in said]
                message["headers"] = [*message["headers"], *more]
            await send(message)

        # Routes are found by the path as it was sent, in which a %2F is a part of a name: job `a/b`
        # is not part `b` of job `a`.
        scope["path"] = scope["raw_path"].decode()
        await self._app(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> tuple[int, str, str] | None:
        if scope["raw_path"] in PROBES:
            return None
        names = [name for name, _ in scope["headers"]]
        for once in SENT_ONCE:
            if names.count(once) > 1:
                return 400, "repeated_header", f"the header {once.decode()} was sent more than once"
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        host = _name_of(hosts[0].decode("latin-1")) if len(hosts) == 1 else None
        if host is None or not self._is_ours(host):
            return (
                403,
                "unknown_host",
                "this service does not answer to that Host: see --allow-host",
            )
        origins = [value for name, value in scope["headers"] if name == b"origin"]
        for origin in origins:
            if _place_of(origin.decode("latin-1")) != hosts[0].decode("latin-1").lower():
                return 403, "foreign_origin", "requests from pages of other sites are refused"
        return None

    def _is_ours(self, host: str) -> bool:
        return ANY_HOST in self._hosts or host in self._hosts


def _name_of(header: str) -> str | None:
    """The host in a Host header, without its port; None if there is none."""
    try:
        place = urlsplit(f"//{header}")
        name, _ = place.hostname, place.port  # It checks the port, too.
    except ValueError:
        return None
    return name.lower() if name else None


def _place_of(origin: str) -> str | None:
    """The host and port in an Origin header; None if there are none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address.

    >>> is_loopback("localhost"), is_loopback("127.0.0.1"), is_loopback("::1")
    (True, True, True)
    >>> is_loopback("0.0.0.0"), is_loopback("jobs.example.com")
    (False, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
