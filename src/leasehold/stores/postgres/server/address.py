"""The address of a store: a libpq URL with a few parameters of Leasehold's own."""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit, urlunsplit

from psycopg.pq import Conninfo

from leasehold.core.model.phrases import did_you_mean
from leasehold.errors import UnsupportedError

SCHEMA: Final = "leasehold"
"""The default schema of a store's tables."""
POOL_SIZE: Final = 10
POOL_TIMEOUT_SECONDS: Final = 30.0
STATEMENT_TIMEOUT_SECONDS: Final = 60.0
LOCK_TIMEOUT_SECONDS: Final = 10.0
AWAY_SECONDS: Final = 5.0

_NAME_LENGTH_MAX: Final = 53
"""The channel of its news, `leasehold_...`, is a name of the server's as well, of at most 63."""
_NAME: Final = re.compile(rf"(?!pg_)[a-z_][a-z0-9_]{{0,{_NAME_LENGTH_MAX - 1}}}\Z")
_WORD: Final = re.compile(r"[a-z_]{1,40}")
_HOST: Final = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(:\d*)?")
_IS_RAW: Final = re.compile(r"#|%(?![0-9A-Fa-f]{2})")
_NUMBERS: Final = {
    "pool_size": (1, 1000),
    "pool_timeout_seconds": (0.1, 3600),
    "statement_timeout_seconds": (0.1, 86_400),
    "lock_timeout_seconds": (0.1, 86_400),
    "away_seconds": (0.5, 3600),
}
_OURS: Final = ("schema", "replica", *_NUMBERS)


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
    """Parse a store URL; raises UnsupportedError for an invalid one, without its password.

    >>> parse("postgresql://me@db/jobs?schema=tests&sslmode=require").schema
    'tests'
    >>> parse("postgresql://db/jobs?schema=tests&replica=postgresql://copy/jobs").replica.shown
    'postgresql://copy/jobs (schema tests)'
    >>> parse("postgresql://me@db/jobs?schema=tests&options=-c%20jit%3Doff").conninfo
    'postgresql://me@db/jobs?options=-c%20jit%3Doff'
    """
    parts = _split(url)
    ours: dict[str, str] = {}
    theirs = []
    for pair in filter(None, parts.query.split("&")):
        name, _, value = pair.partition("=")
        if name in _OURS:
            ours[name] = unquote(value)
        else:
            _check_known(name)
            # As it is: libpq decodes it, and takes a plus sign for what it is.
            theirs.append(pair)
    schema = ours.pop("schema", SCHEMA)
    if not _NAME.match(schema):
        raise UnsupportedError(
            f"schema={schema!r}: a schema's name is of small letters, digits and underscores, has "
            f"at most {_NAME_LENGTH_MAX} of them, and does not begin with a digit or pg_"
        )
    replica = _replica(ours.pop("replica", None), schema)
    numbers = {name: _number(name, text) for name, text in ours.items()}
    size = int(numbers.pop("pool_size", POOL_SIZE))
    conninfo = urlunsplit(("postgresql", parts.netloc, parts.path, "&".join(theirs), ""))
    return Address(conninfo, schema, size, **numbers, replica=replica)


def _split(url: str) -> SplitResult:
    """The parts of a URL, if libpq would read it in the same way.

    Otherwise something is in it that had to be encoded, most likely in the password, and the error
    of whoever reads on would show a part of that.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = None
    if parts is not None:
        login, _, hosts = parts.netloc.rpartition("@")
        pairs = filter(None, parts.query.split("&"))
        if (
            all(map(_HOST.fullmatch, hosts.split(",")))
            and not _IS_RAW.search(url)
            and "@" not in login + parts.path
            and all("=" in pair for pair in pairs)
        ):
            return parts
    raise UnsupportedError(
        "this postgresql:// URL cannot be read: its form is "
        "postgresql://user:password@host:port/database?name=value&name=value, and special "
        "characters of user and password are encoded (%25 for %, %40 for @, %23 for #, %2F for /, "
        "%3F for ?)"
    )


def _check_known(name: str) -> None:
    """Refuse a parameter that neither the store nor libpq has."""
    known = {*_OURS, "redis", "ssl", *(each.keyword.decode() for each in Conninfo.get_defaults())}
    if unquote(name) not in known:
        shown = repr(name) if _WORD.fullmatch(name) else "in a postgresql:// URL"
        raise UnsupportedError(f"unknown parameter {shown}{did_you_mean(name, sorted(known))}")


def _replica(url: str | None, schema: str) -> Address | None:
    """The replica's address; its schema has the same name, unless its URL names another."""
    if url is None:
        return None
    if not url.startswith(("postgresql://", "postgres://")):
        raise UnsupportedError(
            "replica=...: give the URL of a server, as in replica=postgresql://me@replica/jobs, "
            "and write %26 for an & in it"
        )
    try:
        found = parse(url)
    except UnsupportedError as error:
        raise UnsupportedError(f"replica=...: {error}") from None
    is_named = any(name == "schema" for name, _ in parse_qsl(urlsplit(url).query))
    return found if is_named else found._replace(schema=schema)


def _number(name: str, text: str) -> float:
    least, most = _NUMBERS[name]
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    is_whole = name != "pool_size" or number.is_integer()
    if not (least <= number <= most and is_whole):
        kind = "whole number" if name == "pool_size" else "number"
        raise UnsupportedError(f"{name}={text!r}: give a {kind} from {least:g} to {most:g}")
    return number
