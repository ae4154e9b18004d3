"""Clean-ups and their records: who may begin one, what it remembers, how it ends.

Guard of the begin: the latest record says that it is due, looked at again inside the write, so that
of many workers one begins. Guard of every later write: the record is still open.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import apsw

from leasehold.core.retention import (
    CLEANUP_RECORDS_MAX,
    COUNTED,
    CleanUp,
    CleanUpMode,
    PruneReport,
    RetentionPolicy,
    Scope,
    due_at,
)
from leasehold.env import from_micros, to_micros
from leasehold.stores.sqlite.leasing.people import audit
from leasehold.stores.sqlite.writing.step import Step

_COLUMNS: Final = (
    "run, mode, actor, started_at, active_at, ended_at, completed, cancelled, dead, archived, "
    "results_dropped, histories_dropped, archive_dropped, writes, lock_micros"
)
LATEST: Final = f"SELECT {_COLUMNS} FROM cleanup ORDER BY run DESC LIMIT ?"  # noqa: S608  # our own names
MEMORY: Final = """
    SELECT run, phase, position, bound, major FROM cleanup WHERE run = ? AND ended_at IS NULL
"""
BEGIN: Final = """
    INSERT INTO cleanup (mode, actor, started_at, active_at, phase, position)
    VALUES (?, ?, ?3, ?3, 0, 0) RETURNING run
"""
# Column names on the left, the report's own counts on the right.
GO_ON: Final = (
    "UPDATE cleanup SET active_at = ?, phase = ?, position = ?, bound = ?, major = ?, "  # noqa: S608
    "writes = writes + 1, "
    + ", ".join(f"{name} = {name} + ?" for name in ("lock_micros", *COUNTED))
    + " WHERE run = ? AND ended_at IS NULL"
)
END: Final = "UPDATE cleanup SET ended_at = ?1, active_at = ?1 WHERE run = ?2"
PRUNED: Final = "SELECT completed + cancelled + dead FROM cleanup WHERE run = ?"
FORGET: Final = "DELETE FROM cleanup WHERE run <= ?"
# Audit records are numbered in the order of their time; a thousand a day are enough.
DROP_AUDIT: Final = """
    DELETE FROM audit WHERE n IN (SELECT n FROM (SELECT n, at FROM audit ORDER BY n LIMIT 1000)
                                  WHERE at <= ?)
"""


class Memory(NamedTuple):
    """What a clean-up remembers from one write to the next."""

    run: int
    phase: int
    position: int
    """The job number up to which this phase has looked."""
    bound: int | None
    """The job number at which this phase ends, once that is known."""
    major: int = 0
    """In which lane, or at which moment of an end, where it does not go by numbers alone."""


def latest(db: apsw.Connection, limit: int) -> list[CleanUp]:
    """The latest records, newest first."""
    return [_record(row) for row in db.execute(LATEST, (limit,))]


def recall(db: apsw.Connection, run: int) -> Memory | None:
    """What an open clean-up remembers; None if it is over."""
    row = db.execute(MEMORY, (run,)).fetchone()
    return None if row is None else Memory(*row)


def may_begin(
    db: apsw.Connection, policy: RetentionPolicy, scope: Scope, now: datetime
) -> tuple[bool, datetime | None]:
    """Whether one may begin now, and when else."""
    last = next(iter(latest(db, 1)), None)
    due = due_at(policy, last, now)
    return scope.force or scope.emergency or (due is not None and due <= now), due


def one_interval_from(policy: RetentionPolicy, now: datetime) -> datetime | None:
    """When to look again, if there was nothing worth doing."""
    interval = policy.interval_seconds
    return None if interval is None else now + timedelta(seconds=interval)


def begin(step: Step, policy: RetentionPolicy, scope: Scope, actor: str) -> PruneReport:
    """Open a record, unless another process was faster."""
    may, due = may_begin(step.db, policy, scope, from_micros(step.now))
    if not may:
        return PruneReport(next_due_at=due)
    row: Any = step.execute(BEGIN, (scope.mode, actor, step.now)).fetchone()
    step.execute(FORGET, (row[0] - CLEANUP_RECORDS_MAX,))
    return PruneReport(run=row[0], more=True)


def go_on(step: Step, memory: Memory, report: PruneReport) -> None:
    """Write down what was done, and where to go on."""
    counts = (getattr(report, name) for name in COUNTED)
    place = (step.now, memory.phase, memory.position, memory.bound, memory.major)
    step.execute(GO_ON, (*place, round(report.lock_seconds * 1e6), *counts, memory.run))


def end(step: Step, run: int, policy: RetentionPolicy, scope: Scope, actor: str) -> PruneReport:
    """Close the record; what a person asked for is audited as well."""
    step.execute(END, (step.now, run))
    if policy.audit_seconds is not None:
        kept_from = from_micros(step.now) - timedelta(seconds=policy.audit_seconds)
        step.execute(DROP_AUDIT, (to_micros(kept_from),))
    if scope.mode is not CleanUpMode.DAILY:
        row: Any = step.execute(PRUNED, (run,)).fetchone()
        audit(step, actor, "prune", row[0], {"mode": scope.mode, "dead": scope.dead})
    [last] = latest(step.db, 1)
    return PruneReport(run=run, next_due_at=due_at(policy, last, from_micros(step.now)))


def _record(row: tuple[Any, ...]) -> CleanUp:
    run, mode, actor, started_at, active_at, ended_at, *counts, writes, lock_micros = row
    return CleanUp(
        run=run,
        mode=CleanUpMode(mode),
        actor=actor,
        started_at=from_micros(started_at),
        active_at=from_micros(active_at),
        ended_at=None if ended_at is None else from_micros(ended_at),
        writes=writes,
        lock_seconds=lock_micros / 1e6,
        **dict(zip(COUNTED, counts, strict=True)),
    )
