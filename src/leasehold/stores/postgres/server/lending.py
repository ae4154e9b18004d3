"""The connections of one process for its transactions: lent to one user at a time, opened when
first needed, and reopened after the server was gone.

While the server is gone, a call keeps trying to connect, for as long as the address lets it wait. A
pool would try less and less often, so it is dropped as soon as the server is found to be gone.

A lent connection is used only inside the shield (`leasehold.interrupts`), so Ctrl-C never comes
between its loan and its return, or leaves a transaction open on it. Waits check for signals: those
for the server (`silence`) and, here, those for a connection.

A pool lends the connection that was idle for longest. Each has its own server process, which must
read the catalogs and plan each statement itself: a worker whose few exchanges rotate through four
of them pays for that four times. So the connection returned last is kept beside the pool and lent
first, unless another caller is waiting for one.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final

import psycopg
from psycopg.errors import ReadOnlySqlTransaction
from psycopg.pq import TransactionStatus
from psycopg_pool import PoolClosed, PoolTimeout

from leasehold.env import Clock
from leasehold.interrupts import SHIELD
from leasehold.stores.postgres.server.address import Address
from leasehold.stores.postgres.server.connection import (
    Pool,
    RawConnection,
    SqlConnection,
    check,
    open_pool,
)
from leasehold.stores.postgres.server.pulse import Pulse, is_refusal
from leasehold.stores.postgres.server.reach import Reach
from leasehold.stores.postgres.server.silence import SilentError

LOANS_MAX: Final = 1000
"""How often in a row the same connection is lent; then the pool may check whether it is too old."""
LOOK_SECONDS: Final = 0.25
"""How often a caller that waits for a connection checks for interrupts."""


class Lending:
    """A pool, replaced by another one when it is no longer of use."""

    def __init__(self, address: Address, check_open: Callable[[], None], clock: Clock) -> None:
        self._address = address
        self._check_open = check_open
        self.reach = Reach(address)
        self._clock = clock
        self._pulse = Pulse(address, clock, self.reach)
        self._mutex = threading.Lock()
        self._pool: Pool | None = None
        self._kept: tuple[Pool, RawConnection] | None = None
        """The connection returned last, and its pool."""
        self._loans = 0
        """How often it has been lent since it came from the pool."""
        self._asking = 0
        """How many callers are asking the pool for a connection; then none is kept."""
        self._out = 0
        """How many connections are lent."""
        self._was_reached = False
        """Whether there ever was a pool: an address that never worked is not tried again."""

    @contextmanager
    def connection(self) -> Iterator[SqlConnection]:
        """A connection for this block."""
        with SHIELD:
            pool, raw = self._take()
            with self._mutex:
                self._out += 1
            raw.pulse = self._pulse
            try:
                yield SqlConnection(raw)
            except (SilentError, ReadOnlySqlTransaction):
                # The pool's other connections lead to the same server. A new one may lead to
                # another: that which a failover has made the primary.
                self._drop(pool)
                raise
            finally:
                self._give_back(pool, raw)

    def close(self) -> None:
        with self._mutex:
            pool, self._pool = self._pool, None
        if pool is not None:
            self._close(pool)

    def _take(self) -> tuple[Pool, RawConnection]:
        self._check_open()
        with self._mutex:
            kept, self._kept = self._kept, None
            self._asking += kept is None
        if kept is not None:
            pool, raw = kept
            try:
                check(raw)
            except psycopg.Error:
                with self._mutex:
                    self._asking += 1
                pool.putconn(raw)
            else:
                return kept
        try:
            return self._take_within_patience()
        finally:
            with self._mutex:
                self._asking -= 1

    def _give_back(self, pool: Pool, raw: RawConnection) -> None:
        with self._mutex:
            self._out -= 1
            self._loans += 1
            if (
                self._kept is None
                and not self._asking
                and pool is self._pool
                and raw.pgconn.transaction_status == TransactionStatus.IDLE
                and self._loans < LOANS_MAX
                # A caller that has left may still be in the pool's queue (`_Place`).
                and not pool.get_stats().get("requests_waiting")
            ):
                self._kept = (pool, raw)
                return
            self._loans = 0
        pool.putconn(raw)

    def _take_within_patience(self) -> tuple[Pool, RawConnection]:
        seconds = min(self._address.away_seconds, self._address.pool_timeout_seconds)
        began = self._clock.monotonic()
        # Counted too, in case the clock stands still.
        for _ in range(int(seconds / LOOK_SECONDS)):
            try:
                return self._take_from_pool()
            except psycopg.OperationalError:
                if not self._was_reached or self._clock.monotonic() - began >= seconds:
                    raise
            SHIELD.deliver()
            threading.Event().wait(LOOK_SECONDS)
        return self._take_from_pool()

    def _take_from_pool(self) -> tuple[Pool, RawConnection]:
        pool = self._open()
        try:
            return pool, self._live_one(pool)
        except PoolClosed:
            pass  # The store is closed, or another thread has just replaced the pool.
        except PoolTimeout:
            # Are all connections in use, or is the server gone? Then this raises.
            self._look_at_server(pool, math.inf)
            if pool is self._pool:
                raise
        pool = self._open()
        return pool, self._live_one(pool)

    def _live_one(self, pool: Pool) -> RawConnection:
        """A connection of the pool that is not known to be dead.

        The pool would check itself, but pauses longer after each dead one that it finds: half a
        minute if the server has ended all idle ones.
        """
        for _ in range(self._address.pool_size):
            raw = self._wait_for(pool)
            try:
                check(raw)
            except psycopg.Error:
                pool.putconn(raw)  # The pool opens another one instead.
            else:
                return raw
        return self._wait_for(pool)

    def _wait_for(self, pool: Pool) -> RawConnection:
        """A connection of the pool. The wait is interruptible, and fails if the server is gone."""
        seconds = self._address.pool_timeout_seconds
        if seconds <= LOOK_SECONDS:
            return pool.getconn(seconds)
        with suppress(PoolTimeout):
            return pool.getconn(LOOK_SECONDS)
        SHIELD.deliver()
        return _Place(pool, seconds - LOOK_SECONDS).wait(partial(self._look_at_server, pool))

    def _look_at_server(self, pool: Pool, waited: float) -> bool:
        """Called while waiting for a connection; returns whether the server was probed."""
        if waited < self._pulse.after_seconds:
            return False
        try:
            self._pulse.check()
        except psycopg.OperationalError as error:
            if is_refusal(error) and self._out:
                return True  # One of the lent connections will become free.
            self._drop(pool)
            raise
        if pool.pop_stats().get("connections_errors"):
            # The server was gone, and the pool retries less and less often: a new one connects at
            # once.
            self._drop(pool)
        return True

    def _open(self) -> Pool:
        with self._mutex:
            self._check_open()
            if self._pool is None:
                if self._was_reached:
                    # Many callers may get here in turn: all get the first one's answer.
                    self._pulse.check()
                self._pool = open_pool(self._address)
                self._was_reached = True
            return self._pool

    def _drop(self, pool: Pool) -> None:
        """Drop the pool, so that the next borrower opens another one."""
        with self._mutex:
            if self._pool is pool:
                self._pool = None
        # The pool's own threads may be connecting, and the caller cannot wait for that.
        threading.Thread(
            target=self._close, args=(pool,), name="leasehold-pool-end", daemon=True
        ).start()

    def _close(self, pool: Pool) -> None:
        """Close a pool that is no longer used, together with its kept connection."""
        with self._mutex:
            kept = self._kept
            if kept is not None and kept[0] is pool:
                self._kept = None
        pool.close()
        if kept is not None and kept[0] is pool:
            pool.putconn(kept[1])


class _Place:
    """A place in a pool's queue for a connection, which can be left on an interrupt.

    A thread holds the place. The pool serves callers in turn: a caller that asked again after each
    check for signals would be last each time, and never be served by a busy pool.
    """

    def __init__(self, pool: Pool, seconds: float) -> None:
        self._pool = pool
        self._mutex = threading.Lock()
        self._answer: RawConnection | Exception | None = None
        self._is_left = False
        self._is_answered = threading.Event()
        threading.Thread(
            target=self._stand, args=(seconds,), name="leasehold-queue", daemon=True
        ).start()

    def _stand(self, seconds: float) -> None:
        answer: RawConnection | Exception
        try:
            answer = self._pool.getconn(seconds)
        except Exception as error:  # noqa: BLE001  # raised again by whoever waits
            answer = error
        with self._mutex:
            self._answer = answer
            if self._is_left:
                self._put_back()
        self._is_answered.set()

    def wait(self, look: Callable[[float], bool]) -> RawConnection:
        """The connection; if a signal handler raises, leaves the place and raises that error.

        `look` is called repeatedly with the seconds waited so far, which restart at 0 once it has
        looked. An error that it raises also ends the wait.
        """
        waited = LOOK_SECONDS
        try:
            while not self._is_answered.wait(LOOK_SECONDS):
                SHIELD.deliver()
                waited = 0.0 if look(waited) else waited + LOOK_SECONDS
        except BaseException:
            with self._mutex:
                self._is_left = True
                self._put_back()
            raise
        if isinstance(self._answer, Exception):
            raise self._answer
        assert self._answer is not None
        return self._answer

    def _put_back(self) -> None:
        if isinstance(self._answer, RawConnection):
            self._pool.putconn(self._answer)
