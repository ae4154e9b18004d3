"""What people ask for, as this store does it; the verbs are in `core.rules.people`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Final

from leasehold.core.model.codes import EVENT_CODE
from leasehold.core.model.job import Job
from leasehold.core.model.status import Event, Status
from leasehold.core.model.unreadable import cannot_be_read
from leasehold.core.rules import queue_orders
from leasehold.core.rules.people import Replay
from leasehold.env import to_micros
from leasehold.stores.sqlite.keeping.removing import erase
from leasehold.stores.sqlite.leasing import ready, state
from leasehold.stores.sqlite.leasing.ends import entry
from leasehold.stores.sqlite.leasing.state import Histories, JobState, remove
from leasehold.stores.sqlite.reading.read import read_job
from leasehold.stores.sqlite.rules.queues import QueueBook
from leasehold.stores.sqlite.schema.job_row import problem_with
from leasehold.stores.sqlite.schema.rows import SQLITE
from leasehold.stores.sqlite.submitting import inheritance, linking
from leasehold.stores.sqlite.submitting.ended_dependents import DependentsBook
from leasehold.stores.tables import ended_dependents, places
from leasehold.stores.tables.linking import replay_order, waits_again_for

REQUEST_CANCEL: Final = "UPDATE running SET cancel_reason = ? WHERE seq = ?"
ALLOW_AGAIN: Final = "UPDATE job SET allowance = ?, start_by = NULL WHERE seq = ?"
MET_SINCE: Final = "SELECT 1 FROM event WHERE seq = ? AND event = ? AND at > ?"
ALLOW: Final = "UPDATE job SET allowance = ? WHERE seq = ?"
SET_PRIORITY: Final = "UPDATE job SET priority = ? WHERE seq = ?"


class OrderDesk(Histories):
    """Where people's orders are carried out, inside one write."""

    def find_all(self, job_ids: Sequence[str]) -> dict[str, tuple[JobState, Job]]:
        found: dict[str, tuple[JobState, Job]] = {}
        for job_id in job_ids:
            standing = state.find(self._step, job_id)
            job = None if standing is None else read_job(self._step.db, job_id)
            if standing is not None and job is not None:
                found[job_id] = standing, job
        return found

    def met_since(
        self, jobs: Sequence[JobState], events: Collection[Event], at: datetime
    ) -> set[str]:
        since = to_micros(at)
        return {
            job.id
            for job in jobs
            for event in events
            if self._step.execute(MET_SINCE, (job.seq, EVENT_CODE[event], since)).fetchone()
        }

    def request_cancel(self, job: JobState, reason: str) -> None:
        self._step.execute(REQUEST_CANCEL, (reason, job.seq))

    def wake_holder(self, job: JobState) -> None:
        self._step.hints.cancel_requested.append(job.id)

    def end_waiting(self, job: JobState, after: Status, reason: str) -> None:
        state.end_waiting(self._step, job, after, reason)

    def forget(self, jobs: Sequence[JobState]) -> None:
        queue_orders.forget(QueueBook(self._step), [job.seq for job in jobs])

    def allow(self, job: JobState, allowance: int) -> None:
        self._step.execute(ALLOW, (allowance, job.seq))

    def waits_again_for(self, handle: JobState, job: Job) -> list[int]:
        return waits_again_for(self._step, handle.seq, job)

    def replay(self, job: JobState, replay: Replay, waits_for: Sequence[int]) -> None:
        step = self._step
        problem = problem_with(step.db, job.seq)
        if problem is not None:
            raise cannot_be_read(job.id, problem)
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
        return replay_order(self._step, SQLITE, job_ids)

    def audit(self, actor: str, action: str, detail: dict[str, Any], count: int) -> None:
        self._step.audit(actor, action, count, detail)
