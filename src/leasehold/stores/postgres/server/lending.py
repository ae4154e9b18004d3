"""The connections of one process for its transactions: lent to one at a time, opened when first
needed, and opened anew when the server was gone.

While it is gone, a call tries to connect again and again, for as long as the address lets it wait.
A pool would do so more and more rarely, so it is dropped as soon as the server is found to be gone.

All that is done with a lent connection is done inside the shield (`leasehold.interrupts`), so no
Ctrl-C comes between its loan and its return, or leaves a transaction open on it. Waits look up for
signals: for the server (`silence`) and, here, for a connection.

A pool lends the connection that was idle for longest. Each has a process of the server behind it,
which must read the catalogs and plan each statement for itself: a worker whose few exchanges go
round four of them pays for that four times. So the connection that was given back last is kept
beside the pool, and lent first, unless somebody waits for one.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final

import psycopg
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
"""So often in a row the same connection is lent; then the pool may see whether it is too old."""
LOOK_SECONDS: Final = 0.25
"""How often somebody who waits for a connection looks whether it was interrupted."""


class Lending:
    """A pool, and another one in its place where it is of no use any more."""

    def __init__(self, address: Address, check_open: Callable[[], None], clock: Clock) -> None:
        self._address = address
        self._check_open = check_open
        self.reach = Reach(address)
        self._clock = clock
        self._pulse = Pulse(address, clock, self.reach)
        self._mutex = threading.Lock()
        self._pool: Pool | None = None
        self._kept: tuple[Pool, RawConnection] | None = None
        """The connection that was given back last, and where it belongs."""
        self._loans = 0
        """How often it was lent since it came from the pool."""
        self._asking = 0
        """How many ask the pool for a connection: none is kept from them."""
        self._out = 0
        """How many connections are lent."""
        self._was_reached = False
        """Whether there was ever a pool: an address that never led anywhere is not tried again."""

    @contextmanager
    def connection(self) -> Iterator[SqlConnection]:
        """One of them, for the time of this block."""
        with SHIELD:
            pool, raw = self._take()
            with self._mutex:
                self._out += 1
            raw.pulse = self._pulse
            try:
                yield SqlConnection(raw)
            except SilentError:
                self._drop(pool)  # The others in it lead the same way.
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
                # Somebody who has left may stand there still (`_Place`).
                and not pool.get_stats().get("requests_waiting")
            ):
                self._kept = (pool, raw)
                return
            self._loans = 0
        pool.putconn(raw)

    def _take_within_patience(self) -> tuple[Pool, RawConnection]:
        seconds = min(self._address.away_seconds, self._address.pool_timeout_seconds)
        began = self._clock.monotonic()
        # Counted as well, for a clock that stands still.
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
            pass  # The store is closed, or somebody has just put another pool in its place.
        except PoolTimeout:
            # Are all connections in use, or is the server gone? Then this raises.
            self._look_at_server(pool, math.inf)
            if pool is self._pool:
                raise
        pool = self._open()
        return pool, self._live_one(pool)

    def _live_one(self, pool: Pool) -> RawConnection:
        """A connection of the pool that is not known to be dead.

        The pool would look itself, but rests longer and longer after each dead one that it finds:
        half a minute if the server has ended all that were idle.
        """
        for _ in range(self._address.pool_size):
            raw = self._wait_for(pool)
            try:
                check(raw)
            except psycopg.Error:
                pool.putconn(raw)  # It opens another one in its place.
            else:
                return raw
        return self._wait_for(pool)

    def _wait_for(self, pool: Pool) -> RawConnection:
        """A connection of the pool. Whoever waits for one can be interrupted, and is told of a
        server that is gone.
        """
        seconds = self._address.pool_timeout_seconds
        if seconds <= LOOK_SECONDS:
            return pool.getconn(seconds)
        with suppress(PoolTimeout):
            return pool.getconn(LOOK_SECONDS)
        SHIELD.deliver()
        return _Place(pool, seconds - LOOK_SECONDS).wait(partial(self._look_at_server, pool))

    def _look_at_server(self, pool: Pool, waited: float) -> bool:
        """Said while a connection is waited for: whether the server was asked if it is there."""
        if waited < self._pulse.after_seconds:
            return False
        try:
            self._pulse.check()
        except psycopg.OperationalError as error:
            if is_refusal(error) and self._out:
                return True  # One of those that are lent will be free.
            self._drop(pool)
            raise
        if pool.pop_stats().get("connections_errors"):
            # It was gone, and the pool tries again more and more rarely: a new one does at once.
            self._drop(pool)
        return True

    def _open(self) -> Pool:
        with self._mutex:
            self._check_open()
            if self._pool is None:
                if self._was_reached:
                    # Many may stand here, one after the other: all are told what the first was.
                    self._pulse.check()
                self._pool = open_pool(self._address)
                self._was_reached = True
            return self._pool

    def _drop(self, pool: Pool) -> None:
        """Let the next borrower open another pool."""
        with self._mutex:
            if self._pool is pool:
                self._pool = None
        # Its own threads may be about to connect, and whoever is here cannot wait for that.
        threading.Thread(
            target=self._close, args=(pool,), name="leasehold-pool-end", daemon=True
        ).start()

    def _close(self, pool: Pool) -> None:
        """Close a pool that is in nobody's way any more, with the connection of it that is kept."""
        with self._mutex:
            kept = self._kept
            if kept is not None and kept[0] is pool:
                self._kept = None
        pool.close()
        if kept is not None and kept[0] is pool:
            pool.putconn(kept[1])


class _Place:
    """A place in the queue for a connection of a pool, which an interrupt may leave.

    A thread keeps it. The pool serves callers in turn: whoever asked anew after each look for
    signals would be the last of them each time, and never be served on a busy pool.
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
        """The connection; raises what a handler of a signal does, and leaves the place then.

        `look` is told the seconds that were waited, again and again; they are counted anew once it
        has looked. An error of it ends the wait, too.
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
