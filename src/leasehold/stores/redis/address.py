"""The address of Redis: a URL as redis-py understands it, and the part of it that may be shown."""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import urlsplit

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from leasehold.errors import UnsupportedError

SCHEMES: Final = {"redis": "redis", "rediss": "rediss", "unix": "unix", "valkey": "redis"}
TIMEOUT_SECONDS: Final = 0.25
"""How long a caller waits for Redis; an answer usually takes a fraction of a millisecond."""


class Address(NamedTuple):
    """A parsed URL."""

    url: str
    shown: str
    """For messages: without user, password and parameters."""

    def open(self) -> redis.Redis:
        """A client that tries once and does not wait; nothing is connected yet."""
        return redis.Redis.from_url(
            self.url,
            socket_timeout=TIMEOUT_SECONDS,
            socket_connect_timeout=TIMEOUT_SECONDS,
            retry=Retry(NoBackoff(), 0),
        )


def parse(url: str) -> Address:
    """Read the URL of a Redis; raises UnsupportedError, which never holds its password.

    >>> parse("redis://:secret@cache:6379/1").shown
    'redis://cache:6379/1'
    """
    scheme, _, rest = url.partition("://")
    if scheme not in SCHEMES:
        raise UnsupportedError(
            "redis=... must be a URL: redis://host:port/db, rediss:// with TLS, or unix:///path"
        )
    place = rest.partition("?")[0]
    address = Address(
        f"{SCHEMES[scheme]}://{rest}", f"{SCHEMES[scheme]}://{place.rpartition('@')[2]}"
    )
    try:
        _ = urlsplit(address.url).port
        address.open().close()
    except (ValueError, TypeError, redis.RedisError):
        # The library's message may contain parts of the password.
        raise UnsupportedError(
            f"redis={address.shown}: not a URL that redis-py understands; encode special "
            "characters of the password and of parameters (%40 for @)"
        ) from None
    return address
