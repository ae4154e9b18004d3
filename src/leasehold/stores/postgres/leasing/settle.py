"""Settle and exchange: ends of attempts reported by holders, fenced by the lease version; an
exchange leases what fits in the same write.

Guard of a settlement: the job's row is in `running` with exactly this version.

See `tables.exchanging`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

from leasehold.core.model.lease import Exchange, Lease, LeaseRequest, Settled, Settlement
from leasehold.core.model.outcome import Complete, within_limits
from leasehold.core.rules import exchanging, key_accounts
from leasehold.core.rules.ends import EndedLease
from leasehold.errors import LeaseLostError, StoreUnavailableError
from leasehold.stores.postgres.leasing import lease as leasing
from leasehold.stores.postgres.leasing.completing import Completions
from leasehold.stores.postgres.leasing.ends import HELD, HELD_BY_NAME, Ends, settle_stale
from leasehold.stores.postgres.leasing.order import KeyShelf
from leasehold.stores.postgres.reading.read import read_job
from leasehold.stores.postgres.rules.schedules import ScheduleShelf
from leasehold.stores.postgres.server.arrays import RowPlaces
from leasehold.stores.postgres.server.connection import about, unnested
from leasehold.stores.postgres.submitting.dependencies import Links
from leasehold.stores.postgres.writing.database import Database
from leasehold.stores.postgres.writing.step import Statement, Step
from leasehold.stores.tables import replies
from leasehold.stores.tables.exchanging import (
    TableExchange,
    are_of_different_jobs,
    settle_unfinished,
)
from leasehold.stores.tables.leasing import Granted, Leased

# The lock is the fence: leases that this does not return no longer belonged to the caller. Each
# lease comes with the terms that decide about a job whose attempt did not complete it, and with the
# place of its row. Rows are locked in the order of the jobs' numbers. A job is found by a range of
# one id, and its lease likewise: for a table that was vacuumed while it was empty, the planner
# believes that any index is as good as any other, or a whole index as good as a place in it, and
# would read all of it for each job.
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
"""
# The rows were read and locked in this write, so they have not changed since. (A statement that
# finds and deletes them at once has to find them twice.)
END: Final = "DELETE FROM running WHERE ctid = ANY($1)"


class Terms(NamedTuple):
    """The terms that decide about a job whose attempt did not complete it."""

    lane: int
    allowance: int
    retry: str | None
    queue: str
    failures_in_row: int


def ahead(settlements: Sequence[Settlement]) -> Statement:
    """The statement that finds these leases."""
    return about(SETTLE, [(each.job_id, each.version) for each in settlements])


def settle(step: Step, settlements: Sequence[Settlement]) -> list[Settled | LeaseLostError]:
    """Settle jobs that are still held; for the others, return why their lease is over."""
    if not are_of_different_jobs(settlements):
        # Settlements of the same job are judged in order.
        return [answer for each in settlements for answer in settle(step, [each])]
    found: dict[str, tuple[Terms, EndedLease]] = {}
    rows = RowPlaces()
    for job_id, *rest in step.first(*ahead(settlements)):
        found[job_id] = (Terms._make(rest[:5]), EndedLease._make(rest[6:]))
        rows.append(rest[5])
    if rows:
        step.execute(END, (rows,))
    queues = {terms.queue for terms, _ in found.values()}
    if not step.rules.are_light(queues) or any(each.failures_in_row for each, _ in found.values()):
        # Limits and breakers concern other jobs.
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
            lane, allowance, retry, *_ = terms
            answers.append(
                settle_unfinished(step, ends, job_id, held, lane, allowance, retry, outcome)
            )
    ends.write()
    return answers


def exchange(
    database: Database, settlements: Sequence[Settlement], request: LeaseRequest | None
) -> Exchange:
    """Settle and lease."""
    database.unanswered.hand_back(
        lambda lost: database.write(lambda step: settle(step, lost), go_on=False)
    )
    granted: list[Lease] = []

    def carry_out(step: Step) -> Exchange:
        answer = _exchange(database, settlements, completions, request, step)[0]
        granted[:] = answer.leases
        return answer

    # A lease does not pay for a long fan-out: the next exchange continues it.
    queues = () if request is None else request.queues
    is_light = database.remembered.rules.are_light(queues)
    completions = Completions.among(settlements, database.grants) if is_light else None
    sent = []
    if settlements:
        sent.append(ahead(settlements) if completions is None else completions.ahead)
    asks_index = database.accelerator is not None and database.remembered.has_indexed(queues)
    if request is not None and request.limit > 0 and not asks_index:
        sent += leasing.ahead(request, _probable_lane(database, request) if is_light else None)
    try:
        return database.write(
            carry_out,
            go_on=request is None,
            side_by_side=partial(_side_by_side, queues) if is_light else None,
            ahead=sent if completions or are_of_different_jobs(settlements) else (),
        )
    except StoreUnavailableError:
        database.unanswered.note(granted)
        raise


def _side_by_side(queues: Iterable[str], step: Step) -> bool:
    """Whether an exchange concerns no jobs other than its own."""
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
    """The lane that probably has the jobs of a request: the one that had them last time."""
    if request.parent_id is not None or request.tasks is not None or request.except_lanes:
        return None
    return database.remembered.lanes_with_work.get(request.queues)


def exchange_once(
    database: Database,
    request_id: str,
    settlements: Sequence[Settlement],
    request: LeaseRequest | None,
) -> Exchange:
    """Exchange, or return the earlier answer if this request id was carried out before."""
    carry_out = partial(_exchange, database, settlements, None, request)
    return replies.exchange_once(database, request_id, settlements, request, carry_out, read_job)[0]


def _exchange(
    database: Database,
    settlements: Sequence[Settlement],
    completions: Completions | None,
    request: LeaseRequest | None,
    step: Step,
) -> tuple[Exchange, list[Granted]]:
    settled: Sequence[Settled | LeaseLostError] | None = None
    if completions is not None:
        settled = completions.settle(step)
    if settled is None:
        settled = settle(step, settlements) if settlements else []
    book = ExchangeWrite(database, step)
    return exchanging.answer(book, [*settled], request), book.granted


class ExchangeWrite(TableExchange):
    """An exchange in one write."""

    __slots__ = ()
    links = Links
    _database: Database
    _step: Step

    def fire_due(self) -> int | None:
        tick = self._step.found.next_tick
        if tick is not None and tick <= self._step.now:
            _, tick = ScheduleShelf(self._database, self._step).fire_due()
        return tick

    def _lease(self, request: LeaseRequest) -> Leased:
        database = self._database
        life = database.lives.number_of(request.worker)
        leased = leasing.lease(self._step, request, database.group_rounds, life)
        if leased.granted:
            database.remembered.lanes_with_work[request.queues] = leased.only_lane
        return leased

    def next_due(self, queues: Sequence[str]) -> int | None:
        return leasing.next_due(self._step, queues)
