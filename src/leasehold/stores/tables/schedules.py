"""Schedules: kept beside the jobs, fired in the write that leases. The rules: rules.scheduling."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Final, NamedTuple

import msgspec

from leasehold.core.model.job import Draft, Job
from leasehold.core.model.schedule import Schedule, ScheduleDraft
from leasehold.core.model.stored import MOMENT_MAX, micros, moment, problem_of
from leasehold.core.rules import scheduling
from leasehold.core.rules.scheduling import UnreadableSchedule
from leasehold.env import from_micros, to_micros
from leasehold.errors import InvalidScheduleError, LeaseholdError
from leasehold.stores.tables.database import TableDatabase
from leasehold.stores.tables.statements import Dialect, SqlConnection
from leasehold.stores.tables.step import TableStep
from leasehold.stores.verbs.schedules import ScheduleVerbs

COLUMNS: Final = (
    "name", "draft", "created_at", "updated_at", "next_at", "due_at", "paused", "last_at",
    "last_job_id", "fired", "missed", "missed_at", "error",
)  # fmt: skip
# A value that is not a number sorts above all numbers, and is left out.
NEXT_LOOK: Final = f"SELECT min(due_at) FROM schedule WHERE due_at <= {MOMENT_MAX}"
_VALUES: Final = ", ".join(f"${n}" for n in range(1, len(COLUMNS) + 1))
_CHANGES: Final = ", ".join(f"{name} = excluded.{name}" for name in COLUMNS[1:])
KEEP: Final = f"""
    INSERT INTO schedule ({", ".join(COLUMNS)}) VALUES ({_VALUES})
    ON CONFLICT (name) DO UPDATE SET {_CHANGES}
"""
# The request is not written again: it may be large, or hold more than this version knows.
MOVE_ON: Final = """
    UPDATE schedule SET next_at = $1, due_at = $2, last_at = $3, last_job_id = $4, fired = $5,
        missed = $6, missed_at = $7, error = $8
    WHERE name = $9
"""
REMOVE: Final = "DELETE FROM schedule WHERE name = $1"
# A deleted job has ended too: only ended jobs are discarded.
NOT_ENDED: Final = """
    SELECT job.id FROM job
    WHERE {} AND NOT EXISTS (SELECT 1 FROM finished WHERE finished.seq = job.seq)
"""

_decode_draft = msgspec.json.Decoder(ScheduleDraft).decode


def schedule_from(values: Mapping[str, Any]) -> Schedule:
    """The schedule in a row's values; raises one of `UNREADABLE` if they are invalid."""
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
        missed=values["missed"],
        missed_at=moment(values["missed_at"]),
        error=values["error"],
    )


def makes_no_sense(number: int, name: str, problem: BaseException) -> UnreadableSchedule:
    """Stands in for a schedule that cannot be read."""
    error = InvalidScheduleError(
        f"schedule {name!r} is not valid on this machine: {problem_of(problem)}"
    )
    error.__cause__ = problem
    return UnreadableSchedule(number, name, error)


class ScheduleRows(NamedTuple):
    """How a database reads schedules; the last column of a row is its number."""

    all: str
    one: str
    due: str
    schedule_of: Callable[[tuple[Any, ...]], Schedule | UnreadableSchedule]
    number: str
    """The column that identifies a schedule whose name cannot be read."""

    def every(self, db: SqlConnection) -> list[Schedule]:
        """All schedules; unreadable ones say so."""
        found = [self.schedule_of(row) for row in db.execute(self.all).fetchall()]
        return [each if isinstance(each, Schedule) else each.shown() for each in found]

    def find(self, db: SqlConnection, name: str) -> Schedule | None:
        """One schedule; raises if it cannot be read."""
        row = db.execute(self.one, (name,)).fetchone()
        found = None if row is None else self.schedule_of(row)
        if isinstance(found, UnreadableSchedule):
            raise found.error
        return found

    def unreadable(self, db: SqlConnection) -> Iterator[str]:
        """The schedules that cannot be read, as sentences."""
        for row in db.execute(self.all).fetchall():
            found = self.schedule_of(row)
            if isinstance(found, UnreadableSchedule):
                yield f"{found.error}; it is not fired"


