"""The row of a schedule, and what it becomes; one that cannot be read must not stop the others."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from leasehold.core.model.schedule import Schedule, ScheduleDraft
from leasehold.core.model.stored import UNREADABLE, moment, problem_of
from leasehold.core.rules.scheduling import UnreadableSchedule
from leasehold.env import from_micros
from leasehold.errors import InvalidScheduleError
from leasehold.stores.sqlite.schema.rows import guarded, value_of
from leasehold.stores.tables.query import Kind
from leasehold.stores.tables.schedules import COLUMNS, ScheduleRows

KINDS: Final = {
    "name": Kind.TEXT,
    "draft": Kind.TEXT,
    "created_at": Kind.MOMENT,
    "updated_at": Kind.MOMENT,
    "next_at": Kind.MOMENT_OR_NULL,
    "due_at": Kind.MOMENT_OR_NULL,
    "paused": Kind.WHOLE,
    "last_at": Kind.MOMENT_OR_NULL,
    "last_job_id": Kind.TEXT_OR_NULL,
    "fired": Kind.WHOLE,
    "error": Kind.TEXT_OR_NULL,
}
assert tuple(KINDS) == COLUMNS
_GUARDED: Final = ", ".join(guarded(f"schedule.{name}", kind) for name, kind in KINDS.items())
# The rowid is there for one whose very name cannot be read.
ALL: Final = f"SELECT {_GUARDED}, rowid FROM schedule ORDER BY schedule.name"  # noqa: S608  # our own names
ONE: Final = f"SELECT {_GUARDED}, rowid FROM schedule WHERE schedule.name = $1"  # noqa: S608  # as above
DUE: Final = f"""
    SELECT {_GUARDED}, rowid FROM schedule
    WHERE schedule.due_at <= $1 ORDER BY schedule.due_at, schedule.name LIMIT $2
"""  # noqa: S608  # our own names
AHEAD: Final = f"""
    SELECT {_GUARDED}, rowid FROM schedule WHERE schedule.due_at > $1 ORDER BY schedule.name
"""  # noqa: S608  # our own names

_decode_draft = msgspec.json.Decoder(ScheduleDraft).decode


def schedule_of(row: tuple[Any, ...]) -> Schedule | UnreadableSchedule:
    """The schedule that a row tells, if it can be read here."""
    try:
        values = {
            name: value_of(name, kind, fetched)
            for (name, kind), fetched in zip(KINDS.items(), row, strict=False)
        }
        return Schedule(
            draft=_decode_draft(values["draft"]),
            created_at=from_micros(values["created_at"]),
            updated_at=from_micros(values["updated_at"]),
            next_at=moment(values["next_at"]),
            due_at=moment(values["due_at"]),
            paused=bool(values["paused"]),
            last_at=moment(values["last_at"]),
            last_job_id=values["last_job_id"],
            fired=values["fired"],
            error=values["error"],
        )
    except UNREADABLE as problem:
        name = row[0].decode(errors="replace") if isinstance(row[0], bytes) else str(row[0])
        error = InvalidScheduleError(
            f"schedule {name!r} makes no sense on this machine: {problem_of(problem)}"
        )
        error.__cause__ = problem
        return UnreadableSchedule(row[-1], name, error)


SCHEDULES: Final = ScheduleRows(ALL, ONE, DUE, schedule_of, "rowid")
