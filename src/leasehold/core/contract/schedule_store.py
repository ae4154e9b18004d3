"""The part of the store contract that is about schedules; `contract.store` explains the rest."""

from __future__ import annotations

from typing import Protocol

from leasehold.core.model.job import Job
from leasehold.core.model.schedule import Fired, Schedule, ScheduleDraft


class ScheduleStore(Protocol):
    """Where schedules live, beside the jobs that they submit."""

    def set_schedule(self, draft: ScheduleDraft, *, actor: str) -> Schedule:
        """Add a schedule, or change the one with that name.

        - SCH-1  A new schedule first ticks at the first tick of its timing after now. Listeners are
                 woken, since they might otherwise sleep past it.
        - SCH-2  A known one is changed to the draft. With the same timing its next tick stays, so
                 that missed ticks are still due; with another timing it starts again after now. A
                 pause is kept. The same draft again changes nothing and is not audited.
        - SCH-3  ScheduleDraft.check() is applied; an error that it raises changes nothing.
        """

    def schedules(self) -> list[Schedule]:
        """Every schedule, by name."""

    def get_schedule(self, name: str) -> Schedule | None:
        """A snapshot, or None."""

    def remove_schedule(self, name: str, *, actor: str) -> Schedule:
        """Forget a schedule; returns its last snapshot.

        - SCH-4  It no longer ticks; the jobs it has submitted stay. An unknown name raises
                 ScheduleNotFoundError here and below.
        """

    def pause_schedule(self, name: str, *, paused: bool, actor: str) -> Schedule:
        """Pause a schedule, or resume it.

        - SCH-5  While it is paused no tick is fired; it resumes with the first tick after now.
        """

    def run_schedule(self, name: str, *, job_id: str, actor: str) -> Job:
        """Submit the schedule's job now, out of turn.

        - SCH-6  The ticks, and a pause, stay as they are; the job's metadata names the schedule. A
                 second call with the same `job_id` returns the existing job, so a call may be
                 repeated after a lost reply, and a button may be pressed twice.
        """

    def fire_schedules(self) -> Fired:
        """Submit the jobs of all ticks that are due. Workers call it through `exchange`.

        - SCH-7  The jobs are submitted and the schedule advances in one write: every tick is run
                 once or passed over by a policy, however many callers there are and wherever one
                 dies. A job's id and metadata name its schedule and tick.
        - SCH-8  An exchange that asks for leases does the same before it leases; its `next_due_at`
                 and `next_tick_at` take the next tick into account.
        - SCH-9  Of several due ticks `run_once` runs the latest, `catch_up` the latest
                 `catch_up_max`, `skip` the latest unless it is more than `grace_seconds` late. The
                 others are counted as missed, at most 100 of them at a time.
        - SCH-10  With `overlap="skip"` a tick is passed over while the job of the tick before has
                 not ended, and at most one job is submitted at a time.
        - SCH-11  A refused job does not hinder other schedules or leasing: its schedule records
                 why, and the tick stays due and is tried again.
        """
