"""Settle: a holder's last word on its lease, fenced by the lease version.

Guard of every statement here: the job's row is in `running` with exactly this version. Deleting
that row is the fence; what the delete did not return was not the caller's any more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from leasehold.core.lease import Settled, Settlement
from leasehold.core.limits import ATTEMPT_RECORDS_MAX
from leasehold.core.messages import mismatch
from leasehold.core.outcome import (
    Complete,
    Decision,
    Fail,
    JobError,
    Outcome,
    decide,
    reason_after,
    within_limits,
)
from leasehold.core.refusals import lease_of_no_job, stale_lease
from leasehold.core.status import Event, Status
from leasehold.core.unreadable import set_aside_reason
from leasehold.env import from_micros, to_micros
from leasehold.errors import LeaseLostError
from leasehold.stores.sqlite.leasing import breakers, parking, ready
from leasehold.stores.sqlite.leasing.finish import INSERT_FINISHED
from leasehold.stores.sqlite.leasing.locate import bump_events, locate
from leasehold.stores.sqlite.leasing.ready import Entry
from leasehold.stores.sqlite.schema.codes import EVENT_CODE, STATUS_CODE
from leasehold.stores.sqlite.schema.rows import UNREADABLE, problem_of, retry_of
from leasehold.stores.sqlite.writing.step import Step

FIND_SEQ: Final = "SELECT seq FROM job WHERE id = ?"
END_LEASE: Final = """
    DELETE FROM running WHERE seq = ? AND version = ?
    RETURNING seq, version, worker, acquired_at, attempts, events, leased_event, available_at,
              cancel_reason, expires_at, heartbeat_at
"""
INSERT_ATTEMPT: Final = f"INSERT INTO attempt VALUES ({', '.join('?' * 18)})"  # noqa: S608  # placeholders
SURPLUS_ATTEMPT: Final = """
    SELECT version FROM attempt WHERE seq = ? ORDER BY version DESC LIMIT 1 OFFSET ?
"""
# An attempt record stands for two history events; they stay when the record itself has to go.
KEEP_ITS_EVENTS: Final = """
    INSERT INTO event
    SELECT seq, leased_event, started_at, 3, 2, 3, number, worker, version, NULL
        FROM attempt WHERE seq = ?1 AND version <= ?2
    UNION ALL
    SELECT seq, ended_event, ended_at, outcome, 3, after, attempts, worker, version, message
        FROM attempt WHERE seq = ?1 AND version <= ?2
"""
DROP_ATTEMPTS: Final = "DELETE FROM attempt WHERE seq = ? AND version <= ?"
INSERT_WAITING: Final = "INSERT INTO waiting VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
JOB_RULES: Final = """
    SELECT lane, priority, allowance, retry, parent_id, created_at, deadline,
           coalesce((SELECT base FROM raised WHERE raised.seq = job.seq), priority)
    FROM job WHERE seq = ?
