"""URL -> store: the only module that knows the concrete stores.

jobs.db, /var/lib/app/jobs.db      a SQLite file
sqlite:///jobs.db                  the same; sqlite:////var/lib/app/jobs.db is absolute
sqlite:///jobs.db?durability=normal&lock_timeout_seconds=5
memory://                          a fresh store in this process
postgresql://user@host/database    a schema of a PostgreSQL database, for many machines
postgresql://...?schema=leasehold&pool_size=10&lock_timeout_seconds=10
postgresql://...?redis=redis://host:6379/0   with Redis beside it, which makes it faster
http://TOKEN@host:port             a store behind a service; https://, grpc:// and grpcs:// too
"""

from __future__ import annotations

import os
from typing import Final, Literal, cast

from leasehold.core.contract.accelerator import Accelerator
from leasehold.core.contract.store import Store
from leasehold.core.model.phrases import did_you_mean
from leasehold.core.model.retention import RetentionPolicy
from leasehold.core.model.text import is_text
from leasehold.env import SYSTEM, Env
from leasehold.errors import UnsupportedError
from leasehold.interrupts import import_whole

Durability = Literal["full", "normal"]

_SQLITE_PARAMETERS: Final = ("durability=", "lock_timeout_seconds=")

_SCHEMES: Final = (
    "sqlite", "memory", "postgresql", "postgres", "http", "https", "grpc", "grpcs",
)  # fmt: skip

LOCK_TIMEOUT_SECONDS_MAX: Final = 86_400.0
"""A write that may wait longer for its turn would as well wait for ever."""


def connect(
    url: str | os.PathLike[str],
    *,
    env: Env = SYSTEM,
    durability: Durability | None = None,
    retention: RetentionPolicy | None = None,
) -> Store:
    """Open the store that a URL or a path names.

    `retention` is for a store that forgets automatically, like a memory store.

    >>> store = connect("memory://")
    >>> store.queues()
    []
    >>> connect("redis://cache")
    Traceback (most recent call last):
    leasehold.errors.UnsupportedError: 'redis://...': Redis holds no jobs, it only makes \
PostgreSQL faster: postgresql://...?redis=redis://...
    """
    text = os.fspath(url)
    if not is_text(text) or "\0" in text:
        raise UnsupportedError(
            f"{text!r} is no URL and no path: it has characters that none can have"
        )
    scheme, separator, rest = text.partition("://")
    if not separator:
        path, _, query = text.partition("?")
        named, colon, place = path.partition(":")
        if colon and named in _SCHEMES:
            slashes = ":///" if named == "sqlite" else "://"
            raise UnsupportedError(
                f"'{named}:...' lacks slashes: write {named}{slashes}"
                f"{place.lstrip('/') if named == 'sqlite' else '...'}"
            )
        if query.startswith(_SQLITE_PARAMETERS):
            raise UnsupportedError(
                f"{text!r} is a path, which takes no parameters: write sqlite:///{path}?{query}"
            )
        return _sqlite(text, env, durability or "full", {})
    if scheme == "sqlite":
        return _sqlite(*_path_of(text, rest, env, durability))
    if scheme == "memory":
        if rest.strip("/"):
            raise UnsupportedError(f"{text!r}: memory:// takes no name and no parameters")
        return _memory(env, retention)
    if scheme in ("postgresql", "postgres"):
        return _postgres(text, env)
    if scheme in ("http", "https", "grpc", "grpcs"):
        return _remote(text, env, durability)
    # The rest of a URL may hold a password, and errors end up in logs.
    plain, plus, _ = scheme.partition("+")
    if plus and plain in _SCHEMES:
        raise UnsupportedError(
            f"'{scheme}://...' names a driver, as SQLAlchemy does: write {plain}://..."
        )
    if scheme in ("redis", "rediss", "valkey"):
        raise UnsupportedError(
            f"'{scheme}://...': Redis holds no jobs, it only makes PostgreSQL faster: "
            "postgresql://...?redis=redis://..."
        )
    raise UnsupportedError(
        f"'{scheme}://...' is not a store: give a path, sqlite:///path, postgresql://..., "
        "http://host:port, grpc://host:port or memory://"
    )


SERVED_AWAY_SECONDS: Final = 2
"""So long a service waits for a database that does not answer, before it looks whether that is
there: its clients wait, and try again themselves."""


