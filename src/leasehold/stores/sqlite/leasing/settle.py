"""Settle: the end of an attempt, reported by the lease's holder and fenced by the lease version.

Guard of every statement here: the job's row is in `running` with exactly this version.

The exchange: settle what ended and lease what fits, in one write; see `tables.exchanging`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from leasehold.core.model.lease import Exchange, LeaseRequest, Settled, Settlement
from leasehold.core.model.outcome import Complete, within_limits
from leasehold.core.rules import exchanging, key_accounts
from leasehold.core.rules.ends import EndedLease
from leasehold.errors import LeaseLostError
from leasehold.stores.sqlite.leasing import lease as leasing
from leasehold.stores.sqlite.leasing.ends import END_LEASE, Ends, settle_stale
from leasehold.stores.sqlite.leasing.order import KeyShelf
from leasehold.stores.sqlite.reading.read import read_job
from leasehold.stores.sqlite.rules.schedules import ScheduleShelf
from leasehold.stores.sqlite.submitting.dependencies import Links
from leasehold.stores.sqlite.writing.database import Database, KnownLease
from leasehold.stores.sqlite.writing.step import Step
from leasehold.stores.tables import replies
from leasehold.stores.tables.exchanging import (
    TableExchange,
    are_of_different_jobs,
    settle_unfinished,
)
from leasehold.stores.tables.leasing import Granted, Leased

FIND_SEQ: Final = "SELECT seq FROM job WHERE id = ?"
JOB_LANE: Final = "SELECT lane FROM job WHERE seq = ?"
JOB_TERMS: Final = "SELECT lane, allowance, retry FROM job WHERE seq = ?"


def settle(
    step: Step,
    settlements: Sequence[Settlement],
    known_leases: Mapping[str, KnownLease],
) -> list[Settled | LeaseLostError]:
    """Settle jobs that are still held; for the others, return why their lease is over.

    `known_leases` has the leases granted by this process, by job, to avoid looking them up.
    """
    if not are_of_different_jobs(settlements):
        # Settlements of the same job are judged in order.
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
    # A remembered job number may belong to a discarded job, which is then not in `running`.
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
            lane, allowance, retry = _row(step, JOB_TERMS, seq)
            answers.append(
                settle_unfinished(step, ends, job_id, held, lane, allowance, retry, outcome)
            )
    ends.write()
    return answers


def _row(step: Step, statement: str, number: int) -> Any:
    return step.execute(statement, (number,)).fetchone()


KNOWN_LEASES_MAX: Final = 100_000


def exchange(
    database: Database, settlements: Sequence[Settlement], request: LeaseRequest | None
) -> Exchange:
    """Settle and lease; the leases are remembered once they are committed."""
    # A lease does not pay for a long fan-out: the next exchange continues it.
    answer, granted = database.write(
        lambda step: _exchange(database, settlements, request, step), go_on=request is None
    )
    _remember(database, settlements, granted)
    return answer


def exchange_once(
    database: Database,
    request_id: str,
    settlements: Sequence[Settlement],
    request: LeaseRequest | None,
) -> Exchange:
    """Exchange, or return the earlier answer if this request id was carried out before."""
    carry_out = partial(_exchange, database, settlements, request)
    answer, granted = replies.exchange_once(
        database, request_id, settlements, request, carry_out, read_job
    )
    if granted is not None:
        _remember(database, settlements, granted)
    return answer


def _remember(
    database: Database, settlements: Sequence[Settlement], granted: Sequence[Granted]
) -> None:
    # Only after the commit: the numbers of a write that is rolled back are used again.
    known = database.known_leases
    for settlement in settlements:
        known.pop(settlement.job_id, None)
    if len(known) > KNOWN_LEASES_MAX:
        known.clear()
    for job, lease in granted:
        known[lease.job_id] = (lease.version, job.seq, job.lane)


def _exchange(
    database: Database,
    settlements: Sequence[Settlement],
    request: LeaseRequest | None,
    step: Step,
) -> tuple[Exchange, list[Granted]]:
    settled = settle(step, settlements, database.known_leases) if settlements else []
    book = ExchangeWrite(database, step)
    return exchanging.answer(book, settled, request), book.granted


class ExchangeWrite(TableExchange):
    """An exchange in one write."""

    __slots__ = ()
    links = Links
    _database: Database
    _step: Step

    def fire_due(self) -> int | None:
        return ScheduleShelf(self._database, self._step).fire_due()[1]

    def _lease(self, request: LeaseRequest) -> Leased:
        life = self._database.lives.number_of(request.worker)
        return leasing.lease(self._step, request, self._database.group_rounds, life)

    def next_due(self, queues: Sequence[str]) -> int | None:
        return leasing.next_due(self._step, queues)
