"""Taking jobs back from holders that are lost: what a sweep does, so much in each write."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from leasehold.core.contract.clock_store import ClockRepair
from leasehold.core.model.budget import PASSED_OVER_AT_ONCE, RECOVERED_AT_ONCE, batched
from leasehold.core.model.lease import SweepReport
from leasehold.stores.sqlite.leasing import lease, recover
from leasehold.stores.sqlite.leasing.rebalance import rebalance
from leasehold.stores.sqlite.leasing.recover import Suspects
from leasehold.stores.sqlite.reading import feed
from leasehold.stores.sqlite.rules.queue_changes import finish_deleting
from leasehold.stores.sqlite.writing import clock_repair
from leasehold.stores.sqlite.writing.database import Database
from leasehold.stores.sqlite.writing.step import Step


def sweep(database: Database) -> SweepReport:
    """Take back what expired or whose holder is proved dead, and go on with what was cut short."""
    monotonic = database.env.clock.monotonic
    started = monotonic()
    database.put_right()
    dead = database.deaths.find()
    with database.read() as db:
        lost = recover.find(db, database.now(db), dead)
    report = SweepReport()
    for jobs in batched(lost.jobs, RECOVERED_AT_ONCE):
        report = report.plus(database.write(partial(_recover_some, database, dead, jobs)))
    report = report.plus(_tidy_up(database, lost))
    database.deaths.bury(set(report.workers_proved_dead))
    return msgspec.structs.replace(report, scan_ms=(monotonic() - started) * 1000)


def _recover_some(
    database: Database, dead: set[str], jobs: Sequence[int], step: Step
) -> SweepReport:
    # Deaths are looked for inside the write, and count only if they were known before.
    return recover.recover(step, jobs, dead & database.deaths.find())


def _tidy_up(database: Database, lost: Suspects) -> SweepReport:
    def operation(step: Step) -> SweepReport:
        rebalance(step)
        feed.end_if_unfollowed(step)
        return recover.forget_workers(step, lost.dead & database.deaths.find(), lost.silent)

    report = database.write(operation)
    for jobs in batched(lost.late, PASSED_OVER_AT_ONCE):
        database.write(partial(recover.cancel_late, jobs=jobs))
    finish_deleting(database)
    return report


def promote(database: Database) -> int:
    """Let everything that is due become pending, so many in each write."""
    promoted = 0
    while found := database.write(lease.promote):
        promoted += found
    return promoted


def repair_clock(database: Database, actor: str) -> ClockRepair:
    """Set the store's clock back to the wall clock, once nobody works."""
    sweep(database)
    return database.write(
        lambda step: clock_repair.repair(step, database.env.clock.reading(), actor)
    )
