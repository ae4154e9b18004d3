"""Whether the server can be reached: logged once when it is lost, and once when it is back.

Pools log every attempt to connect, with lines of the driver; for Leasehold's own pools those lines
are suppressed.
"""

from __future__ import annotations

import logging
import threading
from typing import Final

import psycopg

from leasehold.stores.postgres.server.address import Address
from leasehold.stores.postgres.server.failures import translate
from leasehold.stores.postgres.server.silence import ListeningConnection

logger = logging.getLogger("leasehold.store")

POOL_PREFIX: Final = "leasehold "
"""The prefix of the names of Leasehold's pools."""


def _is_others(record: logging.LogRecord) -> bool:
    """Whether a line of psycopg's pools may be logged: it is about none of Leasehold's."""
    about = record.args if isinstance(record.args, tuple) else ()
    return record.levelno < logging.WARNING or not any(
        isinstance(each, ListeningConnection)
        or (isinstance(each, str) and each.startswith(POOL_PREFIX))
        for each in about[:1]
    )


logging.getLogger("psycopg.pool").addFilter(_is_others)


class Reach:
    """The last known state in this process."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._mutex = threading.Lock()
        self.is_away = False

    def is_lost(self, error: psycopg.OperationalError) -> None:
        with self._mutex:
            is_news, self.is_away = not self.is_away, True
        if is_news:
            logger.warning("%s", translate(error, self._address))

    def is_back(self) -> None:
        if not self.is_away:
            return
        with self._mutex:
            is_news, self.is_away = self.is_away, False
        if is_news:
            logger.info("%s can be reached again", self._address.shown)
