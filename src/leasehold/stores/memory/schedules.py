"""Schedules: kept beside the jobs, fired by leases. The rules: core.rules.scheduling."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from leasehold.core.model.job import Draft, Job
from leasehold.core.model.schedule import Schedule
from leasehold.core.rules import scheduling
from leasehold.env import from_micros, to_micros
from leasehold.errors import LeaseholdError
from leasehold.stores.memory.locked import LockedState
from leasehold.stores.memory.reading import Jobs
from leasehold.stores.memory.state import State
from leasehold.stores.memory.submission import submit
from leasehold.stores.verbs.schedules import ScheduleVerbs


class ScheduleShelf:
    """The schedules, for rules.scheduling. It returns copies only."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.now = from_micros(state.now)
        self.wake = state.wake
        self.audit = state.note_action

    def find(self, name: str) -> Schedule | None:
        known = self._state.schedules.get(name)
        return None if known is None else known.detached()

    def due(self, limit: int) -> Sequence[Schedule]:
        due = [
            (schedule.due_at, name)
            for name, schedule in self._state.schedules.items()
            if schedule.due_at is not None and schedule.due_at <= self.now
        ]
        return [self._state.schedules[name] for _, name in sorted(due)[:limit]]

    def keep(self, schedule: Schedule) -> None:
        self._state.schedules[schedule.name] = schedule.detached()
        self._state.note_change("schedule", schedule.name)
        self.look_for_next()

    def move_on(self, schedule: Schedule) -> None:
        self._state.schedules[schedule.name] = schedule
        self._state.note_change("schedule", schedule.name)

    def postpone(self, *_: object) -> None:
        raise AssertionError("what was never written down can always be read")

    def remove(self, name: str) -> None:
        del self._state.schedules[name]
        self._state.note_change("schedule", name)
        self.look_for_next()

    def not_ended(self, job_ids: Sequence[str]) -> Collection[str]:
        records = self._state.records
        return [
            each for each in job_ids if each in records and not records[each].status.is_terminal
        ]

    def schedule_of(self, job_id: str) -> str | None:
        record = self._state.records.get(job_id)
        return None if record is None else scheduling.schedule_in(record.draft.metadata)

    def submit(self, drafts: Sequence[Draft]) -> Sequence[LeaseholdError | None]:
        answers = submit(self._state, drafts, partial=True)
        return [each if isinstance(each, LeaseholdError) else None for each in answers]

    def look_for_next(self) -> None:
        schedules = self._state.schedules.values()
        due = [each.due_at for each in schedules if each.due_at is not None]
        self._state.next_tick = to_micros(min(due)) if due else None

    def fire_due(self) -> tuple[int, int | None]:
        """Every lease comes by here."""
        state = self._state
        if state.next_tick is None or state.next_tick > state.now:
            return 0, state.next_tick
        jobs = scheduling.fire_due(self)
        self.look_for_next()
        return jobs, state.next_tick

    def read_job(self, job_id: str) -> Job | None:
        return Jobs(self._state).read_job(job_id)


class MemoryScheduleVerbs(LockedState, ScheduleVerbs):
    """Reads of schedules."""

    def _schedule_shelf(self, write: State) -> ScheduleShelf:
        return ScheduleShelf(write)

    def schedules(self) -> list[Schedule]:
        return self._look(
            lambda state: [known.detached() for _, known in sorted(state.schedules.items())]
        )

    def get_schedule(self, name: str) -> Schedule | None:
        return self._look(lambda state: ScheduleShelf(state).find(name))
