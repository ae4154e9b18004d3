"""Settle: a holder's last word on its lease, fenced by the lease version.

Guard of every statement here: the job's row is in `running` with exactly this version.

The exchange: settle what ended and lease what fits, in one write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from leasehold.core.model.lease import Exchange, LeaseRequest, Settled, Settlement
from leasehold.core.model.outcome import Complete, Fail, Outcome, within_limits
from leasehold.core.model.stored import (
    UNREADABLE,
    problem_of,
    retry_of,
)
from leasehold.core.model.unreadable import set_aside_reason
from leasehold.core.rules import key_accounts
from leasehold.core.rules.decision import Decision, decide, failed_for_good
from leasehold.core.rules.ends import EndedLease
from leasehold.core.rules.replies import (
    check_request_id,
    digest_of_exchange,
    exchange_again,
    keep_exchange,
)
from leasehold.env import from_micros
from leasehold.errors import LeaseLostError
from leasehold.stores.sqlite.leasing import lease as leasing
from leasehold.stores.sqlite.leasing.ends import END_LEASE, Ends, settle_stale
from leasehold.stores.sqlite.leasing.parking import KeyShelf
from leasehold.stores.sqlite.reading.read import read_job
from leasehold.stores.sqlite.rules.schedules import shelf
from leasehold.stores.sqlite.submitting import dependencies
from leasehold.stores.sqlite.writing import remembered
from leasehold.stores.sqlite.writing.database import Database, KnownLease
from leasehold.stores.sqlite.writing.step import Step
from leasehold.stores.tables import breakers
from leasehold.stores.tables.registry import note_consumer

FIND_SEQ: Final = "SELECT seq FROM job WHERE id = ?"
JOB_LANE: Final = "SELECT lane FROM job WHERE seq = ?"
JOB_TERMS: Final = "SELECT lane, allowance, retry FROM job WHERE seq = ?"


class Terms(NamedTuple):
    """What decides about a job whose attempt did not complete it."""

    lane: int
    allowance: int
    retry: str | None


def settle(
    step: Step,
    settlements: Sequence[Settlement],
    known_leases: Mapping[str, KnownLease],
) -> list[Settled | LeaseLostError]:
    """Settle jobs that are still held; answer the rest with their fate.

    `known_leases` has the leases granted here, by job, which spares looking them up.
    """
    if len({settlement.job_id for settlement in settlements}) < len(settlements):
        # One job twice, under an old lease and a new one: each is judged after the one before.
        return [answer for each in settlements for answer in settle(step, [each], known_leases)]
    keys: list[tuple[int, int]] = []
    lanes: dict[int, int] = {}
    for settlement in settlements:
        version = settlement.version
        known = known_leases.get(settlement.job_id)
        if known is None or known[0] != version:
            row = step.execute(FIND_SEQ, (settlement.job_id,)).fetchone()
            keys.append((row[0] if row else 0, version))
        else:
            _, seq, lane = known
            keys.append((seq, version))
            lanes[seq] = lane
    # The known number of a lease may be that of a discarded job: then it is not in `running`.
    leases: dict[int, Any] = {row[0]: row for row in step.executemany(END_LEASE, keys)}
    if step.rules.key_limits:
        key_accounts.freed(KeyShelf(step), list(leases))
    ends = Ends(step)
    complete = ends.complete
    answers: list[Settled | LeaseLostError] = []
    for settlement, (seq, _) in zip(settlements, keys, strict=True):
        job_id, row = settlement.job_id, leases.get(seq)
        if row is None:
            answers.append(settle_stale(step, settlement))
            continue
        outcome = within_limits(settlement.outcome, job_id)
        if isinstance(outcome, Complete):
            lane = lanes.get(seq) or _row(step, JOB_LANE, seq)[0]
            step.succeeded.add(lane)
            answers.append(complete(job_id, row, lane, outcome))
        else:
            held = EndedLease._make(row)
            terms = Terms(*_row(step, JOB_TERMS, seq))
            decision = _decide(step, held, terms, outcome)
            answers.append(ends.add(job_id, held, terms.lane, decision))
            if isinstance(outcome, Fail) and outcome.breaker is not None:
                breakers.failed(step, terms.lane, outcome.breaker)
    ends.write()
    return answers


def _decide(step: Step, held: EndedLease, terms: Terms, outcome: Outcome) -> Decision:
    policy = None
    if isinstance(outcome, Fail) and terms.retry is not None:
        try:
            policy = retry_of(terms.retry)
        except UNREADABLE as error:
            # The time of its next try cannot be read: it is set aside, with the attempt's outcome.
            reason = set_aside_reason(problem_of(error))
            return failed_for_good(held.attempts, reason, outcome.error)
    return decide(
        outcome,
        attempts=held.attempts,
        allowance=terms.allowance,
        policy=policy,
        cancel_reason=held.cancel_reason,
        now=from_micros(step.now),
        random=step.random,
    )


def _row(step: Step, statement: str, number: int) -> Any:
    return step.execute(statement, (number,)).fetchone()


KNOWN_LEASES_MAX: Final = 100_000


def exchange(
    database: Database, settlements: Sequence[Settlement], request: LeaseRequest | None
) -> Exchange:
    """Settle and lease; facts about the leases are remembered once they are committed."""
    # A lease does not pay for a long fan-out: the next exchange continues it.
    answer, numbers = database.write(
        lambda step: _exchange(database, step, settlements, request), go_on=request is None
    )
    _remember(database, settlements, answer, numbers)
    return answer


def exchange_once(
    database: Database,
    request_id: str,
    settlements: Sequence[Settlement],
    request: LeaseRequest | None,
) -> Exchange:
    """The same, or the answer to it when it was carried out before under this id."""
    check_request_id(request_id)
    digest = digest_of_exchange(settlements, request)

    def operation(step: Step) -> tuple[Exchange, list[tuple[int, int]] | None]:
        before = remembered.find_reply(step.db, request_id, step.now)
        if before is not None:
            return exchange_again(before, digest, partial(read_job, step.db)), None
        answer, numbers = _exchange(database, step, settlements, request)
        remembered.keep_reply(step, request_id, keep_exchange(answer, digest))
        return answer, numbers

    answer, numbers = database.write(operation, go_on=request is None)
    if numbers is not None:
        _remember(database, settlements, answer, numbers)
    return answer


def _remember(
    database: Database,
    settlements: Sequence[Settlement],
    answer: Exchange,
    numbers: list[tuple[int, int]],
) -> None:
    # Only now that they are committed: numbers of a write that was rolled back are used again.
    known = database.known_leases
    for settlement in settlements:
        known.pop(settlement.job_id, None)
    if len(known) > KNOWN_LEASES_MAX:
        known.clear()
    for granted, (seq, lane) in zip(answer.leases, numbers, strict=True):
        known[granted.job_id] = (granted.version, seq, lane)


def _exchange(
    database: Database,
    step: Step,
    settlements: Sequence[Settlement],
    request: LeaseRequest | None,
) -> tuple[Exchange, list[tuple[int, int]]]:
    settled = settle(step, settlements, database.known_leases) if settlements else []
    generation, at = step.settings.generation, from_micros(step.now)
    if request is not None and request.consumer is not None:
        note_consumer(step, request)
    if request is None or request.limit <= 0:
        return Exchange(settled, [], settings_generation=generation, at=at), []
    # First, since settlements and due jobs may make others available.
    dependencies.resolve(step)
    _, tick = shelf(database, step).fire_due()
    granted, cut_short, _ = leasing.lease(
        step, request, database.group_rounds, database.lives.number_of(request.worker)
    )
    leases = [lease for _, lease in granted]
    numbers = [(job.seq, job.lane) for job, _ in granted]
    tick_at = None if tick is None else from_micros(tick)
    if len(leases) >= request.limit:
        return Exchange(settled, leases, None, tick_at, generation, at), numbers
    # Dependents of a job that came too late may be available when this write is over.
    go_on = cut_short or dependencies.some_to_tell(step)
    due = step.now if go_on else leasing.next_due(step, request.queues)
    if due is None or (tick is not None and tick < due):
        return Exchange(settled, leases, tick_at, tick_at, generation, at), numbers
    return Exchange(settled, leases, from_micros(due), tick_at, generation, at), numbers
