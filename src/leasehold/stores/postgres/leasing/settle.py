"""Settle and exchange: a holder's last word on its lease, fenced by the lease version; an exchange
leases what fits in the same write.

Guard of a settlement: the job's row is in `running` with exactly this version.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

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
from leasehold.stores.postgres.leasing import lease as leasing
from leasehold.stores.postgres.leasing.completing import Completions
from leasehold.stores.postgres.leasing.ends import HELD, HELD_BY_NAME, Ends, settle_stale
from leasehold.stores.postgres.leasing.parking import KeyShelf
from leasehold.stores.postgres.reading.read import read_job
from leasehold.stores.postgres.rules.schedules import shelf
from leasehold.stores.postgres.server.arrays import RowPlaces
from leasehold.stores.postgres.server.connection import about, unnested
from leasehold.stores.postgres.submitting import dependencies
from leasehold.stores.postgres.writing import remembered
from leasehold.stores.postgres.writing.database import Database
from leasehold.stores.postgres.writing.step import Statement, Step
from leasehold.stores.tables import breakers
from leasehold.stores.tables.registry import note_consumer

# The lock is the fence: what this does not return was not the caller's any more. With each lease
# comes what decides about a job whose attempt did not complete it, and where its row is. Rows are
# locked in the order of the jobs' numbers. A job is found by a range of one id, and its lease
# likewise: of a table that was vacuumed while it was empty the planner believes that any index is
# as good, or all of one as good as a place in it, and would read all of it for each job.
SETTLE: Final = f"""
    WITH settled AS MATERIALIZED (
        SELECT job.*, given.version AS under
        FROM {unnested("text bigint")} AS given (id, version), LATERAL (
            SELECT id, seq, lane, allowance, retry FROM job
            WHERE id >= given.id AND id <= given.id ORDER BY id LIMIT 1) AS job
        ORDER BY job.seq
    ), held AS (
        SELECT settled.id, settled.lane, allowance, retry, running.row, {HELD}
        FROM settled, LATERAL (
            SELECT ctid AS row, * FROM running
            WHERE seq >= settled.seq AND seq <= settled.seq AND version = settled.under
            ORDER BY seq LIMIT 1 FOR UPDATE) AS running)
    SELECT held.id, held.lane, allowance, retry, queue, failures_in_row, row, {HELD_BY_NAME}
    FROM held JOIN lane ON lane.id = held.lane
"""  # noqa: S608  # our own names
# Rows that were read in this write, and locked: they were not changed since. (A statement that
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
    """The statement that finds these leases."""
    return about(SETTLE, [(each.job_id, each.version) for each in settlements])


def are_of_different_jobs(settlements: Sequence[Settlement]) -> bool:
    """Whether all of them can be judged at once."""
    return len({settlement.job_id for settlement in settlements}) == len(settlements)


def settle(step: Step, settlements: Sequence[Settlement]) -> list[Settled | LeaseLostError]:
    """Settle jobs that are still held; answer the rest with their fate."""
    if not are_of_different_jobs(settlements):
        # One job twice, under an old lease and a new one: each is judged after the one before.
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


def exchange(
    database: Database, settlements: Sequence[Settlement], request: LeaseRequest | None
) -> Exchange:
    """Settle and lease."""
    # A lease does not pay for a long fan-out: the next exchange continues it.
    queues = () if request is None else request.queues
    is_light = database.remembered.rules.are_light(queues)
    completions = Completions.among(settlements, database.grants) if is_light else None
    sent = []
    if settlements:
        sent.append(ahead(settlements) if completions is None else completions.ahead)
    if request is not None and request.limit > 0:
        sent += leasing.ahead(request, _probable_lane(database, request) if is_light else None)
    return database.write(
        lambda step: _exchange(database, step, settlements, completions, request),
        go_on=request is None,
        side_by_side=partial(_side_by_side, queues) if is_light else None,
        ahead=sent if completions or are_of_different_jobs(settlements) else (),
    )


def _side_by_side(queues: Iterable[str], step: Step) -> bool:
    """Whether nothing that an exchange does concerns other jobs than its own."""
    found = step.found
    due = (found.next_crossing, found.next_tick)
    return not (
        found.somebody_waits
        or found.some_unresolved
        or found.some_inheriting
        or found.some_rescoring
        or any(moment is not None and moment <= step.now for moment in due)
        or not step.rules.are_light(queues)
    )


def _probable_lane(database: Database, request: LeaseRequest) -> int | None:
    """The lane in which the jobs of a request probably are: where they were the last time."""
    if request.parent_id is not None or request.tasks is not None or request.except_lanes:
        return None
    return database.remembered.lanes_with_work.get(request.queues)


def exchange_once(
    database: Database,
    request_id: str,
    settlements: Sequence[Settlement],
    request: LeaseRequest | None,
) -> Exchange:
    """The same, or the answer to it when it was carried out before under this id."""
    check_request_id(request_id)
    digest = digest_of_exchange(settlements, request)

    def operation(step: Step) -> Exchange:
        before = remembered.find_reply(step.db, request_id, step.now)
        if before is not None:
            return exchange_again(before, digest, partial(read_job, step.db))
        answer = _exchange(database, step, settlements, None, request)
        remembered.keep_reply(step, request_id, keep_exchange(answer, digest))
        return answer

    return database.write(operation, go_on=request is None)


def _exchange(
    database: Database,
    step: Step,
    settlements: Sequence[Settlement],
    completions: Completions | None,
    request: LeaseRequest | None,
) -> Exchange:
    settled: Sequence[Settled | LeaseLostError] | None = None
    if completions is not None:
        settled = completions.settle(step)
    if settled is None:
        settled = settle(step, settlements) if settlements else []
    generation, at = step.settings.generation, from_micros(step.now)
    if request is not None and request.consumer is not None:
        note_consumer(step, request)
    if request is None or request.limit <= 0:
        return Exchange([*settled], [], settings_generation=generation, at=at)
    # First, since settlements and due jobs may make others available.
    dependencies.resolve(step)
    tick = step.found.next_tick
    if tick is not None and tick <= step.now:
        _, tick = shelf(database, step).fire_due()
    granted, cut_short, lane = leasing.lease(
        step, request, database.group_rounds, database.lives.number_of(request.worker)
    )
    if granted:
        database.remembered.lanes_with_work[request.queues] = lane
    leases = [lease for _, lease in granted]
    tick_at = None if tick is None else from_micros(tick)
    if len(leases) >= request.limit:
        return Exchange([*settled], leases, None, tick_at, generation, at)
    # Dependents of a job that came too late may be available when this write is over.
    go_on = cut_short or dependencies.some_to_tell(step)
    due = step.now if go_on else leasing.next_due(step, request.queues)
    if due is None or (tick is not None and tick < due):
        return Exchange([*settled], leases, tick_at, tick_at, generation, at)
    return Exchange([*settled], leases, from_micros(due), tick_at, generation, at)
