"""Where a job stands: which of the state tables holds its row."""

from __future__ import annotations

from typing import Final, NamedTuple

from leasehold.core.status import TERMINAL, Status
from leasehold.stores.sqlite.leasing import ready
from leasehold.stores.sqlite.schema.codes import STATUS_OF
from leasehold.stores.sqlite.submitting import inheritance
from leasehold.stores.sqlite.writing.step import Step


class Place(NamedTuple):
    """What every state table knows of a job."""

    status: Status
    version: int
    attempts: int
    events: int
    available_at: int


LOCATE: Final = f"""
    SELECT 2, ready.version, ready.attempts, ready.events, ready.available_at
        FROM job LEFT JOIN place ON place.seq = job.seq JOIN ready ON {ready.AT_ITS_PLACE}
        WHERE job.seq = ?1
    UNION ALL
    SELECT 3, version, attempts, events, available_at FROM running WHERE seq = ?1
    UNION ALL
    SELECT status, version, attempts, events,
           coalesce(due, (SELECT due FROM dependent WHERE dependent.seq = ?1), since)
        FROM waiting WHERE seq = ?1
    UNION ALL
    SELECT status, version, attempts, events, available_at FROM finished WHERE seq = ?1
"""  # noqa: S608  # our own names

_BUMP: Final = {
    "running": "UPDATE running SET events = events + 1 WHERE seq = ?",
    "waiting": "UPDATE waiting SET events = events + 1 WHERE seq = ?",
    "finished": "UPDATE finished SET events = events + 1 WHERE seq = ?",
}
_DELETE: Final = {
    "running": "DELETE FROM running WHERE seq = ?",
    "waiting": "DELETE FROM waiting WHERE seq = ?",
    "finished": "DELETE FROM finished WHERE seq = ?",
}
# What is no longer blocked waits for nobody; what has not ended any more has nobody to tell of it.
WAIT_FOR_NOBODY: Final = "DELETE FROM blocker WHERE seq = ?"
TELL_NOBODY: Final = "DELETE FROM resolving WHERE seq = ?"


def locate(step: Step, seq: int) -> Place | None:
    """The job's place, or None if there is no such job."""
    row = step.execute(LOCATE, (seq,)).fetchone()
    return None if row is None else Place(STATUS_OF[row[0]], *row[1:])


def _table_of(status: Status) -> str:
    """The table that holds jobs of this status, which is not pending."""
    if status is Status.RUNNING:
        return "running"
    return "finished" if status in TERMINAL else "waiting"


def bump_events(step: Step, seq: int, place: Place) -> int:
    """Count one more history event of a job that stays where it is; answers its number."""
    if place.status is Status.PENDING:
        ready.count_event(step, seq)
    else:
        step.execute(_BUMP[_table_of(place.status)], (seq,))
    return place.events + 1


def remove(step: Step, seq: int, place: Place) -> None:
    """Take a job's row out of the table that holds it."""
    if place.status is Status.PENDING:
        ready.leave_by_number(step, seq)
        return
    if place.status is Status.BLOCKED:
        inheritance.waits_no_more(step, seq)
    step.execute(_DELETE[_table_of(place.status)], (seq,))
    if place.status is Status.BLOCKED:
        step.execute(WAIT_FOR_NOBODY, (seq,))
    elif place.status in TERMINAL:
        step.execute(TELL_NOBODY, (seq,))