def served(url: str) -> str:
    """The URL for a process that serves the store to others; its own parameters count more.

    >>> served("postgresql://db/jobs?schema=tests"), served("jobs.db")
    ('postgresql://db/jobs?schema=tests&away_seconds=2', 'jobs.db')
    """
    place, _, query = url.partition("?")
    is_told = any(pair.startswith("away_seconds=") for pair in query.split("&"))
    if not place.startswith(("postgresql://", "postgres://")) or is_told:
        return url
    return f"{url}{'&' if '?' in url else '?'}away_seconds={SERVED_AWAY_SECONDS}"


def _path_of(
    url: str, rest: str, env: Env, durability: Durability | None
) -> tuple[str, Env, Durability, dict[str, float]]:
    from urllib.parse import parse_qsl, unquote

    place, _, query = rest.partition("?")
    if not place.startswith("/"):
        raise UnsupportedError(f"{url!r}: a SQLite URL has three slashes, as in sqlite:///jobs.db")
    options = dict(parse_qsl(query, keep_blank_values=True))
    level = options.pop("durability", durability or "full")
    limits = _limits(url, options)
    if options:
        name = next(iter(options))
        near = did_you_mean(name, [each.removesuffix("=") for each in _SQLITE_PARAMETERS])
        raise UnsupportedError(f"{url!r}: unknown parameter {name!r}{near}")
    if durability is not None and level != durability:
        raise UnsupportedError(f"{url!r} contradicts durability={durability!r}")
    return unquote(place[1:]), env, cast("Durability", level), limits


def _limits(url: str, options: dict[str, str]) -> dict[str, float]:
    """Separate the parameters of a URL that are limits from the others."""
    text = options.pop("lock_timeout_seconds", None)
    if text is None:
        return {}
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= LOCK_TIMEOUT_SECONDS_MAX:
        raise UnsupportedError(
            f"{url!r}: lock_timeout_seconds must be a number above 0 and at most "
            f"{LOCK_TIMEOUT_SECONDS_MAX:g}, not {text!r}"
        )
    return {"lock_timeout_seconds": seconds}


def _sqlite(path: str, env: Env, durability: Durability, limits: dict[str, float]) -> Store:
    if not path or path == ":memory:":
        raise UnsupportedError("a SQLite store needs a file; for a store in memory use memory://")
    if durability not in ("full", "normal"):
        raise UnsupportedError(f"durability must be 'full' or 'normal', not {durability!r}")
    import_whole("leasehold.stores.sqlite")
    from leasehold.stores.sqlite import SQLiteStore

    return SQLiteStore(path, env=env, durability=durability, **limits)


def _postgres(url: str, env: Env) -> Store:
    try:
        import_whole("leasehold.stores.postgres")
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in ("psycopg", "psycopg_pool"):
            raise
        raise UnsupportedError(
            "postgresql:// needs psycopg: pip install 'leasehold[postgres]'"
        ) from missing
    from leasehold.stores.postgres import PostgresStore

    url, redis_url = _without_redis(url)
    accelerator = None if redis_url is None else _redis(redis_url, env)
    return PostgresStore(url, env=env, accelerator=accelerator)


def _without_redis(url: str) -> tuple[str, str | None]:
    """The URL of a database, and that of the Redis beside it.

    >>> _without_redis("postgresql://db/jobs?schema=tests&redis=redis%3A%2F%2Fcache%2F1")
    ('postgresql://db/jobs?schema=tests', 'redis://cache/1')
    """
    from urllib.parse import unquote

    place, question, query = url.partition("?")
    pairs = query.split("&") if query else []
    found = [pair.partition("=")[2] for pair in pairs if pair.partition("=")[0] == "redis"]
    if not found:
        return url, None
    rest = "&".join(pair for pair in pairs if pair.partition("=")[0] != "redis")
    return f"{place}{question if rest else ''}{rest}", unquote(found[-1])


def _redis(url: str, env: Env) -> Accelerator:
    try:
        import_whole("leasehold.stores.redis")
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "redis":
            raise
        raise UnsupportedError(
            "postgresql://...?redis=... needs redis-py: pip install 'leasehold[redis]'"
        ) from missing
    from leasehold.stores.redis import RedisAccelerator

    return RedisAccelerator(url, env=env)


def _memory(env: Env, retention: RetentionPolicy | None) -> Store:
    import_whole("leasehold.stores.memory")
    from leasehold.stores.memory import MemoryStore

    return MemoryStore(env, retention=retention)


def _remote(url: str, env: Env, durability: Durability | None) -> Store:
    if durability is not None:
        raise UnsupportedError("a service says itself how durable its store is")
    import_whole("leasehold.stores.remote")
    from leasehold.stores.remote import RemoteStore

    # Its methods are made from the contract, which mypy cannot see.
    return cast("Store", RemoteStore(url, env=env))
