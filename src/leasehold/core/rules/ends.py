"""The ends of attempts: the decisions about jobs that have just left `running`, as rows.

Ends are gathered and written by one statement of each kind, since nearly every job ends in a batch
of settlements.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Final, NamedTuple, Protocol

from leasehold.core.model.codes import EVENT_CODE, STATUS_CODE
from leasehold.core.model.lease import Settled
from leasehold.core.model.outcome import Complete, Fail, JobError, Outcome
from leasehold.core.model.span import Measure
from leasehold.core.model.status import Status
from leasehold.core.model.stored import UNREADABLE, problem_of, retry_of
from leasehold.core.model.unreadable import set_aside_reason
from leasehold.core.rules.decision import Decision, completed, decide, failed_for_good
from leasehold.core.rules.measuring import Measured
from leasehold.env import from_micros, to_micros

# Enum members are slow to look up in Python 3.11.
_RUN: Final = Measure.RUN
_NO_RUN: Final = Measure.NO_RUN
_COMPLETED: Final = completed(1)
COMPLETED_EVENT: Final = _COMPLETED.event
COMPLETED_STATUS: Final = _COMPLETED.status
COMPLETED_CODES: Final = (EVENT_CODE[COMPLETED_EVENT], STATUS_CODE[COMPLETED_STATUS])
"""The codes of a completed attempt: the event, and the job's status after it."""


class EndedLease(NamedTuple):
    """A lease that has just ended, as END_LEASE returns it."""

    seq: int
    version: int
    worker: str
    acquired_at: int
    attempts: int
    events: int
    leased_event: int
    available_at: int
    cancel_reason: str | None
    expires_at: int
    heartbeat_at: int
    lease_micros: int


_Kind = tuple[int, Status, tuple[str, ...], bool, str]
"""The key of ends counted together: lane, status after, totals, whether they have run, worker."""


def decide_end(
    held: EndedLease, outcome: Outcome, allowance: int, retry: str | None, random: Random, now: int
) -> Decision:
    """What becomes of a job whose lease has just ended; `retry` is its policy as stored."""
    policy = None
    if isinstance(outcome, Fail) and retry is not None:
        try:
            policy = retry_of(retry)
        except UNREADABLE as error:
            # The time of the next try cannot be computed: the job is set aside, with the attempt's
            # outcome.
            reason = set_aside_reason(problem_of(error))
            return failed_for_good(held.attempts, reason, outcome.error)
    return decide(
        outcome,
        attempts=held.attempts,
        allowance=allowance,
        policy=policy,
        cancel_reason=held.cancel_reason,
        now=from_micros(now),
        random=random,
    )


class Counters(Protocol):
    """The counts of one write."""

    def move(self, lane: int, before: Status, after: Status, jobs: int) -> None:
        """Count jobs of a lane from one status to another."""

    def count(self, lane: int, name: str, by: int) -> None:
        """Change a lane's counter."""

    def worked(self, worker: str, lane: int, names: Sequence[str], jobs: int) -> None:
        """Count jobs of a lane for a worker, under the names that are counted by worker."""


