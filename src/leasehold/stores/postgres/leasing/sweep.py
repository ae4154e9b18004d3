"""Taking jobs back from holders that are lost: what a sweep does, so much in each write."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from leasehold.core.model.budget import PASSED_OVER_AT_ONCE, RECOVERED_AT_ONCE, batched
from leasehold.core.model.lease import SweepReport
from leasehold.core.model.lives import Life
from leasehold.stores.postgres.leasing import lease, recover
from leasehold.stores.postgres.leasing.rebalance import rebalance
from leasehold.stores.postgres.reading.feed import FEED
from leasehold.stores.postgres.rules.queues import QueueBook
from leasehold.stores.postgres.writing.database import Database
from leasehold.stores.postgres.writing.step import Step
from leasehold.stores.tables.held import Suspects
from leasehold.stores.tables.queue_changes import QueueChanges


def sweep(database: Database) -> SweepReport:
    """Take back what expired or whose holder is proved dead, and go on with what was cut short."""
    monotonic = database.env.clock.monotonic
    started = monotonic()
    database.write(_tidy_up)
    with database.read() as db:
        dead = database.deaths.find(db)
        lost = recover.find(db, database.now(db), dead)
    report = SweepReport()
    for jobs in batched(lost.jobs, RECOVERED_AT_ONCE):
        report = report.plus(database.write(partial(_recover_some, database, dead, jobs)))
    for late in batched(lost.late, PASSED_OVER_AT_ONCE):
        database.write(partial(recover.cancel_late, jobs=late))
    if lost.dead or lost.silent:
        report = report.plus(database.write(partial(_forget_workers, database, lost)))
    QueueChanges(database, QueueBook).finish_deleting()
    return msgspec.structs.replace(report, scan_ms=(monotonic() - started) * 1000)


def _recover_some(
    database: Database, dead: set[Life], jobs: Sequence[int], step: Step
) -> SweepReport:
    # Deaths are looked for inside the write, and count only if they were known before.
    return recover.recover(step, jobs, dead & database.deaths.find(step.db))


def _tidy_up(step: Step) -> None:
    rebalance(step)
    FEED.end_if_unfollowed(step)


def _forget_workers(database: Database, lost: Suspects, step: Step) -> SweepReport:
    dead = lost.dead & database.deaths.find(step.db)
    return recover.forget_workers(step, dead, lost.silent)


def promote(database: Database) -> int:
    """Let everything that is due become pending, so many in each write."""
    promoted = 0
    while found := database.write(lease.promote):
        promoted += found
    return promoted
