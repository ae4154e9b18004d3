"""The change feed: triggers write it, in whichever write makes the change, while somebody follows.

A job's move is a row inserted into one of four tables, and any other event of its history raises
`events` there: so triggers on these miss nothing, whoever writes. They are made for the first
follower and dropped after the last, so that a store without followers pays nothing at all.
"""

from __future__ import annotations

from typing import Any, Final

import apsw

from leasehold.core.model.changes import CHANGES_KEPT, FOLLOWED_SECONDS, Change, ChangeKind, Changes
from leasehold.core.model.codes import (
    EVENT_CODE,
    EVENT_OF,
    STATUS_CODE,
    STATUS_OF,
)
from leasehold.core.model.pages import check_cursor
from leasehold.core.model.status import Event, Status
from leasehold.stores.sqlite.writing.step import Step

_TRIMMED_AT_ONCE: Final = 1000
_REFRESHED_MICROS: Final = 300_000_000
"""How old the note of the latest look may get: looking is writing no more often than that."""

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


def _triggers() -> dict[str, str]:
    """The triggers by name."""
    made: dict[str, str] = {}

    def add(table: str, what: str, kind: int, name: str, seq: str, status: str, n: str) -> None:
        trigger = f"change_{table}_{what.split(maxsplit=1)[0].lower()}"
        made[trigger] = (
            f"CREATE TRIGGER {trigger} AFTER {what} ON {table} BEGIN "  # noqa: S608  # our own names
            "INSERT INTO change (kind, name, seq, status, events) "
            f"VALUES ({kind}, {name}, {seq}, {status}, {n}); END"
        )

    for table, status in _JOB_TABLES.items():
        for what in ("INSERT", "UPDATE OF events"):
            add(table, what, _JOB, "NULL", "NEW.seq", status, "NEW.events")
    add("job", "DELETE", _JOB, "OLD.id", "OLD.seq", "NULL", "NULL")
    for table, kind, column, events in _OTHER_TABLES:
        for what in events:
            row = "OLD" if what == "DELETE" else "NEW"
            add(table, what, kind, f"{row}.{column}", "NULL", "NULL", "NULL")
    made["change_trimmed"] = (
        "CREATE TRIGGER change_trimmed AFTER INSERT ON change "  # noqa: S608  # our own names
        f"WHEN NEW.n % {_TRIMMED_AT_ONCE} = 0 "
        f"BEGIN DELETE FROM change WHERE n <= NEW.n - {CHANGES_KEPT}; END"
    )
    return made


TRIGGERS: Final = _triggers()
# Of a job that was deleted since, only that is told: its id is known no more.
_READ: Final = f"""
    SELECT change.n, kind, coalesce(name, job.id), status, change.events,
        CASE WHEN status IS NULL THEN NULL
             WHEN change.events = 1 THEN {EVENT_CODE[Event.CREATED]}
             ELSE coalesce(
                (SELECT event FROM event WHERE event.seq = change.seq AND event.n = change.events),
                (SELECT outcome FROM attempt
                 WHERE attempt.seq = change.seq AND ended_event = change.events),
                iif(status = {STATUS_CODE[Status.RUNNING]}, {EVENT_CODE[Event.LEASED]}, NULL))
        END
    FROM change LEFT JOIN job ON job.seq = change.seq
    WHERE change.n > ? AND coalesce(name, job.id) IS NOT NULL ORDER BY change.n LIMIT ?
"""  # noqa: S608  # our own names
_BOUNDS: Final = """
    SELECT (SELECT min(n) FROM change), coalesce((SELECT seq FROM sqlite_sequence
        WHERE name = 'change'), 0), (SELECT CAST(value AS BLOB) FROM meta
            WHERE key = 'followed_at')
"""
_FOLLOW: Final = "INSERT OR REPLACE INTO meta VALUES ('followed_at', ?)"
_FORGET: Final = "DELETE FROM meta WHERE key = 'followed_at'"
_EMPTY: Final = "DELETE FROM change"
# One number is left out, so that a cursor from before does not look like the latest.
_SKIP: Final = (
    "INSERT INTO change (kind, name) VALUES (0, '')",
    _EMPTY,
)


def is_followed(db: apsw.Connection, now: int) -> bool:
    """Whether changes are kept, and somebody has looked lately."""
    followed_at = _bounds(db)[2]
    # A look from the future was noted before a person set the clock right.
    return followed_at is not None and 0 <= now - followed_at < _REFRESHED_MICROS


def follow(step: Step) -> bool:
    """Keep changes from now on; answers whether they were kept already."""
    was_followed = _bounds(step.db)[2] is not None
    if not was_followed:
        for statement in (*_SKIP, *TRIGGERS.values()):
            step.execute(statement)
    step.execute(_FOLLOW, (str(step.now),))
    return was_followed


def end_if_unfollowed(step: Step) -> None:
    """Keep no more changes once nobody has asked for them for long."""
    followed_at = _bounds(step.db)[2]
    if followed_at is None or step.now - followed_at <= FOLLOWED_SECONDS * 1e6:
        return
    for trigger in TRIGGERS:
        step.execute(f"DROP TRIGGER IF EXISTS {trigger}")
    step.execute(_EMPTY)
    step.execute(_FORGET)


def changes(db: apsw.Connection, cursor: str | None, limit: int, *, was_kept: bool) -> Changes:
    """What changed after the cursor."""
    seen = check_cursor(limit, cursor)
    oldest, latest, _ = _bounds(db)
    if seen is None:
        return Changes([], str(latest))
    first = latest + 1 if oldest is None else oldest
    if not was_kept or not first - 1 <= seen <= latest:
        return Changes([], str(latest), gap=True)
    rows: list[Any] = db.execute(_READ, (seen, limit)).fetchall()
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
    return Changes(told, str(rows[-1][0] if rows else latest))


def _bounds(db: apsw.Connection) -> tuple[int | None, int, int | None]:
    """The oldest number that is kept, the latest there was, and when somebody last looked."""
    row: Any = db.execute(_BOUNDS).fetchone()
    followed_at = row[2]
    if followed_at is not None:
        # What is no moment is taken for one long ago: the next look writes it anew.
        followed_at = int(followed_at) if followed_at.isdigit() else 0
    return row[0], row[1], followed_at