class GatheredEnds:
    """Ends of attempts of one write, gathered until they are written."""

    __slots__ = (
        "_completed", "_counted", "_events_max", "_measured", "_now",
        "again", "attempts", "ended", "errors", "failed", "finished", "surplus", "waiting",
    )  # fmt: skip

    def __init__(self, now: int, records_max: int, measured: Measured) -> None:
        self._now = now
        self._measured = measured
        self._events_max = 2 * records_max
        """A job with no more events than this cannot have too many attempt records."""
        self._counted: dict[_Kind, list[int]] = {}
        """How long each attempt held its lease."""
        self._completed: dict[tuple[int, str], list[int]] = {}
        """How long each completed attempt held its lease, by lane and worker."""
        self.attempts: list[tuple[Any, ...]] = []
        """The rows of `attempt`."""
        self.finished: list[tuple[Any, ...]] = []
        """The rows of `finished`."""
        self.waiting: list[tuple[Any, ...]] = []
        """The rows of `waiting`."""
        self.again: list[tuple[int, int, int, int]] = []
        """Jobs that are pending again: number, lease version, attempts and events."""
        self.ended: list[str] = []
        """The ids of jobs that have ended."""
        self.failed: list[tuple[int, int]] = []
        """Jobs that have failed again, and when."""
        self.errors: list[tuple[int, str, JobError]] = []
        """Failed attempts: lane, job and error."""
        self.surplus: list[int] = []
        """Jobs that may have too many attempt records."""

    def complete(self, job_id: str, held: tuple[Any, ...], lane: int, outcome: Complete) -> Settled:
        """Complete a job; `held` has the columns of an EndedLease.

        Nearly all attempts end this way, so its cost determines a worker's throughput.
        """
        now = self._now
        (
            seq, version, worker, acquired_at, attempts, events, leased_event, available_at, _,
            _, _, lease_micros,
        ) = held  # fmt: skip
        n = events + 1
        event, status = COMPLETED_CODES
        self.attempts.append(
            (
                seq, version, attempts, worker, acquired_at, now, event, status, attempts,
                leased_event, n, None, None, None, None, outcome.note, None, None, lease_micros,
            )
        )  # fmt: skip
        if n > self._events_max:
            self.surplus.append(seq)
        codec = None if outcome.codec == "json" else outcome.codec
        self.finished.append(
            (
                seq, status, now, acquired_at, available_at, version, attempts, n,
                outcome.result, codec, None,
            )
        )  # fmt: skip
        self.ended.append(job_id)
        micros = self._completed.get((lane, worker))
        if micros is None:
            self._completed[lane, worker] = [now - acquired_at]
        else:
            micros.append(now - acquired_at)
        return Settled(job_id, version, COMPLETED_EVENT, COMPLETED_STATUS, attempts)

    def add(
        self,
        job_id: str,
        held: EndedLease,
        lane: int,
        decision: Decision,
        *,
        checkpoint: bool = False,
    ) -> Settled:
        """Apply a decision to a job that did not complete; a lost attempt leaves a checkpoint
        record.
        """
        now = self._now
        status, attempts, error = decision.status, decision.attempts, decision.error
        code = STATUS_CODE[status]
        (
            seq, version, worker, acquired_at, number, events, leased_event, available_at, _,
            expires_at, heartbeat_at, lease_micros,
        ) = held  # fmt: skip
        n = events + 1
        self.attempts.append(
            (
                seq,
                version,
                number,
                worker,
                acquired_at,
                now,
                EVENT_CODE[decision.event],
                code,
                attempts,
                leased_event,
                n,
                decision.message or None,
                None if error is None else error.type,
                None if error is None else error.message,
                None if error is None else error.traceback,
                None,
                expires_at if checkpoint else None,
                heartbeat_at if checkpoint else None,
                lease_micros,
            )
        )
        if error is not None and decision.is_failure:
            self.failed.append((seq, now))
        if n > self._events_max:
            self.surplus.append(seq)
        if status is Status.PENDING:
            self.again.append((seq, version, attempts, n))
        elif decision.run_at is not None:
            due = to_micros(decision.run_at)
            self.waiting.append((seq, code, due, now, version, attempts, n, decision.reason))
        else:
            self.finished.append(
                (
                    seq, code, now, acquired_at, available_at, version, attempts, n,
                    None, None, decision.reason,
                )
            )  # fmt: skip
            self.ended.append(job_id)
        if error is not None and status is not Status.CANCELLED:
            self.errors.append((lane, job_id, error))
            if status is Status.FAILED:
                self._measured.retried(lane, attempts)
        kind = (lane, status, decision.totals, decision.has_run, worker)
        micros = self._counted.get(kind)
        if micros is None:
            self._counted[kind] = [now - acquired_at]
        else:
            micros.append(now - acquired_at)
        return Settled(job_id, version, decision.event, status, attempts, decision.run_at)

    def count(self, counters: Counters) -> None:
        """Count these ends in their lanes and for their workers."""
        for (lane, worker), micros in self._completed.items():
            count_completed(counters, self._measured, lane, worker, micros)
        for kind, micros in self._counted.items():
            _count(counters, self._measured, kind, micros)


def count_completed(
    counters: Counters, measured: Measured, lane: int, worker: str, micros: Sequence[int]
) -> None:
    """Count completed jobs of a lane for their worker, with their run times."""
    kind = (lane, COMPLETED_STATUS, _COMPLETED.totals, _COMPLETED.has_run, worker)
    _count(counters, measured, kind, micros)


def _count(counters: Counters, measured: Measured, kind: _Kind, micros: Sequence[int]) -> None:
    lane, after, totals, has_run, worker = kind
    counters.move(lane, Status.RUNNING, after, len(micros))
    for name in totals:
        counters.count(lane, f"total_{name}", len(micros))
    measured.took(lane, _RUN if has_run else _NO_RUN, micros)
    counters.worked(worker, lane, totals, len(micros))
