"""Looking for rows that cannot be read, and setting their jobs aside.

A lease notices most of them by itself (`lease.py`). Some damage does not say which row it is in:
text that is no UTF-8, for instance, cannot even be fetched, and the write fails. Then a reader,
which holds up nobody, looks for the damaged rows, the jobs are set aside, and the write is tried
again.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

import apsw

from leasehold.core.budget import PASSED_OVER_AT_ONCE
from leasehold.core.outcome import Decision, JobError
from leasehold.core.status import Event, Status
from leasehold.core.unreadable import ERROR_TYPE, set_aside_reason
from leasehold.stores.sqlite.leasing import aside, parking
from leasehold.stores.sqlite.leasing.aside import Reached, whole
from leasehold.stores.sqlite.leasing.settle import apply_decision
from leasehold.stores.sqlite.rules.known import unreadable_rules
from leasehold.stores.sqlite.rules.settings import unreadable_settings
from leasehold.stores.sqlite.schema.job_row import GUARDED, problems
from leasehold.stores.sqlite.schema.rows import MOMENT_MAX
from leasehold.stores.sqlite.schema.schedule_row import unreadable_schedules
from leasehold.stores.sqlite.writing.step import Step

_LIVE: Final = f"{GUARDED} WHERE finished.seq IS NULL"
_ENDED: Final = f"{GUARDED} WHERE finished.seq IS NOT NULL"
_ID: Final = "SELECT CAST(id AS BLOB) FROM job WHERE seq = ?"
OUT_OF_RUNNING: Final = f"""
    DELETE FROM running WHERE seq = ?
    RETURNING {whole("version")}, {whole("attempts")}, {whole("events")}, CAST(worker AS BLOB),
        {whole("acquired_at", MOMENT_MAX)}, {whole("leased_event")},
        {whole("available_at", MOMENT_MAX)}, {whole("expires_at", MOMENT_MAX)},
        {whole("heartbeat_at", MOMENT_MAX)}
"""  # noqa: S608  # our own names
NAMED_MAX: Final = 100
"""How many damaged rows a check names at most."""


class Damaged(NamedTuple):
    """A job that cannot be read, by its number, and why."""

    seq: int
    problem: str


def find(db: apsw.Connection, limit: int = PASSED_OVER_AT_ONCE) -> list[Damaged]:
    """Jobs that have not ended and cannot be read. It reads all that have not: not for a write."""
    return list(islice(_damaged(db, _LIVE), limit))


def set_aside(step: Step, damaged: Damaged) -> bool:
    """Make a dead letter of a job that cannot be read, wherever it stands; False if it ended."""
    out: Any = step.execute(OUT_OF_RUNNING, (damaged.seq,)).fetchone()
    if out is None:
        return aside.waiting_job(step, *damaged)
    version, attempts, events, worker, acquired_at, leased_event, available_at, *rest = out
    job = aside.identity(step, damaged.seq)
    said = Reached(version, attempts, events)
    reached = aside.reached_by(step, damaged.seq, said)
    if step.rules.key_limits:
        parking.freed(step, (damaged.seq,))
    reason = set_aside_reason(damaged.problem)
    expires_at, heartbeat_at = rest
    held = (
        damaged.seq, reached.version + (said.version < reached.version),
        worker.decode(errors="replace"), acquired_at, attempts, reached.events,
        leased_event or reached.events, available_at, None, expires_at, heartbeat_at,
    )  # fmt: skip
    decision = Decision(Event.DEAD, Status.DEAD, attempts, message=reason)
    error = JobError(ERROR_TYPE, reason)
    apply_decision(step, job.id, held, (job.lane,), decision, error, checkpoint=True)
    return True


def told(db: apsw.Connection) -> Iterator[str]:
    """Every row that cannot be read, as sentences; also of jobs that were set aside."""
    for statement in (_LIVE, _ENDED):
        for seq, problem in islice(_damaged(db, statement), NAMED_MAX):
            row: Any = db.execute(_ID, (seq,)).fetchone()
            yield f"job {row[0].decode(errors='replace')} cannot be read: {problem}"
    yield from unreadable_schedules(db)
    yield from unreadable_rules(db)
    yield from unreadable_settings(db)


def _damaged(db: apsw.Connection, statement: str) -> Iterator[Damaged]:
    rows: Any = db.cursor().execute(statement)
    for row in rows:
        found = problems(row)
        if found:
            yield Damaged(row[0], "; ".join(found))
