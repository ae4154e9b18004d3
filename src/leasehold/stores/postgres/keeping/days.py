"""The days of the archive: each is a partition of its own, made when first needed, dropped whole.

So the end of a day costs no deletes, and leaves no dead rows to vacuum. `archive_day` has a row for
each, with the number of its jobs: to count them would be to read them.

Both changes are done between two tries of a clean-up's write, in transactions of their own, without
the store's turn: no submit, lease or settlement waits for one, whoever reads the archive meanwhile.
(Only if another process archives jobs just then, in its turn, may they wait behind it: its write
waits for the archive as a reader does, `WAIT_SECONDS` at most.)

- *Made* beside the archive, and attached while it is empty. That excludes no reader, nor a write
  (`CREATE TABLE ... PARTITION OF` would). There is no default partition: to attach another one, the
  server would lock and read it.
- *Dropped* when nobody reads the archive. Who is about to read waits for that, but no longer than
  `WAIT_SECONDS`; where readers keep it waiting again and again, the next clean-up drops the day.
  (`DETACH ... CONCURRENTLY` waits for readers without end, and what it leaves if it is cut off must
  be tidied up by hand.) A day that is dropped keeps its row until a clean-up has counted its jobs.

Rows of `archive_day` are locked before the archive. Of several processes that make the same day,
one inserts its row, and the others wait for that.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, Final

from psycopg.errors import InsufficientPrivilege, LockNotAvailable

from leasehold.errors import StoreError
from leasehold.stores.postgres.server.connection import SqlConnection

if TYPE_CHECKING:
    from leasehold.stores.postgres.writing.database import Database

logger = logging.getLogger("leasehold.store")

DAYS_AT_ONCE: Final = 20
"""So many days are dropped in one transaction, which locks all their tables and indexes."""
WAIT_SECONDS: Final = 0.5
"""How long a drop waits for readers of the archive, while later readers wait for it."""
WAITS_MAX: Final = 3

OLDEST: Final = "SELECT min(day) FROM archive_day"
OLD: Final = f"""
    SELECT day FROM archive_day WHERE day < $1 AND NOT is_dropped ORDER BY day LIMIT {DAYS_AT_ONCE}
"""
# Guard: the day has a partition.
COUNT_IN: Final = "UPDATE archive_day SET jobs = jobs + $2 WHERE day = $1 AND NOT is_dropped"
COUNT_OUT: Final = """
    WITH gone AS (DELETE FROM archive_day WHERE day < $1 AND is_dropped RETURNING jobs)
    SELECT coalesce(sum(jobs), 0)::bigint FROM gone
"""
# Guard: the day has no partition.
NEW_DAY: Final = """
    INSERT INTO archive_day (day) VALUES ($1) ON CONFLICT (day)
    DO UPDATE SET jobs = 0, is_dropped = false WHERE archive_day.is_dropped
"""
MAKE: Final = "CREATE TABLE {name} (LIKE archive INCLUDING ALL)"
ATTACH: Final = "ALTER TABLE archive ATTACH PARTITION {name} FOR VALUES FROM ({day}) TO ({next})"
MARK_DROPPED: Final = """
    UPDATE archive_day SET is_dropped = true WHERE day = ANY($1) AND NOT is_dropped RETURNING day
"""
# One that somebody has detached, to keep it, is not ours any more.
PARTITIONS: Final = """
    SELECT relname::text FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
    WHERE inhparent = 'archive'::regclass
