"""What people ask for, as this store does it; the verbs are in `core.rules.people`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Final

from leasehold.core.model.codes import EVENT_CODE
from leasehold.core.model.job import Job
from leasehold.core.model.status import Event, Status
from leasehold.core.rules import queue_orders
from leasehold.core.rules.people import Replay
from leasehold.env import to_micros
from leasehold.stores.postgres.keeping.erase import erase
from leasehold.stores.postgres.leasing import ready, state
from leasehold.stores.postgres.leasing.ends import entry
from leasehold.stores.postgres.leasing.state import Ending, Histories, JobState, remove
from leasehold.stores.postgres.reading.read import read_jobs
from leasehold.stores.postgres.rules.queues import QueueBook
from leasehold.stores.postgres.server.connection import POSTGRES
from leasehold.stores.postgres.submitting import inheritance, linking
from leasehold.stores.postgres.submitting.ended_dependents import DependentsBook
from leasehold.stores.postgres.writing.step import Step
from leasehold.stores.tables import ended_dependents, places
from leasehold.stores.tables.linking import replay_order, waits_again_for

REQUEST_CANCEL: Final = "UPDATE running SET cancel_reason = $1 WHERE seq = $2"
ALLOW_AGAIN: Final = "UPDATE job SET allowance = $1, start_by = NULL WHERE seq = $2"
MET_SINCE: Final = """
    SELECT DISTINCT seq FROM event WHERE seq = ANY($1) AND event = ANY($2) AND at > $3
"""
ALLOW: Final = "UPDATE job SET allowance = $1 WHERE seq = $2"
SET_PRIORITY: Final = "UPDATE job SET priority = $1 WHERE seq = $2"


class OrderDesk(Histories):
    """Where people's orders are carried out, inside one write."""

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        self._ending: list[Ending] = []
        """Jobs to be ended, gathered until somebody looks."""

    def find_all(self, job_ids: Sequence[str]) -> dict[str, tuple[JobState, Job]]:
        self._end_all()
        states = state.find_all(self._step, job_ids)
        return {job.id: (states[job.id], job) for job in read_jobs(self._step.db, list(states))}

    def _end_all(self) -> None:
        state.end_all_waiting(self._step, self._ending)
        self._ending = []

    def met_since(
        self, jobs: Sequence[JobState], events: Collection[Event], at: datetime
    ) -> set[str]:
        ids = {job.seq: job.id for job in jobs}
        codes = [EVENT_CODE[event] for event in events]
        rows = self._step.execute(MET_SINCE, (list(ids), codes, to_micros(at))).fetchall()
        return {ids[row[0]] for row in rows}

    def request_cancel(self, job: JobState, reason: str) -> None:
        self._step.execute(REQUEST_CANCEL, (reason, job.seq))

    def wake_holder(self, job: JobState) -> None:
        self._step.hints.cancel_requested.append(job.id)

    def end_waiting(self, job: JobState, after: Status, reason: str) -> None:
        self._ending.append(Ending(job, after, reason))

    def forget(self, jobs: Sequence[JobState]) -> None:
        self._end_all()
        queue_orders.forget(QueueBook(self._step), [job.seq for job in jobs])

    def allow(self, job: JobState, allowance: int) -> None:
        self._step.execute(ALLOW, (allowance, job.seq))

    def waits_again_for(self, handle: JobState, job: Job) -> list[int]:
        return waits_again_for(self._step, handle.seq, job)

    def replay(self, job: JobState, replay: Replay, waits_for: Sequence[int]) -> None:
        step = self._step
        remove(step, job)
        ended_dependents.replayed(step, job.seq)
        step.execute(ALLOW_AGAIN, (replay.allowance, job.seq))
        n = job.events + 1
        version, attempts = job.lease_version, replay.attempts
        if waits_for:
            linking.block_again(
                step, job.seq, waits_for, version=version, attempts=attempts, events=n
            )
        else:
            ready.enter(step, [entry(step, job.seq, version=version, attempts=attempts, events=n)])
        step.record(
            job.seq, n, Event.REPLAYED, job.status, replay.status,
            attempts=attempts, version=version, message=replay.message,
        )  # fmt: skip
        step.move(job.lane, job.status, replay.status)
        step.hints.ready = True

    def needed_by(self, job: JobState) -> str | None:
        return DependentsBook(self._step).needed_by(job.seq)

    def erase(self, job: JobState) -> None:
        erase(self._step, job.seq)

    def reprioritize(self, job: JobState, before: int, after: int) -> None:
        step = self._step
        standing = places.find(step, job.seq)
        step.execute(SET_PRIORITY, (after, job.seq))
        if standing is not None:
            ready.reprioritize(step, standing, after)
        inheritance.Bases(step).reprioritized(job.seq, before)
        step.hints.ready = True

    def replay_order(self, job_ids: Sequence[str]) -> list[int]:
        return replay_order(self._step, POSTGRES, job_ids)

    def audit(self, actor: str, action: str, detail: dict[str, Any], count: int) -> None:
        self._end_all()
        self._step.audit(actor, action, count, detail)
