"""Rules of every step: the table of transitions, histories that replay, a clock that goes on."""

from __future__ import annotations

from typing import Final

from leasehold.core.model.status import Event, Status
from leasehold.testing.soak.calls import CLEAN_UP
from leasehold.testing.soak.rules.base import JudgedCall, rule

_S, _E = Status, Event
_WAITING: Final = (_S.PENDING, _S.SCHEDULED, _S.FAILED, _S.BLOCKED)

TABLE: Final[frozenset[tuple[Event, Status | None, Status]]] = frozenset(
    {
        (_E.CREATED, None, _S.PENDING),
        (_E.CREATED, None, _S.SCHEDULED),
        (_E.CREATED, None, _S.BLOCKED),
        (_E.PROMOTED, _S.SCHEDULED, _S.PENDING),
        (_E.PROMOTED, _S.FAILED, _S.PENDING),
        (_E.UNBLOCKED, _S.BLOCKED, _S.PENDING),
        (_E.UNBLOCKED, _S.BLOCKED, _S.SCHEDULED),
        (_E.LEASED, _S.PENDING, _S.RUNNING),
        (_E.COMPLETED, _S.RUNNING, _S.COMPLETED),
        (_E.FAILED, _S.RUNNING, _S.FAILED),
        (_E.SNOOZED, _S.RUNNING, _S.SCHEDULED),
        (_E.RELEASED, _S.RUNNING, _S.PENDING),
        (_E.RELEASED, _S.RUNNING, _S.SCHEDULED),
        (_E.RECOVERED, _S.RUNNING, _S.PENDING),
        (_E.DEAD, _S.RUNNING, _S.DEAD),
        (_E.CANCELLED, _S.RUNNING, _S.CANCELLED),
        *((_E.DEAD, status, _S.DEAD) for status in _WAITING),
        *((_E.CANCELLED, status, _S.CANCELLED) for status in _WAITING),
        (_E.REPLAYED, _S.DEAD, _S.PENDING),
        (_E.REPLAYED, _S.DEAD, _S.BLOCKED),
        (_E.REPLAYED, _S.CANCELLED, _S.PENDING),
        (_E.REPLAYED, _S.CANCELLED, _S.BLOCKED),
    }
)
"""Every step that a job may take, written down a second time."""
TELLING: Final = frozenset(
    {
        _E.CANCEL_REQUESTED,
        _E.REPRIORITIZED,
        _E.HEARTBEAT_FAILED,
        _E.ABANDONED,
        _E.VERSION_MISMATCH,
    }
)
"""Events that change nothing."""


@rule("ALL-3")
def the_clock_never_steps_back(step: JudgedCall) -> int:
    if step.method == "repair_clock":
        return 0
    assert step.after.now >= step.before.now, f"from {step.before.now} to {step.after.now}"
    return 1


@rule("ALL-4")
def every_step_is_in_the_table(step: JudgedCall) -> int:
    for event in step.events:
        if event.event in TELLING:
            assert event.before is event.after, f"{event} only tells"
        else:
            assert (event.event, event.before, event.after) in TABLE, f"{event} is not allowed"
    return len(step.events)


@rule("HIS-1")
def a_history_has_no_gaps(step: JudgedCall) -> int:
    last: dict[str, tuple[int, Status | None]] = {}
    for event in step.events:
        known = step.before.jobs.get(event.job_id)
        number, status = last.get(event.job_id, (None, None if known is None else known.status))
        assert event.before is status, f"{event} does not follow {status}"
        assert number is None or event.sequence == number + 1, f"{event} follows number {number}"
        last[event.job_id] = (event.sequence, event.after)
    return len(step.events)


@rule("HIS-2")
def a_history_replays_to_its_job(step: JudgedCall) -> int:
    attempts: dict[str, int] = {}
    last: dict[str, Status | None] = {}
    for event in step.events:
        known = step.before.jobs.get(event.job_id)
        spent = attempts.get(event.job_id, 0 if known is None else known.attempts)
        allowed = {spent}
        if event.event is _E.LEASED:
            allowed = {spent + 1}
        elif event.event in (_E.SNOOZED, _E.RELEASED):
            allowed = {spent - 1}
        elif event.event is _E.REPLAYED or step.method == "recover_one":
            allowed = {spent, 0}
        assert event.attempts in allowed, f"{event} after {spent} attempts"
        attempts[event.job_id], last[event.job_id] = event.attempts, event.after
    for job_id, job in step.after.jobs.items():
        known = step.before.jobs.get(job_id)
        if job_id in last:
            assert job.status is last[job_id], f"{job_id} is {job.status}, not {last[job_id]}"
            assert job.attempts == attempts[job_id], f"{job_id} has {job.attempts} attempts"
        elif known is not None:
            assert job.status is known.status, f"{job_id} became {job.status} in silence"
        else:
            raise AssertionError(f"{job_id} was created in silence")
    return len(last)


@rule("GONE")
def jobs_leave_only_when_they_are_sent_away(step: JudgedCall) -> int:
    if step.method in ("discard", "order", "advance_operation", "purge_queue", "prune", CLEAN_UP):
        return len(step.gone)
    for job in step.gone:
        assert step.may_forget(job), f"{job.id} is gone: it was {job.status}, or its queue keeps it"
    return len(step.gone)
