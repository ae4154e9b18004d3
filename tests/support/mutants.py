"""Stores that are broken on purpose, each in one way: the simulator's checker must notice."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec

from leasehold.core.model.history import Attempt, HistoryEvent
from leasehold.core.model.job import Draft, Job
from leasehold.core.model.lease import (
    Exchange,
    Lease,
    LeaseRequest,
    Renewal,
    Renewed,
    Settlement,
    SweepReport,
)
from leasehold.core.model.queue_config import QueueConfig, QueueInfo
from leasehold.core.model.records import Stats, Submitted
from leasehold.core.model.retention import RetentionPolicy
from leasehold.core.model.retry import Constant
from leasehold.core.model.status import Event, Status
from leasehold.env import Env
from leasehold.errors import LeaseExpiredError, LeaseholdError, LeaseLostError
from leasehold.stores.memory import MemoryStore

_KEEP = RetentionPolicy(completed_seconds=None, dead_seconds=None, cancelled_seconds=None)


class Sound(MemoryStore):
    """Keeps every promise; each mutant breaks one."""

    def __init__(self, env: Env) -> None:
        super().__init__(env, retention=_KEEP)

    def current_version(self, job_id: str) -> int:
        job = self.get(job_id)
        return 0 if job is None else job.lease_version


class DropsTheFence(Sound):
    """Settles whatever runs, whoever says so."""

    def exchange(
        self, settlements: Sequence[Settlement] = (), request: LeaseRequest | None = None
    ) -> Exchange:
        unfenced = [
            msgspec.structs.replace(each, version=self.current_version(each.job_id))
            for each in settlements
        ]
        return super().exchange(unfenced, request)


class RenewsForAnybody(Sound):
    """Renews the current lease for a holder of an old one."""

    def renew(self, worker: str, renewals: Sequence[Renewal]) -> list[Renewed | LeaseLostError]:
        unfenced = [
            msgspec.structs.replace(each, version=self.current_version(each.job_id))
            for each in renewals
        ]
        return super().renew(worker, unfenced)


class RenewsWhatExpired(Sound):
    """Says yes to a renewal that came too late."""

    def renew(self, worker: str, renewals: Sequence[Renewal]) -> list[Renewed | LeaseLostError]:
        answers = super().renew(worker, renewals)
        return [
            Renewed(each.job_id, each.version, self.now() + timedelta(seconds=9), 9.0, 1.0)
            if isinstance(answer, LeaseExpiredError)
            else answer
            for each, answer in zip(renewals, answers, strict=True)
        ]


class RobsTheLiving(Sound):
    """Its sweep also takes back a job whose lease has not expired."""

    def recover(self, *, actor: str | None = None) -> SweepReport:
        report = super().recover(actor=actor)
        for job in self.stuck(0.001)[:1]:
            self.recover_one(job.job_id, job.lease_version, reset_attempts=False, reason="eager")
        return report


class NeverSweeps(Sound):
    """Lets expired leases lie."""

    def recover(self, *, actor: str | None = None) -> SweepReport:
        return SweepReport()


class EndsLeasesByAJump(Sound):
    """Follows a clock that moved on, and leaves the leases where they were."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self._state._move_leases = lambda time: None  # type: ignore[method-assign]


class LosesASubmit(Sound):
    """Acknowledges every seventh job without keeping it."""

    submits = 0

    def submit(
        self, drafts: Sequence[Draft], *, partial: bool = False
    ) -> list[Submitted | LeaseholdError]:
        self.submits += 1
        if self.submits % 7 == 0 and not any(draft.priority > 100 for draft in drafts):
            return [Submitted(draft.id, Status.PENDING) for draft in drafts]
        return super().submit(drafts, partial=partial)


class StoresHalfABatch(Sound):
    """Stores the good part of a batch that it refuses."""

    def submit(
        self, drafts: Sequence[Draft], *, partial: bool = False
    ) -> list[Submitted | LeaseholdError]:
        try:
            return super().submit(drafts, partial=partial)
        except LeaseholdError:
            super().submit(drafts, partial=True)
            raise