"""
IDLE_SECONDS: Final = 2
"""How long a process may stand still in the midst of such a change before the server ends it: it
may have been stopped, and others wait for its locks."""
NOT_IDLE: Final = f"SET LOCAL idle_in_transaction_session_timeout = '{IDLE_SECONDS}s'"
BRIEFLY: Final = f"SET LOCAL lock_timeout = '{round(WAIT_SECONDS * 1000)}ms'"


class DayIsMissing(Exception):  # noqa: N818  # no error: it never leaves `keeping`
    """A write was to archive jobs on a day that has no partition; it is undone, and done again."""

    def __init__(self, day: int) -> None:
        super().__init__(day)
        self.day = day


class DaysAreOld(Exception):  # noqa: N818  # as above
    """A write found days that are to be dropped; it is undone, and done again."""

    def __init__(self, days: Sequence[int]) -> None:
        super().__init__(days)
        self.days = days


def partition(day: int) -> str:
    """The table of a day, counted from 1970.

    >>> partition(20_000)
    'archive_2024_10_04'
    """
    named = date.fromordinal(date(1970, 1, 1).toordinal() + day)
    return f"archive_{named.isoformat().replace('-', '_')}"


def make_day(db: SqlConnection, day: int) -> None:
    """Make the partition of a day in this transaction, unless it is there."""
    if not db.changed(NEW_DAY, (day,)):
        return
    name = partition(day)
    db.execute(MAKE.format(name=name))
    # It is empty: there is nothing to look through.
    db.execute(ATTACH.format(name=name, day=day, next=day + 1))


def make_room(db: SqlConnection, jobs: Mapping[int, int]) -> None:
    """Make the partitions for so many jobs a day that come from another store, and count them."""
    for day, number in jobs.items():
        make_day(db, day)
        db.execute(COUNT_IN, (day, number))


def make(database: Database, day: int) -> None:
    """Make the partition of a day; raises StoreError where this role may not."""
    try:
        with database.beside_all() as db:
            db.execute(NOT_IDLE)
            make_day(db, day)
    except StoreError as error:
        if not isinstance(error.__cause__, InsufficientPrivilege):
            raise
        shown = database.address.shown
        raise StoreError(
            f"{shown}: nothing was archived, because the archive has no partition for the day yet, "
            f"and this role may not make one ({error.__cause__.diag.message_primary}). Let a "
            "process whose role owns the schema clean up, or connect as that role"
        ) from error


def drop(database: Database, days: Sequence[int]) -> None:
    """Drop days, unless the archive is being read all the time, or this role may not."""
    shown, last = database.address.shown, partition(days[-1])
    for _ in range(WAITS_MAX):
        try:
            _drop(database, days)
        except _IsRead:
            continue
        except StoreError as error:
            if not isinstance(error.__cause__, InsufficientPrivilege):
                raise
            # Whatever else is old can still be cleaned up.
            logger.warning(
                "%s: the archive keeps its days up to %s, because this role may not drop them "
                "(%s). Let a process whose role owns the schema clean up, or connect as that role",
                shown,
                last,
                error.__cause__.diag.message_primary,
            )
        return
    logger.info(
        "%s: the archive is being read; its days up to %s are dropped by a later clean-up",
        shown,
        last,
    )


class _IsRead(Exception):  # noqa: N818  # as above
    """Somebody reads the archive, and goes on for longer than this waits."""


def _drop(database: Database, days: Sequence[int]) -> None:
    with database.beside_all() as db:
        db.execute(NOT_IDLE)
        db.execute(BRIEFLY)
        try:
            marked = {partition(day) for (day,) in db.execute(MARK_DROPPED, (list(days),))}
            there = {name for (name,) in db.execute(PARTITIONS)}
            if names := sorted(marked & there):
                db.execute(f"DROP TABLE {', '.join(names)}")
        except LockNotAvailable as error:
            raise _IsRead from error


def count_in(step: Any, day: int, jobs: int) -> None:
    """Count jobs that are about to be archived; raises DayIsMissing if they cannot be."""
    if not step.changed(COUNT_IN, (day, jobs)):
        raise DayIsMissing(day)


def count_out(step: Any, first_day: int) -> int:
    """Forget the days that were dropped; answers how many jobs they had."""
    row: Any = step.execute(COUNT_OUT, (first_day,)).fetchone()
    return int(row[0])


# A day may have been dropped since this look began, or detached by somebody: then there is nothing
# to count. The catalogs are asked for its table as it is by now, under the lock of this statement.
_MISCOUNTED: Final = """
    SELECT day, coalesce(kept.jobs, 0), coalesce(counted.jobs, 0)
    FROM (SELECT day, jobs FROM archive_day WHERE NOT is_dropped AND pg_partition_root(to_regclass(
              to_char(date '1970-01-01' + day::integer, '"archive"_YYYY_MM_DD'))) IS NOT NULL
    ) AS kept
    FULL JOIN (SELECT day, count(*) AS jobs FROM archive GROUP BY day) AS counted USING (day)
    WHERE coalesce(kept.jobs, 0) <> coalesce(counted.jobs, 0) ORDER BY day LIMIT 10
"""
# No key can span the days.
_TWICE: Final = "SELECT min(id) FROM archive GROUP BY seq HAVING count(*) > 1 LIMIT 10"


def problems(db: SqlConnection) -> Iterator[str]:
    """What is wrong with the days of the archive, as sentences."""
    for day, counted, found in db.execute(_MISCOUNTED):
        yield f"{partition(day)}: {counted} jobs are counted, but there are {found}"
    for (job_id,) in db.execute(_TWICE):
        yield f"job {job_id} is in the archive twice"
