"""Settle: a holder's last word on its lease, fenced by the lease version.

Guard of every statement here: the job's row is in `running` with exactly this version.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from leasehold.core.model.lease import Settled, Settlement
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
from leasehold.env import from_micros
from leasehold.errors import LeaseLostError
from leasehold.stores.postgres.leasing.ends import HELD, HELD_BY_NAME, Ends
from leasehold.stores.postgres.leasing.parking import KeyShelf
from leasehold.stores.postgres.leasing.state import settle_stale
from leasehold.stores.postgres.server.arrays import RowPlaces
from leasehold.stores.postgres.server.connection import columns, unnested
from leasehold.stores.postgres.writing.step import Statement, Step
from leasehold.stores.tables import breakers

# The lock is the fence: what this does not return was not the caller's any more. With each lease
# comes what decides about a job whose attempt did not complete it, and where its row is. A job is
# found by a range of one id, in the order of ids: of a table that was vacuumed while it was empty
# the planner believes that any index is as good, and would read all of another one for each job.
SETTLE: Final = f"""
    WITH held AS (
        SELECT guarded.* FROM {unnested("text bigint")} AS settled (id, version), LATERAL (
            SELECT job.id, job.lane, allowance, retry, running.ctid AS row, {HELD}
            FROM (SELECT * FROM job WHERE id >= settled.id AND id <= settled.id
                  ORDER BY id LIMIT 1) AS job JOIN running USING (seq)
            WHERE running.version = settled.version FOR UPDATE OF running
        ) AS guarded)
    SELECT held.id, held.lane, allowance, retry, queue, failures_in_row, row, {HELD_BY_NAME}
    FROM held JOIN lane ON lane.id = held.lane
"""  # noqa: S608  # our own names
# Rows that were read in this write, and locked: nobody has changed them since. (A statement that
# finds and deletes them at once has to find them twice.)
END: Final = "DELETE FROM running WHERE ctid = ANY($1)"


class Terms(NamedTuple):
    """What decides about a job whose attempt did not complete it."""

    lane: int
    allowance: int
    retry: str | None
    queue: str
    failures_in_row: int


def ahead(settlements: Sequence[Settlement]) -> Statement:
    """The statement that finds these leases. Rows are locked in the order of the jobs' ids."""
    keys = sorted((each.job_id, each.version) for each in settlements)
    return SETTLE, columns(keys)


def are_of_different_jobs(settlements: Sequence[Settlement]) -> bool:
    """Whether all of them can be judged at once."""
    return len({settlement.job_id for settlement in settlements}) == len(settlements)


def settle(step: Step, settlements: Sequence[Settlement]) -> list[Settled | LeaseLostError]:
    """Settle what is still held; answer the rest with what happened to it instead."""
    if not are_of_different_jobs(settlements):
        # One job twice, under an old lease and a new one: each is judged by what the last one left.
        return [answer for each in settlements for answer in settle(step, [each])]
    found: dict[str, tuple[Terms, EndedLease]] = {}
    rows = RowPlaces()
    for job_id, *rest in step.first(*ahead(settlements)):
        found[job_id] = (Terms._make(rest[:5]), EndedLease._make(rest[6:]))
        rows.append(rest[5])
    if rows:
        step.execute(END, (rows,))
    if any(terms.queue in step.rules or terms.failures_in_row for terms, _ in found.values()):
        # Limits and breakers are about other jobs.
        step.must_be_alone()
    if step.rules.key_limits:
        key_accounts.freed(KeyShelf(step), [held.seq for _, held in found.values()])
    ends = Ends(step)
    answers: list[Settled | LeaseLostError] = []
    for settlement in settlements:
        job_id = settlement.job_id
        if job_id not in found:
            answers.append(settle_stale(step, settlement))
            continue
        terms, held = found[job_id]
        outcome = within_limits(settlement.outcome, job_id)
        if isinstance(outcome, Complete):
            step.succeeded.add(terms.lane)
            answers.append(ends.complete(job_id, held, terms.lane, outcome))
        else:
            decision = _decide(step, held, terms, outcome)
            answers.append(ends.add(job_id, held, terms.lane, decision))
            if isinstance(outcome, Fail) and outcome.breaker is not None:
                step.must_be_alone()
                breakers.failed(step, terms.lane, outcome.breaker)
    ends.write()
    return answers


def _decide(step: Step, held: EndedLease, terms: Terms, outcome: Outcome) -> Decision:
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
