"""The change feed: while somebody follows it, triggers write it in the write that makes the change.

A job's change of status is a row inserted into one of four tables, and any other event of its
history raises `events` there, so triggers on these tables miss no writer. They are created for the
first follower and dropped after the last, so a store without followers pays nothing at all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from leasehold.core.model.changes import FOLLOWED_SECONDS, Change, ChangeKind, Changes
from leasehold.core.model.codes import EVENT_CODE, EVENT_OF, STATUS_CODE, STATUS_OF
from leasehold.core.model.pages import check_cursor
from leasehold.core.model.status import Event, Status
from leasehold.stores.tables.statements import SqlConnection
from leasehold.stores.tables.step import TableStep

_REFRESHED_MICROS: Final = 300_000_000
"""How old the record of the latest look may get: looks write no more often than this."""

_KINDS: Final[tuple[ChangeKind, ...]] = ("job", "queue", "worker", "schedule", "setting")
_JOB, _QUEUE, _WORKER, _SCHEDULE, _SETTING = range(len(_KINDS))

_JOB_TABLES: Final = {
    "ready": str(STATUS_CODE[Status.PENDING]),
    "waiting": "NEW.status",
    "running": str(STATUS_CODE[Status.RUNNING]),
    "finished": "NEW.status",
}
_OTHER_TABLES: Final = (
    ("queue", _QUEUE, "name", ("INSERT", "UPDATE OF state, config", "DELETE")),
    ("worker", _WORKER, "id", ("INSERT", "DELETE")),
    ("schedule", _SCHEDULE, "name", ("INSERT", "UPDATE", "DELETE")),
    ("setting", _SETTING, "name", ("INSERT", "UPDATE", "DELETE")),
)
# For a job deleted since, only the deletion is reported: its id is no longer known.
_READ: Final = f"""
    SELECT change.n, kind, coalesce(name, job.id), status, change.events,
        CASE WHEN status IS NULL THEN NULL
             WHEN change.events = 1 THEN {EVENT_CODE[Event.CREATED]}
             ELSE coalesce(
                (SELECT event FROM event WHERE event.seq = change.seq AND event.n = change.events),
                (SELECT outcome FROM attempt
                 WHERE attempt.seq = change.seq AND ended_event = change.events),
                CASE WHEN status = {STATUS_CODE[Status.RUNNING]}
                     THEN {EVENT_CODE[Event.LEASED]} END)
        END
    FROM change LEFT JOIN job ON job.seq = change.seq
    WHERE change.n > $1 AND change.n <= $2 AND coalesce(name, job.id) IS NOT NULL
    ORDER BY change.n LIMIT $3
"""
_FOLLOW: Final = """
    INSERT INTO meta VALUES ('followed_at', $1)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value
"""
_FORGET: Final = "DELETE FROM meta WHERE key = 'followed_at'"
_EMPTY: Final = "DELETE FROM change"
# One number is skipped, so that an older cursor does not look like the latest.
_SKIP: Final = ("INSERT INTO change (kind, name) VALUES (0, '')", _EMPTY)


class Noted(NamedTuple):
    """The text of a trigger, and its event."""

    trigger: str
    what: str
    """The event of the trigger, such as `INSERT` or `UPDATE OF events`."""
    table: str
    statement: str


def noted() -> Iterator[Noted]:
    """All triggers of the feed."""

    def note(table: str, what: str, kind: int, name: str, seq: str, status: str, n: str) -> Noted:
        return Noted(
            f"change_{table}_{what.split(maxsplit=1)[0].lower()}",
            what,
            table,
            "INSERT INTO change (kind, name, seq, status, events) "
            f"VALUES ({kind}, {name}, {seq}, {status}, {n})",
        )

    for table, status in _JOB_TABLES.items():
        for what in ("INSERT", "UPDATE OF events"):
            yield note(table, what, _JOB, "NULL", "NEW.seq", status, "NEW.events")
    yield note("job", "DELETE", _JOB, "OLD.id", "OLD.seq", "NULL", "NULL")
    for table, kind, column, events in _OTHER_TABLES:
        for what in events:
            row = "OLD" if what == "DELETE" else "NEW"
            yield note(table, what, kind, f"{row}.{column}", "NULL", "NULL", "NULL")


class Bounds(NamedTuple):
    """The kept part of the feed."""

    since: int
    """A follower that has seen this number or a later one has missed nothing."""
    latest: int
    followed_at: int | None
    """When a follower last looked; None if nothing is recorded."""


class TableFeed(ABC):
    """The feed of a store; each database has its own kind of triggers."""

    @abstractmethod
    def bounds(self, db: Any) -> Bounds: ...

    @abstractmethod
    def make_triggers(self, step: Any) -> None: ...

    @abstractmethod
    def drop_triggers(self, step: Any) -> bool:
        """Returns whether they are gone; if not, a later sweep tries again."""

    @abstractmethod
    def trim(self, step: Any, latest: int) -> None:
        """Forget old changes, unless a trigger does that."""

    def begin_to_follow(self, database: Any) -> bool:
        """Keep changes from now on; answers whether they were kept already."""
        was_followed: bool = database.write(self.follow)
        return was_followed

    def final(self, database: Any, seen: int | None) -> int | None:  # noqa: ARG002  # for subclasses
        """The number up to which no new changes can appear, if it is not that of the latest."""
        return None

    def is_followed(self, db: SqlConnection, now: int) -> bool:
        """Whether changes are recorded and a follower has looked recently."""
        followed_at = self.bounds(db).followed_at
        # A look in the future was recorded before a person repaired the clock.
        return followed_at is not None and 0 <= now - followed_at < _REFRESHED_MICROS

    def follow(self, step: TableStep) -> bool:
        """Keep changes from now on; answers whether they were kept already."""
        was_followed = self.bounds(step.db).followed_at is not None
        if not was_followed:
            for statement in _SKIP:
                step.execute(statement)
            self.make_triggers(step)
        step.execute(_FOLLOW, (str(step.now),))
        return was_followed

    def end_if_unfollowed(self, step: TableStep) -> None:
        """Stop recording changes when the feed has not been followed for long."""
        _, latest, followed_at = self.bounds(step.db)
        self.trim(step, latest)
        if followed_at is None or step.now - followed_at <= FOLLOWED_SECONDS * 1e6:
            return
        if not self.drop_triggers(step):
            return
        step.execute(_EMPTY)
        step.execute(_FORGET)

    def changes(
        self,
        db: SqlConnection,
        cursor: str | None,
        limit: int,
        final: int | None = None,
        *,
        was_kept: bool,
    ) -> Changes:
        """The changes after the cursor, up to the last final one."""
        seen = check_cursor(limit, cursor)
        since, latest, _ = self.bounds(db)
        end = latest if final is None else final
        if seen is None:
            return Changes([], str(end))
        if not was_kept or not since <= seen <= latest:
            return Changes([], str(end), gap=True)
        rows: list[Any] = db.execute(_READ, (seen, end, limit)).fetchall()
        told = [
            Change(
                kind=_KINDS[kind],
                name=name,
                status=STATUS_OF.get(status),
                event=EVENT_OF.get(event),
                sequence=sequence,
            )
            for _, kind, name, status, sequence, event in rows
        ]
        return Changes(told, str(rows[-1][0] if rows else max(seen, end)))