class IgnoresKeys(Sound):
    """Makes a new job for a key it has seen."""

    def submit(
        self, drafts: Sequence[Draft], *, partial: bool = False
    ) -> list[Submitted | LeaseholdError]:
        keyless = [msgspec.structs.replace(draft, idempotency_key=None) for draft in drafts]
        return super().submit(keyless, partial=partial)


class LeasesTooEarly(Sound):
    """Takes a delayed job for one that is due."""

    def submit(
        self, drafts: Sequence[Draft], *, partial: bool = False
    ) -> list[Submitted | LeaseholdError]:
        hasty = [
            msgspec.structs.replace(draft, delay_seconds=draft.delay_seconds * 0.5)
            if draft.delay_seconds
            else draft
            for draft in drafts
        ]
        return super().submit(hasty, partial=partial)


class ServesTheWrongOrder(Sound):
    """Serves the lowest priority first."""

    def submit(
        self, drafts: Sequence[Draft], *, partial: bool = False
    ) -> list[Submitted | LeaseholdError]:
        upside_down = [
            msgspec.structs.replace(draft, priority=100 - draft.priority)
            if draft.priority <= 100
            else draft
            for draft in drafts
        ]
        return super().submit(upside_down, partial=partial)


class StartsTooFast(Sound):
    """Lets twice as many jobs of a key begin as its start rate says."""

    def create_queue(self, queue: str, config: QueueConfig, *, actor: str) -> QueueInfo:
        rate = config.key_starts_per_second
        faster = msgspec.structs.replace(config, key_starts_per_second=rate and 2 * rate)
        return super().create_queue(queue, faster, actor=actor)


class StartsTooSlowly(Sound):
    """Holds jobs back for twice as long as the start rate of their queue says."""

    def create_queue(self, queue: str, config: QueueConfig, *, actor: str) -> QueueInfo:
        rate = config.starts_per_second
        slower = msgspec.structs.replace(config, starts_per_second=rate and rate / 2)
        return super().create_queue(queue, slower, actor=actor)


class ReusesVersions(Sound):
    """Starts again from 1 for an id that was discarded."""

    def discard(self, job_ids: Sequence[str], *, actor: str) -> list[Job | LeaseholdError]:
        answers = super().discard(job_ids, actor=actor)
        self._state.version_floor = 0
        return answers


class GrantsOneLeaseTwice(Sound):
    """Hands the same lease to the next who asks."""

    last: Lease | None = None

    def exchange(
        self, settlements: Sequence[Settlement] = (), request: LeaseRequest | None = None
    ) -> Exchange:
        answer = super().exchange(settlements, request)
        if request is not None and not answer.leases and self.last is not None:
            lease = msgspec.structs.replace(self.last, worker=request.worker)
            return Exchange(answer.settled, [lease], answer.next_due_at)
        self.last = answer.leases[-1] if answer.leases else None
        return answer


class CompletesTwice(Sound):
    """Answers a second settlement as if it counted."""

    settled: dict[tuple[str, int], Any]

    def exchange(
        self, settlements: Sequence[Settlement] = (), request: LeaseRequest | None = None
    ) -> Exchange:
        self.settled = getattr(self, "settled", {})
        answer = super().exchange(settlements, request)
        for number, (each, settled) in enumerate(zip(settlements, answer.settled, strict=True)):
            key = (each.job_id, each.version)
            if isinstance(settled, LeaseLostError):
                answer.settled[number] = self.settled.get(key, settled)
            else:
                self.settled[key] = settled
        return answer


class RunsTheCancelled(Sound):
    """Says that a job is cancelled, and lets it run."""

    def cancel(
        self, job_ids: Sequence[str], *, reason: str, actor: str
    ) -> list[Job | LeaseholdError]:
        answers = super().cancel(job_ids, reason=reason, actor=actor)
        cancelled = [each.id for each in answers if isinstance(each, Job) and each.is_done]
        self.replay(cancelled, reset_attempts=False, actor=actor)
        return answers


