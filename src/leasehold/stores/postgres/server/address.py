"""The address of a store: a libpq URL with a few parameters of Leasehold's own."""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from leasehold.errors import UnsupportedError

SCHEMA: Final = "leasehold"
"""The default schema of a store's tables."""
POOL_SIZE: Final = 10
POOL_TIMEOUT_SECONDS: Final = 30.0
STATEMENT_TIMEOUT_SECONDS: Final = 60.0
LOCK_TIMEOUT_SECONDS: Final = 10.0
AWAY_SECONDS: Final = 5.0

_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}\Z")
_NUMBERS: Final = {
    "pool_size": (1, 1000),
    "pool_timeout_seconds": (0.1, 3600),
    "statement_timeout_seconds": (0.1, 86_400),
    "lock_timeout_seconds": (0.1, 86_400),
    "away_seconds": (0.5, 3600),
}


class Address(NamedTuple):
    """A parsed store URL."""

    conninfo: str
    """The URL for libpq, without Leasehold's own parameters."""
    schema: str = SCHEMA
    pool_size: int = POOL_SIZE
    pool_timeout_seconds: float = POOL_TIMEOUT_SECONDS
    statement_timeout_seconds: float = STATEMENT_TIMEOUT_SECONDS
    lock_timeout_seconds: float = LOCK_TIMEOUT_SECONDS
    away_seconds: float = AWAY_SECONDS
    """How long a call waits for an unreachable server; after half of that without an answer or a
    connection, the server is probed (`pulse`).
    """
    replica: Address | None = None
    """Another server with a copy of the same store, for callers that only read."""

    @property
    def shown(self) -> str:
        """The address for messages: without user, password and parameters."""
        parts = urlsplit(self.conninfo)
        place = parts.netloc.rpartition("@")[2]
        return f"postgresql://{place}{parts.path} (schema {self.schema})"


def parse(url: str) -> Address:
    """Parse a store URL; raises UnsupportedError for an invalid parameter.

    >>> parse("postgresql://me@db/jobs?schema=tests&sslmode=require").schema
    'tests'
    >>> parse("postgresql://db/jobs?schema=tests&replica=postgresql://copy/jobs").replica.shown
    'postgresql://copy/jobs (schema tests)'
    >>> parse("postgresql://me@db/jobs?schema=tests&sslmode=require").conninfo
    'postgresql://me@db/jobs?sslmode=require'
    """
    parts = urlsplit(url)
    options = parse_qsl(parts.query, keep_blank_values=True)
    ours = {name: value for name, value in options if name in ("schema", "replica", *_NUMBERS)}
    theirs = urlencode([pair for pair in options if pair[0] not in ours])
    schema = ours.pop("schema", SCHEMA)
    if not _NAME.match(schema):
        raise UnsupportedError(
            f"schema={schema!r}: a schema's name is of small letters, digits and underscores"
        )
    replica = _replica(ours.pop("replica", None), schema)
    numbers = {name: _number(name, text) for name, text in ours.items()}
    size = int(numbers.pop("pool_size", POOL_SIZE))
    conninfo = urlunsplit(("postgresql", parts.netloc, parts.path, theirs, ""))
    return Address(conninfo, schema, size, **numbers, replica=replica)


def _replica(url: str | None, schema: str) -> Address | None:
    """The replica's address; its schema has the same name, unless its URL names another."""
    if url is None:
        return None
    if urlsplit(url).scheme not in ("postgresql", "postgres"):
        raise UnsupportedError(
            "replica=...: give the URL of a server, as in replica=postgresql://me@replica/jobs, "
            "and write %26 for an & in it"
        )
    found = parse(url)
    is_named = any(name == "schema" for name, _ in parse_qsl(urlsplit(url).query))
    return found if is_named else found._replace(schema=schema)


def _number(name: str, text: str) -> float:
    least, most = _NUMBERS[name]
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not least <= number <= most:
        raise UnsupportedError(f"{name}={text!r}: give a number from {least:g} to {most:g}")
    return number