"""
JOB_LANE: Final = "SELECT lane FROM job WHERE seq = ?"
HOLDER_NOW: Final = "SELECT worker, version FROM running WHERE seq = ?"
HOLDER_THEN: Final = "SELECT worker FROM attempt WHERE seq = ? AND version = ?"

_COMPLETED = STATUS_CODE[Status.COMPLETED]
_COMPLETED_EVENT = EVENT_CODE[Event.COMPLETED]

# Positions in what END_LEASE returns.
_SEQ, _VERSION, _WORKER, _ACQUIRED, _ATTEMPTS, _EVENTS, _LEASED, _AVAILABLE, _CANCEL = range(9)
_EXPIRES, _HEARTBEAT = 9, 10
Held = tuple[Any, ...]


def settle(
    step: Step,
    settlements: Sequence[Settlement],
    seq_of: Mapping[tuple[str, int], tuple[int, int]],
) -> list[Settled | LeaseLostError]:
    """Settle what is still held; answer the rest with what happened to it instead.

    `seq_of` knows (number, lane) of the leases granted here, which spares looking them up.
    """
    keys: list[tuple[int, int]] = []
    lanes: dict[int, int] = {}
    for settlement in settlements:
        known = seq_of.get((settlement.job_id, settlement.version))
        if known is None:
            row = step.execute(FIND_SEQ, (settlement.job_id,)).fetchone()
            keys.append((row[0] if row else 0, settlement.version))
        else:
            keys.append((known[0], settlement.version))
            lanes[known[0]] = known[1]
    if len({seq for seq, _ in keys}) < len(keys):
        # One job twice, under an old lease and a new one: each is judged by what the last one left.
        return [answer for each in settlements for answer in settle(step, [each], seq_of)]
    held: dict[tuple[int, int], Held] = {
        (row[_SEQ], row[_VERSION]): row for row in step.executemany(END_LEASE, keys)
    }
    if step.rules.key_limits:
        parking.freed(step, [seq for seq, _ in held])
    answers: list[Settled | LeaseLostError] = []
    now = step.now
    attempts: list[tuple[Any, ...]] = []
    finished: list[tuple[Any, ...]] = []
    runs: defaultdict[int, list[int]] = defaultdict(list)
    for settlement, key in zip(settlements, keys, strict=True):
        row = held.pop(key, None)
        if row is None:
            # Looked up anew: the known number may be that of a discarded job whose id lives again.
            found = step.execute(FIND_SEQ, (settlement.job_id,)).fetchone()
            number = found[0] if found else 0
            answers.append(refuse(step, settlement.job_id, number, settlement.version))
            continue
        outcome = within_limits(settlement.outcome, settlement.job_id)
        if isinstance(outcome, Complete):
            lane = lanes.get(key[0]) or _lane(step, key[0])
            runs[lane].append(now - row[_ACQUIRED])
            step.succeeded.add(lane)
            _complete(now, row, outcome, attempts, finished)
            step.job_ended(settlement.job_id)
            answers.append(
                Settled(
                    settlement.job_id,
                    settlement.version,
                    Event.COMPLETED,
                    Status.COMPLETED,
                    row[_ATTEMPTS],
                )
            )
        else:
            answers.append(_settle_otherwise(step, settlement.job_id, row, outcome))
    for lane, micros in runs.items():
        step.move(lane, Status.RUNNING, Status.COMPLETED, len(micros))
        step.count(lane, "total_completed", len(micros))
        step.measured.ran(step.count, lane, micros)
    step.executemany(INSERT_ATTEMPT, attempts)
    step.executemany(INSERT_FINISHED, finished)
    return answers


def _lane(step: Step, seq: int) -> int:
    row = step.execute(JOB_LANE, (seq,)).fetchone()
    assert row is not None
    return int(row[0])


def _complete(
    now: int,
    row: Held,
    outcome: Complete,
    attempts: list[tuple[Any, ...]],
    finished: list[tuple[Any, ...]],
) -> None:
    """The way nearly every job ends, gathered so that many are written by one statement."""
    seq, version, worker, acquired_at, number, events, leased_event, available_at = row[:8]
    n = events + 1
    attempts.append(
        (
            seq,
            version,
            number,
            worker,
            acquired_at,
            now,
            _COMPLETED_EVENT,
            _COMPLETED,
            number,
            leased_event,
            n,
            None,
            None,
            None,
            None,
            outcome.note,
            None,
            None,
        )
    )
    codec = None if outcome.codec == "json" else outcome.codec
    finished.append(
        (
            seq,
            _COMPLETED,
            now,
            acquired_at,
            available_at,
            version,
            number,
            n,
            outcome.result,
            codec,
            None,
        )
    )


def _settle_otherwise(step: Step, job_id: str, row: Held, outcome: Outcome) -> Settled:
    rules = step.execute(JOB_RULES, (row[_SEQ],)).fetchone()
    assert rules is not None
    decision = _decide(step, row, rules, outcome)
    error = outcome.error if isinstance(outcome, Fail) else None
    if isinstance(outcome, Fail):
        # An attempt that was to be stopped anyway ends as cancelled, not as failed.
        if decision.event is not Event.CANCELLED:
            step.count(rules[0], "total_failed")
            step.measured.ran(step.count, rules[0], [step.now - row[_ACQUIRED]])
        if outcome.breaker is not None:
            breakers.failed(step, rules[0], outcome.breaker)
    return apply_decision(step, job_id, row, rules, decision, error)


def _decide(step: Step, row: Held, rules: tuple[Any, ...], outcome: Outcome) -> Decision:
    try:
        needed = isinstance(outcome, Fail) and rules[3] is not None
        policy = retry_of(rules[3]) if needed else None
    except UNREADABLE as error:
        # When to try it again cannot be read: it is set aside, with what the attempt came to.
        reason = set_aside_reason(problem_of(error))
        return Decision(Event.DEAD, Status.DEAD, row[_ATTEMPTS], message=reason)
    return decide(
        outcome,
        attempts=row[_ATTEMPTS],
        allowance=rules[2],
        policy=policy,
        cancel_reason=row[_CANCEL],
        now=from_micros(step.now),
        random=step.random,
    )


def apply_decision(
    step: Step,
    job_id: str,
    row: Held,
    rules: tuple[Any, ...],
    decision: Decision,
    error: JobError | None,
    *,
    checkpoint: bool = False,
) -> Settled:
    """Write what was decided about a job that has just left `running`."""
    lane = rules[0]
    seq, version = row[_SEQ], row[_VERSION]
    n = row[_EVENTS] + 1
    step.execute(
        INSERT_ATTEMPT,
        (
            seq,
            version,
            row[_ATTEMPTS],
            row[_WORKER],
            row[_ACQUIRED],
            step.now,
            EVENT_CODE[decision.event],
            STATUS_CODE[decision.status],
            decision.attempts,
            row[_LEASED],
            n,
            decision.message or None,
            None if error is None else error.type,
            None if error is None else error.message,
            None if error is None else error.traceback,
            None,
            row[_EXPIRES] if checkpoint else None,
            row[_HEARTBEAT] if checkpoint else None,
        ),
    )
    _trim_attempts(step, seq)
    if decision.status is Status.PENDING:
        enter_again(step, seq, rules, version=version, attempts=decision.attempts, events=n)
        step.hints.ready = True
    elif decision.run_at is not None:
        due = to_micros(decision.run_at)
        step.execute(
            INSERT_WAITING,
            (
                seq,
                STATUS_CODE[decision.status],
                due,
                step.now,
                version,
                decision.attempts,
                n,
                reason_after(decision),
            ),
        )
        step.hints.ready = True
    else:
        step.execute(
            INSERT_FINISHED,
            (
                seq,
                STATUS_CODE[decision.status],
                step.now,
                row[_ACQUIRED],
                row[_AVAILABLE],
                version,
                decision.attempts,
                n,
                None,
                None,
                reason_after(decision),
            ),
        )
        step.count(lane, f"total_{decision.status.value}")
        step.job_ended(job_id)
    if decision.event is Event.FAILED:
        step.count(lane, "total_retried")
    step.move(lane, Status.RUNNING, decision.status)
    return Settled(
        job_id, version, decision.event, decision.status, decision.attempts, decision.run_at
    )


def enter_again(
    step: Step, seq: int, rules: tuple[Any, ...], *, version: int, attempts: int, events: int
) -> None:
    """Make a job pending that was running or had ended; `rules` is what JOB_RULES tells of it."""
    lane, priority, _, _, parent_id, created_at, deadline, base = rules
    entry = Entry(
        seq=seq,
        lane=lane,
        priority=priority,
        base=base,
        version=version,
        attempts=attempts,
        events=events,
        available_at=step.now,
        created_at=created_at,
        deadline=deadline,
        parent_id=parent_id,
    )
    ready.enter(step, [entry])


def _trim_attempts(step: Step, seq: int) -> None:
    surplus = step.execute(SURPLUS_ATTEMPT, (seq, ATTEMPT_RECORDS_MAX)).fetchone()
    if surplus is not None:
        step.execute(KEEP_ITS_EVENTS, (seq, surplus[0]))
        step.execute(DROP_ATTEMPTS, (seq, surplus[0]))


def refuse(step: Step, job_id: str, seq: int, version: int) -> LeaseLostError:
    """The answer to a stale holder; all that is written is that it was refused."""
    place = locate(step, seq) if seq else None
    if place is None:
        return lease_of_no_job(job_id, version)
    n = bump_events(step, seq, place)
    was_holder: Any = step.execute(HOLDER_THEN, (seq, version)).fetchone()
    step.record(
        seq,
        n,
        Event.VERSION_MISMATCH,
        place.status,
        place.status,
        attempts=place.attempts,
        worker=None if was_holder is None else was_holder[0],
        version=version,
        message=mismatch(version, place.version),
    )
    return _lost(step, job_id, seq, version, place.status)


def stale(step: Step, job_id: str, version: int) -> LeaseLostError:
    """The error for a lease that is over; nothing is written."""
    row: Any = step.execute(FIND_SEQ, (job_id,)).fetchone()
    place = None if row is None else locate(step, row[0])
    if place is None:
        return lease_of_no_job(job_id, version)
    return _lost(step, job_id, row[0], version, place.status)


def _lost(step: Step, job_id: str, seq: int, version: int, status: Status) -> LeaseLostError:
    holder: Any = step.execute(HOLDER_NOW, (seq,)).fetchone()
    return stale_lease(job_id, version, status, holder)