class TableSchedules(ABC):
    """The schedules inside a write, for core.rules.scheduling."""

    dialect: ClassVar[Dialect]
    rows: ClassVar[ScheduleRows]

    def __init__(self, database: Any, step: Any) -> None:
        self._database: TableDatabase = database
        self._step: TableStep = step

    @abstractmethod
    def _submit(self, drafts: Sequence[Draft]) -> Sequence[object] | LeaseholdError:
        """Submit jobs independently of each other."""

    @abstractmethod
    def read_job(self, job_id: str) -> Job | None: ...

    @property
    def now(self) -> datetime:
        return from_micros(self._step.now)

    def find(self, name: str) -> Schedule | UnreadableSchedule | None:
        row = self._step.execute(self.rows.one, (name,)).fetchone()
        return None if row is None else self.rows.schedule_of(row)

    def due(self, limit: int) -> Sequence[Schedule | UnreadableSchedule]:
        found = self._step.execute(self.rows.due, (self._step.now, limit)).fetchall()
        return [self.rows.schedule_of(row) for row in found]

    def keep(self, schedule: Schedule) -> None:
        row = {
            **_progress_of(schedule),
            "name": schedule.name,
            "draft": msgspec.json.encode(schedule.draft).decode(),
            "created_at": to_micros(schedule.created_at),
            "updated_at": to_micros(schedule.updated_at),
            "paused": int(schedule.paused),
        }
        self._step.execute(KEEP, [row[name] for name in COLUMNS])

    def move_on(self, schedule: Schedule) -> None:
        self._step.execute(MOVE_ON, (*_progress_of(schedule).values(), schedule.name))

    def postpone(self, key: int, until: datetime, error: str) -> None:
        statement = f"UPDATE schedule SET due_at = $1, error = $2 WHERE {self.rows.number} = $3"
        self._step.execute(statement, (to_micros(until), error, key))

    def remove(self, name: str) -> None:
        self._step.execute(REMOVE, (name,))

    def not_ended(self, job_ids: Sequence[str]) -> Collection[str]:
        statement = NOT_ENDED.format(self.dialect.among("job.id", "$1"))
        found = self._step.execute(statement, (self.dialect.listed(job_ids),))
        return {str(job_id) for (job_id,) in found}

    def schedule_of(self, job_id: str) -> str | None:
        job = self.read_job(job_id)
        return None if job is None else scheduling.schedule_in(job.metadata)

    def submit(self, drafts: Sequence[Draft]) -> Sequence[LeaseholdError | None]:
        answers = self._submit(drafts)
        if isinstance(answers, LeaseholdError):
            return [answers] * len(drafts)
        return [each if isinstance(each, LeaseholdError) else None for each in answers]

    def audit(self, actor: str, action: str, count: int, detail: dict[str, Any]) -> None:
        self._step.audit(actor, action, count, detail)

    def wake(self) -> None:
        self._step.hints.ready = True

    # -- firing ------------------------------------------------------------------------------

    def fire_due(self) -> tuple[int, int | None]:
        """Fire due schedules; returns how many jobs were submitted, and when to look again.

        Every exchange calls this: if nothing is due, it costs one seek.
        """
        look_at = self._next_look()
        if look_at is None or look_at > self._step.now:
            return 0, look_at
        jobs = scheduling.fire_due(self)
        return jobs, self._next_look()

    def _next_look(self) -> int | None:
        row: Any = self._step.execute(NEXT_LOOK).fetchone()
        return None if row is None else row[0]


def _progress_of(schedule: Schedule) -> dict[str, Any]:
    """In the order of MOVE_ON."""
    return {
        "next_at": micros(schedule.next_at),
        "due_at": micros(schedule.due_at),
        "last_at": micros(schedule.last_at),
        "last_job_id": schedule.last_job_id,
        "fired": schedule.fired,
        "missed": schedule.missed,
        "missed_at": micros(schedule.missed_at),
        "error": schedule.error,
    }


class TableScheduleVerbs(ScheduleVerbs):
    """Reads of schedules."""

    _database: TableDatabase
    _schedules: type[TableSchedules]

    def _schedule_shelf(self, write: TableStep) -> TableSchedules:
        return self._schedules(self._database, write)

    def schedules(self) -> list[Schedule]:
        return self._look(self._schedules.rows.every)

    def get_schedule(self, name: str) -> Schedule | None:
        return self._look(lambda db: self._schedules.rows.find(db, name))
