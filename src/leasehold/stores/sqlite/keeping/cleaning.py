"""One call of prune: a look at what is old by a reader, then one bounded write."""

from __future__ import annotations

from typing import Any

import apsw
import msgspec

from leasehold.core.queue_retention import is_worth_it
from leasehold.core.retention import PruneReport, RetentionPolicy, Scope, check_limit
from leasehold.core.settings import retention_by
from leasehold.core.status import Status
from leasehold.env import from_micros
from leasehold.stores.sqlite.disk import vacuum
from leasehold.stores.sqlite.keeping import archive, cleanup
from leasehold.stores.sqlite.keeping.cleanup import Memory
from leasehold.stores.sqlite.keeping.prune import PHASES
from leasehold.stores.sqlite.keeping.prune_call import Call, Found, call_for, own_retentions
from leasehold.stores.sqlite.rules import settings
from leasehold.stores.sqlite.rules.known import load
from leasehold.stores.sqlite.submitting.lanes import STATS, stats_of
from leasehold.stores.sqlite.writing.database import Database
from leasehold.stores.sqlite.writing.step import Step


def prune(
    database: Database,
    policy: RetentionPolicy | None,
    run: int | None,
    scope: Scope,
    limit: int,
    actor: str,
) -> PruneReport:
    """Begin a clean-up, or go on with one."""
    check_limit(limit)
    if policy is None:
        with database.read() as db:
            policy = retention_by(settings.load(db).values, RetentionPolicy())
    if run is None:
        return _begin(database, policy, scope, actor)
    return _go_on(database, run, policy, scope, limit, actor)


def _begin(database: Database, policy: RetentionPolicy, scope: Scope, actor: str) -> PruneReport:
    """Open a clean-up, if it is due and worth it, or somebody wants it now."""
    with database.read() as db:
        now = from_micros(database.now(db))
        may, due = cleanup.may_begin(db, policy, scope, now)
        if not may:
            return PruneReport(next_due_at=due)
        if not (scope.force or scope.emergency or _is_worth_it(db, policy, now)):
            return PruneReport(next_due_at=cleanup.one_interval_from(policy, now))
    return database.write(lambda step: cleanup.begin(step, policy, scope, actor))


def _go_on(
    database: Database, run: int, policy: RetentionPolicy, scope: Scope, limit: int, actor: str
) -> PruneReport:
    """The next write of an open clean-up."""
    with database.read() as db:
        memory = cleanup.recall(db, run)
        if memory is None:
            return PruneReport(run=run)
        call = call_for(db, load(db), policy, scope, limit, database.now(db))
        memory, found = _next_work(db, call, memory)
    if found is None:
        report = database.write(lambda step: cleanup.end(step, run, policy, scope, actor))
    else:
        report = _take(database, call, memory, found)
    with database.read() as db:
        vacuum.checkpoint(db)
    return report


def _take(database: Database, call: Call, memory: Memory, found: Found) -> PruneReport:
    monotonic = database.env.clock.monotonic
    began = 0.0

    def operation(step: Step) -> PruneReport:
        nonlocal began
        began = monotonic()
        report = PHASES[memory.phase].take(step, call, found)
        taken = report.taken or len(found.seqs)
        report = msgspec.structs.replace(
            report, run=memory.run, more=True, taken=taken, lock_seconds=monotonic() - began
        )
        cleanup.go_on(step, _after(memory, found), report)
        return report

    report = database.write(operation)
    # Until it was durable: the commit is part of what others wait for.
    return msgspec.structs.replace(report, lock_seconds=monotonic() - began)


def _next_work(db: apsw.Connection, call: Call, memory: Memory) -> tuple[Memory, Found | None]:
    """The first phase with something to do, from where the clean-up stands; None at its end."""
    while memory.phase < len(PHASES):
        found = PHASES[memory.phase].find(db, call, memory)
        if not found.nothing:
            return memory, found
        memory = _after(memory, found)
    return memory, None


def _after(memory: Memory, found: Found) -> Memory:
    if found.over:
        return Memory(memory.run, memory.phase + 1, 0, None)
    return memory._replace(position=found.position, bound=found.bound, major=found.major)


def _is_worth_it(db: apsw.Connection, policy: RetentionPolicy, now: Any) -> bool:
    ended = _counts(db, None)
    apart = []
    for queue, retention in own_retentions(load(db)).items():
        counts = _counts(db, queue)
        apart.append((retention.over(policy), counts))
        ended = {status: ended[status] - counts[status] for status in ended}
    if is_worth_it(policy, ended, apart):
        return True
    first, oldest = policy.oldest_day(now), db.execute(archive.OLDEST).fetchone()
    return first is not None and oldest is not None and oldest[0] < first


def _counts(db: apsw.Connection, queue: str | None) -> dict[Status, int]:
    row: Any = db.execute(STATS, (queue,)).fetchone()
    return stats_of(row).counts
