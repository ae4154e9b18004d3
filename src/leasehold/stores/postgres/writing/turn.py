"""The turn of the store: which writes share it, which hold it alone, and which hold it too long.

It is an advisory lock that ends with its transaction. A client that is stopped, or whose machine is
cut off from the network in the middle of a write, would hold it for ever: no timeout of the server
applies between two statements of a pipeline. So a write that has waited for its turn as long as it
may looks for the holders, and terminates those of the store's own connections that have waited for
their client for half that time. Their writes are undone, and repeated automatically if their client
continues. An application's own transaction is never terminated: waiting callers get an error that
names it.

No later write may overtake a write that waits to be alone, since that one might wait for ever. So
if the turn is held for long, such a write gives way now and then (`Patience`); otherwise one open
transaction and one write that waits for it would keep all others from renewing their leases.
"""

from __future__ import annotations

import logging
from typing import Any, Final, NamedTuple

from psycopg.errors import InsufficientPrivilege

from leasehold.errors import StoreBusyError
from leasehold.stores.postgres.server.address import Address
from leasehold.stores.postgres.server.connection import SqlConnection, name_of

logger = logging.getLogger("leasehold.store")

ALONE: Final = "SELECT pg_advisory_xact_lock($1)"
# In this order: the first part runs before the wait for the lock.
ALONE_WITHIN: Final = """
    SELECT set_config('lock_timeout', $2, true), pg_advisory_xact_lock($1),
           set_config('lock_timeout', $3, true)
"""
SHARED: Final = "SELECT pg_advisory_xact_lock_shared($1)"
FIRST: Final = "SELECT pg_advisory_xact_lock($1)"
KEYS: Final = """
    SELECT hashtextextended('leasehold turn ' || $1, 0),
           hashtextextended('leasehold first ' || $1, 0)
"""
# Among holders that share a turn, the one holding it longest comes first.
HOLDERS: Final = """
    SELECT lock.pid, application_name, coalesce(host(client_addr), 'this machine'),
           xact_start, extract(epoch FROM clock_timestamp() - xact_start)::float8,
           wait_event_type = 'Client'
               AND clock_timestamp() - query_start > make_interval(secs => $2::float8)
    FROM pg_locks AS lock JOIN pg_stat_activity AS activity USING (pid)
    WHERE locktype = 'advisory' AND granted AND lock.pid <> pg_backend_pid() AND objsubid = 1
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND classid = (($1::bigint >> 32) & 4294967295)::oid
        AND objid = ($1::bigint & 4294967295)::oid
    ORDER BY xact_start
"""
FIRST_WAIT_SECONDS: Final = 1.0
LAST_WAIT_SECONDS: Final = 3.0
"""How long a write waits to be alone before it gives way, the first time and the last. It must be
longer than other writes take, or the write might never get its turn on a busy store.
"""
END: Final = "SELECT pg_terminate_backend($1::integer)"


class Holder(NamedTuple):
    """A server process that holds the turn."""

    pid: int
    application: str
    client: str
    since: Any
    """When its transaction began; like all following fields, None if this role may not see it."""
    seconds: float | None
    is_frozen: bool | None
    """Whether it has waited for its client for long."""

    @property
    def what(self) -> str:
        """Its description, for people."""
        return f"of the server ({self.application or 'no application name'}, {self.client})"


class Patience:
    """How long a write waits to be alone before it gives way, and how long it has waited in total.

    >>> patience = Patience(5)
    >>> [patience.seconds, patience.goes_on(), patience.seconds, patience.goes_on()]
    [1.0, True, 2.0, True]
    >>> [patience.seconds, patience.goes_on()]
    [2.0, False]
    """

    def __init__(self, seconds_max: float) -> None:
        self._seconds_max = seconds_max
        self.begin_anew()

    def begin_anew(self) -> None:
        """Reset, as if it had not waited yet."""
        self._left = self._seconds_max
        self._next = FIRST_WAIT_SECONDS

    @property
    def seconds(self) -> float:
        """How long to wait now."""
        return min(self._next, self._left)

    def goes_on(self) -> bool:
        """Called after a wait in vain; returns whether it may try again."""
        self._left -= self.seconds
        self._next = min(self._next + 1.0, LAST_WAIT_SECONDS)
        return self._left > 0


class Turn:
    """The turn of one store."""

    def __init__(self, db: SqlConnection, address: Address) -> None:
        row: Any = db.execute(KEYS, (address.schema,)).fetchone()
        self.key: int = row[0]
        self._first: int = row[1]
        self._address = address
        self._lock_timeout_seconds = address.lock_timeout_seconds

    def take(self, db: SqlConnection, *, alone: bool, seconds: float | None = None) -> None:
        """Wait for the turn, at most for the given time, if any; it ends with the transaction."""
        if alone and seconds is not None:
            millis = (max(1, round(each * 1000)) for each in (seconds, self._lock_timeout_seconds))
            db.execute(ALONE_WITHIN, (self.key, *(f"{each}ms" for each in millis)))
        else:
            db.execute(ALONE if alone else SHARED, (self.key,))

    def go_first(self, db: SqlConnection) -> None:
        """Wait until no other transaction shares a turn with which it will end alone.

        Two that do would wait for each other. The lock ends with the transaction.
        """
        db.execute(FIRST, (self._first,))

    def holders(self, db: SqlConnection) -> list[Holder]:
        """The holders at this moment."""
        frozen_seconds = self._address.lock_timeout_seconds / 2
        return [Holder(*row) for row in db.execute(HOLDERS, (self.key, frozen_seconds))]

    def free(self, db: SqlConnection, *, may_be_free: bool) -> None:
        """End idle holders; raises StoreBusyError if there are none.

        Called after a wait in vain. Another process that waited may have ended them already.
        """
        holders = self.holders(db)
        if may_be_free and not holders:
            return
        own = name_of(self._address)
        frozen = [each for each in holders if each.is_frozen and each.application == own]
        busy = StoreBusyError(
            f"{self._address.shown}: waited {self._address.lock_timeout_seconds:g} s for the write "
            "lock; nothing was written, try again" + "".join(_named(each) for each in holders[:1])
        )
        if not frozen:
            raise busy
        for each in frozen:
            logger.warning(
                "%s: process %d %s held the write lock for %.0f s while waiting for its client: "
                "its write was rolled back",
                self._address.shown,
                each.pid,
                each.what,
                each.seconds or 0,
            )
            try:
                db.execute(END, (each.pid,)).fetchone()
            except InsufficientPrivilege:
                raise busy from None


def _named(holder: Holder) -> str:
    seconds = "" if holder.seconds is None else f" for {holder.seconds:.0f} s"
    return (
        f". Process {holder.pid} {holder.what} has it{seconds}; if it hangs: "
        f"SELECT pg_terminate_backend({holder.pid})"
    )


def who_writes(holders: list[Holder]) -> list[dict[str, Any]]:
    """The writer that keeps others from writing, for a store's description."""
    return [
        {
            "pid": each.pid,
            "what": f"{each.what} has the store's turn",
            "since": each.since.isoformat(timespec="seconds"),
            "stopped": False,
            "end": f"SELECT pg_terminate_backend({each.pid})",
        }
        for each in holders
        if each.since is not None
    ]
