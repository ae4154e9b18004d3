"""The row of a schedule, and what it becomes; one that cannot be read must not stop the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from leasehold.core.model.schedule import Schedule, ScheduleDraft
from leasehold.core.model.stored import (
    UNREADABLE,
    moment,
    problem_of,
)
from leasehold.core.rules.scheduling import UnreadableSchedule
from leasehold.env import from_micros
from leasehold.errors import InvalidScheduleError
from leasehold.stores.postgres.server.connection import Connection

COLUMNS: Final = (
    "name", "draft", "created_at", "updated_at", "next_at", "due_at", "paused", "last_at",
    "last_job_id", "fired", "error",
)  # fmt: skip
_NAMES: Final = ", ".join((*COLUMNS, "number"))
ALL: Final = f"SELECT {_NAMES} FROM schedule ORDER BY name"  # noqa: S608  # our own names
ONE: Final = f"SELECT {_NAMES} FROM schedule WHERE name = $1"  # noqa: S608  # as above
DUE: Final = f"""
    SELECT {_NAMES} FROM schedule WHERE due_at <= $1 ORDER BY due_at, name LIMIT $2
"""  # noqa: S608  # our own names
AHEAD: Final = f"SELECT {_NAMES} FROM schedule WHERE due_at > $1 ORDER BY name"  # noqa: S608  # as above

_decode_draft = msgspec.json.Decoder(ScheduleDraft).decode


def schedule_of(row: tuple[Any, ...]) -> Schedule | UnreadableSchedule:
    """The schedule that a row tells, if it can be read here."""
    *columns, number = row
    values = dict(zip(COLUMNS, columns, strict=True))
    name = values["name"]
    try:
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
        error = InvalidScheduleError(
            f"schedule {name!r} makes no sense on this machine: {problem_of(problem)}"
        )
        error.__cause__ = problem
        return UnreadableSchedule(number, name, error)


def unreadable_schedules(db: Connection) -> Iterator[str]:
    """The schedules that cannot be read, as sentences."""
    for row in db.execute(ALL).fetchall():
        found = schedule_of(row)
        if isinstance(found, UnreadableSchedule):
            yield f"{found.error}; it is not fired"