class SpendsNoAttempt(Sound):
    """Takes back an attempt when a job is recovered, so that poison jobs run for ever."""

    def recover(self, *, actor: str | None = None) -> SweepReport:
        for job in self._state.running.values():
            if job.expires_at <= self._state.now:
                job.attempts -= 1
        return super().recover(actor=actor)


class RetriesAtOnce(Sound):
    """Knows no backoff."""

    def submit(
        self, drafts: Sequence[Draft], *, partial: bool = False
    ) -> list[Submitted | LeaseholdError]:
        hasty = [msgspec.structs.replace(draft, retry=Constant(0.0)) for draft in drafts]
        return super().submit(hasty, partial=partial)


class ForgetsHistory(Sound):
    """Leaves out the failures."""

    def history(self, job_id: str) -> list[HistoryEvent]:
        return [event for event in super().history(job_id) if event.event is not Event.FAILED]


class ForgetsAttempts(Sound):
    """Leaves no checkpoint of a lost attempt."""

    def attempts(self, job_id: str) -> list[Attempt]:
        return [each for each in super().attempts(job_id) if each.outcome is not Event.RECOVERED]


class Miscounts(Sound):
    """Loses count when a job is discarded."""

    def stats(self, queue: str | None = None) -> Stats:
        return msgspec.structs.replace(super().stats(queue), cleaned=0)


class TurnsTheClockBack(Sound):
    """Lets the clock follow the wall clock back."""

    def renew(self, worker: str, renewals: Sequence[Renewal]) -> list[Renewed | LeaseLostError]:
        self._state.now = min(self._state.now, self._state.env.now_micros())
        return super().renew(worker, renewals)


class SweepsLate(Sound):
    """Takes jobs back only long after their leases expired, and says so."""

    def recover(self, *, actor: str | None = None) -> SweepReport:
        overdue = [job for job in self._state.running.values() if self._is_overdue(job.expires_at)]
        return super().recover(actor=actor) if overdue else SweepReport()

    def _is_overdue(self, expires_at: int) -> bool:
        return expires_at + 120_000_000 < self._state.now


MUTANTS: dict[type[Sound], frozenset[str]] = {
    DropsTheFence: frozenset({"S2", "S5"}),
    RenewsForAnybody: frozenset({"S5", "S11"}),
    RenewsWhatExpired: frozenset({"S4"}),
    RobsTheLiving: frozenset({"S4", "S5"}),
    NeverSweeps: frozenset({"L1"}),
    SweepsLate: frozenset({"L1"}),
    # It says that what it loses is pending, also of what was to be delayed; and nobody leases it.
    LosesASubmit: frozenset({"S1", "S10", "S7", "S9"}),
    # A sweep reckons with leases that were moved: one that was not may lie there, too.
    EndsLeasesByAJump: frozenset({"S4", "L1"}),
    StoresHalfABatch: frozenset({"S1", "S2"}),
    # A submit that is repeated under its key has the id of the first one, too: that is refused.
    IgnoresKeys: frozenset({"S10", "S1"}),
    # What it takes for due has waited longer, for it, than it has: that may show first.
    LeasesTooEarly: frozenset({"S7", "S9"}),
    ServesTheWrongOrder: frozenset({"S9"}),
    StartsTooFast: frozenset({"S12"}),
    StartsTooSlowly: frozenset({"S9"}),
    ReusesVersions: frozenset({"S3"}),
    GrantsOneLeaseTwice: frozenset({"S3", "S4"}),
    CompletesTwice: frozenset({"S2", "S5"}),
    # A job that is not really cancelled cannot be replayed either.
    RunsTheCancelled: frozenset({"S13", "S2"}),
    # Attempts count in the order.
    SpendsNoAttempt: frozenset({"S6", "S9"}),
    RetriesAtOnce: frozenset({"S7"}),
    ForgetsHistory: frozenset({"S11"}),
    ForgetsAttempts: frozenset({"S6"}),
    Miscounts: frozenset({"STATS"}),
    TurnsTheClockBack: frozenset({"S4"}),
}
"""Each mutant, and the promises of which one must be found broken."""
