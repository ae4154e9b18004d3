"""The row of a schedule, and what it becomes; one that cannot be read must not stop the others."""

from __future__ import annotations

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
from leasehold.stores.tables.schedules import COLUMNS, ScheduleRows

_NAMES: Final = ", ".join((*COLUMNS, "number"))
ALL: Final = f"SELECT {_NAMES} FROM schedule ORDER BY name"  # noqa: S608  # our own names
ONE: Final = f"SELECT {_NAMES} FROM schedule WHERE name = $1"  # noqa: S608  # as above
DUE: Final = f"""
    SELECT {_NAMES} FROM schedule WHERE due_at <= $1 ORDER BY due_at, name LIMIT $2
"""  # noqa: S608  # our own names

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


SCHEDULES: Final = ScheduleRows(ALL, ONE, DUE, schedule_of, "number")
