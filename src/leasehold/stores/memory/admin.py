"""What people do to jobs, as the memory store does it; the verbs are in `core.rules.people`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from leasehold.core.model.job import Job
from leasehold.core.model.status import Event, Status
from leasehold.core.rules import queue_orders
from leasehold.core.rules.people import Replay
from leasehold.env import to_micros
from leasehold.stores.memory import dependents, inheritance
from leasehold.stores.memory.holding import Histories
from leasehold.stores.memory.queues import QueueBook
from leasehold.stores.memory.record import Record, snapshot


class OrderDesk(Histories):
    """Where people's orders are carried out."""

    def find_all(self, job_ids: Sequence[str]) -> dict[str, tuple[Record, Job]]:
        records = self._state.records
        found = {job_id: records[job_id] for job_id in job_ids if job_id in records}
        return {job_id: (record, snapshot(record)) for job_id, record in found.items()}

    def met_since(
        self, jobs: Sequence[Record], events: Collection[Event], at: datetime
    ) -> set[str]:
        since = to_micros(at)
        return {
            job.id
            for job in jobs
            if any(row.event in events and row.at > since for row in job.history)
        }

    def request_cancel(self, job: Record, reason: str) -> None:
        job.cancel_requested = reason
        job.updated_at = self._state.now

    def wake_holder(self, job: Record) -> None:
        if self._state.news is not None:
            self._state.news.cancel_requested.append(job.id)

    def end_waiting(self, job: Record, after: Status, reason: str) -> None:
        self._state.end_waiting(job, after, reason)

    def forget(self, jobs: Sequence[Record]) -> None:
        queue_orders.forget(QueueBook(self._state), [job.id for job in jobs])

    def allow(self, job: Record, allowance: int) -> None:
        job.allowance = allowance

    def waits_again_for(self, handle: Record, job: Job) -> list[str]:  # noqa: ARG002  # the record has it all
        return list(dependents.waits_again_for(self._state, handle))

    def replay(self, job: Record, replay: Replay, waits_for: Sequence[str]) -> None:
        state = self._state
        job.attempts = replay.attempts
        job.allowance = replay.allowance
        job.run_at = state.now
        job.start_by = job.reason = job.ended_by = None
        state.step(job, Event.REPLAYED, replay.status, replay.message)
        if waits_for:
            state.links.block(job, set(waits_for))
            inheritance.raise_needed(state, [job])

    def needed_by(self, job: Record) -> str | None:
        return dependents.needed_by(self._state, job)

    def erase(self, job: Record) -> None:
        dependents.erase(self._state, job)

    def reprioritize(self, job: Record, before: int, after: int) -> None:
        state = self._state
        if job.status is Status.PENDING:
            state.queues[job.draft.queue].lanes.count_anew(before, after)
        job.priority = after
        job.updated_at = state.now
        inheritance.reprioritized(state, job)

    def replay_order(self, job_ids: Sequence[str]) -> list[int]:
        return dependents.replay_order(self._state, job_ids)

    def audit(self, actor: str, action: str, detail: dict[str, Any], count: int) -> None:
        self._state.note_action(actor, action, detail, count)
