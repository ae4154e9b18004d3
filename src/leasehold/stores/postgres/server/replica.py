"""A replica of the server, for reads; its state may be slightly out of date.

While it cannot be reached, the primary answers instead.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import PoolTimeout

from leasehold.env import Env
from leasehold.errors import UnsupportedError
from leasehold.forking import at_fork
from leasehold.interrupts import SHIELD
from leasehold.stores.postgres.server.address import Address
from leasehold.stores.postgres.server.connection import (
    Pool,
    RawConnection,
    SqlConnection,
    open_connection,
    open_pool,
)

logger = logging.getLogger("leasehold.store")

PATIENCE_SECONDS: Final = 2.0
"""How long a call waits for a connection to the replica before it goes to the primary."""
AGAIN_SECONDS: Final = 30.0
"""How long an unreachable replica is left alone."""
STORE_ID: Final = b"SELECT store_id FROM store_state"
IS_STANDBY: Final = b"SELECT pg_is_in_recovery()"


class Replica:
    """Connections to a replica, opened when first needed."""

    def __init__(self, address: Address, store_id: str, env: Env) -> None:
        self.address = _impatient(address)
        self._store_id = store_id
        self._env = env
        self._mutex = threading.Lock()
        self._pool: Pool | None = None
        self._inherited: list[object] = []
        """The parent's connections after a fork: see `writing.database`."""
        self._again_at = 0
        _OPEN.add(self)

    def begin_anew_in_child(self) -> None:
        """After a fork: the connections are the parent's."""
        self._inherited.append(self._pool)
        self._mutex = threading.Lock()
        self._pool = None

    @contextmanager
    def connection(self) -> Iterator[SqlConnection | None]:
        """A connection; None while the replica cannot be reached."""
        with SHIELD:  # As in `lending`, Ctrl-C never comes between its loan and its return.
            loan = self._lend()
            if loan is None:
                yield None
                return
            pool, raw = loan
            try:
                raw.patience_seconds = self.address.statement_timeout_seconds + PATIENCE_SECONDS
                yield SqlConnection(raw)
            finally:
                pool.putconn(raw)

    def _lend(self) -> tuple[Pool, RawConnection] | None:
        try:
            pool = self._open_pool()
            return None if pool is None else (pool, _answering(pool))
        except (psycopg.OperationalError, PoolTimeout) as error:
            logger.warning(
                "the replica %s cannot be reached, and the primary is asked in its place: %s",
                self.address.shown,
                error,
            )
            self._again_at = self._env.now_micros() + round(AGAIN_SECONDS * 1e6)
            return None

    def _open_pool(self) -> Pool | None:
        if self._env.now_micros() < self._again_at:
            return None
        with self._mutex:
            if self._pool is None:
                # A single connection first: a pool would keep trying for long if no server listens.
                with open_connection(self.address, application_name="leasehold replica") as raw:
                    self._check(raw)
                self._pool = open_pool(self.address)
            return self._pool

    def _check(self, raw: RawConnection) -> None:
        row: Any
        try:
            row = raw.execute(STORE_ID).fetchone()
        except psycopg.errors.UndefinedTable:
            row = raw.execute(IS_STANDBY).fetchone()
            if row[0]:
                raise psycopg.OperationalError("it has not received the store yet") from None
            row = (None,)
        if row[0] != self._store_id:
            raise UnsupportedError(
                f"replica=...: {self.address.shown} is not a replica of this store"
            )

    def close(self) -> None:
        with self._mutex:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()


_OPEN: Final[weakref.WeakSet[Replica]] = weakref.WeakSet()


def _begin_anew() -> None:
    for replica in list(_OPEN):
        replica.begin_anew_in_child()


at_fork(after_in_child=_begin_anew)


def _answering(pool: Pool) -> RawConnection:
    """A connection on which the server answers; one that has gone silent would delay callers."""
    raw = pool.getconn()
    try:
        raw.patience_seconds = PATIENCE_SECONDS
        raw.execute(b"SELECT 1")
    except BaseException:
        pool.putconn(raw)
        raise
    return raw


def _impatient(address: Address) -> Address:
    """The same server with short timeouts, since there is another one to ask."""
    conninfo = address.conninfo
    if "connect_timeout" not in conninfo_to_dict(conninfo):
        joint = "&" if "?" in conninfo else "?"
        conninfo += f"{joint}connect_timeout={PATIENCE_SECONDS:.0f}"
    return address._replace(conninfo=conninfo, pool_timeout_seconds=PATIENCE_SECONDS)
