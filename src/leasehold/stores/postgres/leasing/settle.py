"""Settle: a holder's last word on its lease, fenced by the lease version.

Guard of every statement here: the job's row is in `running` with exactly this version.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from leasehold.core.model.lease import Settled, Settlement
from leasehold.core.model.outcome import Complete, Fail, Outcome, within_limits
from leasehold.core.model.unreadable import set_aside_reason
from leasehold.core.rules.decision import Decision, completed, decide, failed_for_good
from leasehold.env import from_micros
from leasehold.errors import LeaseLostError
from leasehold.stores.postgres.leasing import breakers, parking
from leasehold.stores.postgres.leasing.ends import END_LEASES, Ends, Held
from leasehold.stores.postgres.leasing.state import settle_stale
from leasehold.stores.postgres.schema.rows import UNREADABLE, problem_of, retry_of
from leasehold.stores.postgres.writing.step import Step

# The numbers of the jobs, and what decides about those whose attempt did not complete them.
JOB_TERMS: Final = """
    SELECT job.id, seq, lane, allowance, retry, queue, failures_in_row
    FROM job JOIN lane ON lane.id = job.lane WHERE job.id = ANY($1)
"""


class Terms(NamedTuple):
    """What decides about a job whose attempt did not complete it."""

    seq: int
    lane: int
    allowance: int
    retry: str | None
    queue: str
    failures_in_row: int


def settle(step: Step, settlements: Sequence[Settlement]) -> list[Settled | LeaseLostError]:
    """Settle what is still held; answer the rest with what happened to it instead."""
    if len({settlement.job_id for settlement in settlements}) < len(settlements):
        # One job twice, under an old lease and a new one: each is judged by what the last one left.
        return [answer for each in settlements for answer in settle(step, [each])]
    rows = step.execute(JOB_TERMS, ([each.job_id for each in settlements],))
    known = {row[0]: Terms._make(row[1:]) for row in rows}
    if any(terms.queue in step.rules or terms.failures_in_row for terms in known.values()):
        # Limits and breakers are about other jobs.
        step.must_be_alone()
    # In the order of their numbers, as everybody locks them.
    keys = sorted(
        (known[each.job_id].seq, each.version) for each in settlements if each.job_id in known
    )
    ended = step.many(END_LEASES, keys)
    leases = {} if ended is None else {row[0]: Held._make(row) for row in ended}
    if step.rules.key_limits:
        parking.freed(step, list(leases))
    ends = Ends(step)
    answers: list[Settled | LeaseLostError] = []
    for settlement in settlements:
        job_id = settlement.job_id
        terms = known.get(job_id)
        held = None if terms is None else leases.get(terms.seq)
        if terms is None or held is None:
            answers.append(settle_stale(step, settlement))
            continue
        outcome = within_limits(settlement.outcome, job_id)
        if isinstance(outcome, Complete):
            step.succeeded.add(terms.lane)
            answers.append(ends.add(job_id, held, terms.lane, completed(held.attempts), outcome))
        else:
            decision = _decide(step, held, terms, outcome)
            answers.append(ends.add(job_id, held, terms.lane, decision))
            if isinstance(outcome, Fail) and outcome.breaker is not None:
                step.must_be_alone()
                breakers.failed(step, terms.lane, outcome.breaker)
    ends.write()
    return answers


def _decide(step: Step, held: Held, terms: Terms, outcome: Outcome) -> Decision:
    policy = None
    if isinstance(outcome, Fail) and terms.retry is not None:
        try:
            policy = retry_of(terms.retry)
        except UNREADABLE as error:
            # When to try it again cannot be read: it is set aside, with what the attempt came to.
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
