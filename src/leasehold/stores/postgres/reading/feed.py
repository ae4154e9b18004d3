"""The change feed, as triggers of PostgreSQL; see `tables.feed`.

Writes run concurrently, and a follower remembers the number of the last change that it has seen: no
change may appear below that number later. So the triggers are deferred: a change gets its number
when its transaction is being committed, so an application's transaction may stay open for as long
as it likes without one. From then until its end, the transaction shares a lock with all others that
are being committed. A look notes the latest number and the holders of that lock; once those have
ended, all changes up to that number can be read. Only the follower waits, a few milliseconds, and
no write does.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from leasehold.core.model.changes import CHANGES_KEPT
from leasehold.stores.postgres.server.connection import SqlConnection
from leasehold.stores.postgres.writing.step import Step
from leasehold.stores.tables.feed import Bounds, TableFeed, noted

if TYPE_CHECKING:
    from leasehold.stores.postgres.writing.database import Database

_BOUNDS: Final = """
    SELECT (SELECT value::bigint FROM meta WHERE key = 'followed_from'),
           coalesce((SELECT max(n) FROM change),
                    (SELECT value::bigint FROM meta WHERE key = 'followed_from'), 0),
           (SELECT value FROM meta WHERE key = 'followed_at')
"""
_FOLLOW_FROM: Final = """
    INSERT INTO meta SELECT 'followed_from', last_value::text FROM change_n_seq
    ON CONFLICT (key) DO UPDATE SET value = excluded.value
"""
_TRIM: Final = "DELETE FROM change WHERE n <= $1"
_KEY: Final = "hashtextextended('leasehold feed ' || current_schema(), 0)"
# Transactions prepared for a two-phase commit are included.
_BEING_COMMITTED: Final = f"""
    SELECT virtualtransaction FROM pg_locks, (SELECT {_KEY} AS key) AS feed
    WHERE locktype = 'advisory' AND granted AND objsubid = 1
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND classid = ((key >> 32) & 4294967295)::oid AND objid = (key & 4294967295)::oid
"""
_PAUSE: Final = "SELECT pg_sleep($1::float8)"
_PAUSES_SECONDS: Final = (0.0, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
"""The pauses between checks whether those transactions have ended."""
# Numbers are consecutive, so changes below the first missing number are final.
_BEFORE_GAP: Final = """
    SELECT min(n) FROM (
        SELECT n, lead(n) OVER (ORDER BY n) AS next
        FROM (SELECT $1::bigint AS n UNION ALL SELECT n FROM change WHERE n > $1) AS seen
    ) AS pairs WHERE next IS NULL OR next > n + 1
"""
# Triggers cannot be dropped while anybody reads these tables: somebody who searches, pg_dump, or a
# task's transaction, which may even be waiting for the turn that this write has. So nobody is
# waited for: a later sweep tries again.
_DROP: Final = f"""
    DO $body$ BEGIN
        LOCK TABLE {", ".join(sorted({each.table for each in noted()}))}
            IN ACCESS EXCLUSIVE MODE NOWAIT;
        {"".join(f"DROP FUNCTION IF EXISTS {each.trigger}() CASCADE; " for each in noted())}
    EXCEPTION WHEN lock_not_available THEN NULL;
    END $body$
"""
_ARE_DROPPED: Final = f"SELECT to_regproc('{next(noted()).trigger}') IS NULL"
# Nor can they be made while a table is vacuumed by hand, or an index is built. Such a wait gives
# way to others (`writing.tries`).
_BRIEFLY: Final = "SET LOCAL lock_timeout = '500ms'"


class Feed(TableFeed):
    """The feed of a PostgreSQL store. Sweeps trim it; changes due for trimming count as gone.

    Numbers of failed commits are missing.
    """

    def bounds(self, db: SqlConnection) -> Bounds:
        row: Any = db.execute(_BOUNDS).fetchone()
        followed_from, latest, followed_at = row
        since = max(followed_from or 0, latest - CHANGES_KEPT)
        return Bounds(since, latest, None if followed_at is None else int(followed_at))

    def make_triggers(self, step: Step) -> None:
        step.execute(_BRIEFLY)
        step.execute(_FOLLOW_FROM)
        for each in noted():
            # An application's transaction is committed with its own search_path.
            step.execute(
                f"CREATE FUNCTION {each.trigger}() RETURNS trigger LANGUAGE plpgsql "
                f"SET search_path FROM CURRENT AS $body$ BEGIN "
                f"PERFORM pg_advisory_xact_lock_shared({_KEY}); "
                f"{each.statement}; RETURN NULL; END $body$"
            )
            step.execute(
                f"CREATE CONSTRAINT TRIGGER {each.trigger} AFTER {each.what} ON {each.table} "
                f"DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {each.trigger}()"
            )

    def drop_triggers(self, step: Step) -> bool:
        step.execute(_DROP)
        row: Any = step.execute(_ARE_DROPPED).fetchone()
        return bool(row[0])

    def trim(self, step: Step, latest: int) -> None:
        step.execute(_TRIM, (latest - CHANGES_KEPT,))

    def begin_to_follow(self, database: Database) -> bool:
        # A follower that only renews its interest changes nothing that others read.
        return database.write(self.follow, side_by_side=lambda step: step.found.is_followed)

    def final(self, database: Database, seen: int | None) -> int | None:
        bounds = database.look(self.bounds)
        unended: set[Any] | None = None
        for seconds in _PAUSES_SECONDS:
            if unended is None or unended:
                now = database.look(partial(_being_committed, seconds))
                unended = now if unended is None else unended & now
        if not unended:
            return bounds.latest
        # A transaction hangs: a standby does not answer, or a prepared transaction is not ended.
        after = bounds.since if seen is None else seen
        row: Any = database.look(lambda db: db.execute(_BEFORE_GAP, (after,)).fetchone())
        return int(row[0])


def _being_committed(pause_seconds: float, db: SqlConnection) -> set[Any]:
    """Pause, then return the transactions whose changes already have numbers."""
    if pause_seconds:
        db.execute(_PAUSE, (pause_seconds,))
    return {transaction for (transaction,) in db.execute(_BEING_COMMITTED)}


FEED: Final = Feed()
