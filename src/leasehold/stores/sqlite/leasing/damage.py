"""Rows that cannot be read: looking for them, and setting their jobs aside as dead letters.

A lease notices most of them itself (`lease.py`). Some damage does not show which row it is in: text
that is not UTF-8, for instance, cannot even be fetched, and the write fails. Then a reader, which
blocks no writer, finds the damaged rows, the jobs are set aside, and the write is retried.

Guard of setting aside: the job's row leaves its state table in the same write; its row in `job` is
untouched. Nothing is assumed about a row's values: anything but a number in place of a number
counts as 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any, Final, NamedTuple

import apsw

from leasehold.core.model.budget import PASSED_OVER_AT_ONCE
from leasehold.core.model.codes import STATUS_CODE, STATUS_OF
from leasehold.core.model.status import Status
from leasehold.core.model.stored import MOMENT_MAX
from leasehold.core.model.unreadable import set_aside_reason
from leasehold.core.rules import decision as decisions
from leasehold.core.rules import key_accounts
from leasehold.core.rules.decision import Decision
from leasehold.core.rules.ends import EndedLease
from leasehold.core.rules.measuring import count_left
from leasehold.stores.sqlite.leasing.ends import Ends, Histories
from leasehold.stores.sqlite.leasing.order import FORGET_PLACE, KeyShelf
from leasehold.stores.sqlite.rules import known
from leasehold.stores.sqlite.rules.known import TokenReader, unreadable_settings
from leasehold.stores.sqlite.rules.schedules import SCHEDULES
from leasehold.stores.sqlite.schema import damaged_cells
from leasehold.stores.sqlite.schema.rows import GUARDED, problems, whole
from leasehold.stores.sqlite.writing.step import Step
from leasehold.stores.tables.job_states import Ending, JobState
from leasehold.stores.tables.order import keys_of

_STATE: Final = ", ".join((whole("version"), whole("attempts"), whole("events")))
_READY: Final = f"RETURNING {_STATE}, {whole('available_at', MOMENT_MAX)}, {whole('lane')}"
OUT_OF_READY: Final = f"""
    DELETE FROM ready WHERE (lane, tier, turn, seq) IN ({keys_of("= $1")}) {_READY}
"""
# Its row in `job` does not show its place, so every row of `ready` is searched.
OUT_OF_READY_ANYWHERE: Final = f"DELETE FROM ready WHERE seq = ? {_READY}"
WAIT_FOR_NOBODY: Final = "DELETE FROM blocker WHERE seq = ?"
OUT_OF_WAITING: Final = f"""
    DELETE FROM waiting WHERE seq = ?
    RETURNING {_STATE}, {whole("coalesce(due, since)", MOMENT_MAX)}, 0, {whole("status")}
"""
# What other tables know of it, so that no version or event number is used twice. Values that are
# not integers are ignored: one more than 1e308 is 1e308.
REACHED: Final = f"""
    SELECT coalesce((SELECT max({whole("version")}) FROM attempt WHERE seq = ?1), 0),
           coalesce((SELECT max({whole("ended_event")}) FROM attempt WHERE seq = ?1), 0),
           coalesce((SELECT max({whole("n")}) FROM event WHERE seq = ?1), 0)
"""
IDENTITY: Final = f"""
    SELECT iif(typeof(job.id) = 'text', CAST(job.id AS BLOB), NULL), lane.id,
           iif(typeof(priority) = 'integer' AND priority BETWEEN 0 AND 100, priority, NULL),
           {whole("allowance")}
    FROM job LEFT JOIN lane ON lane.id = job.lane WHERE seq = ?
"""
RENAME: Final = "UPDATE job SET id = ? WHERE seq = ?"
REHOME: Final = "UPDATE job SET lane = ? WHERE seq = ?"
ANY_LANE: Final = """
    SELECT id FROM lane WHERE id = ?1
    UNION ALL SELECT lane FROM key_lane WHERE id = -?1
    UNION ALL SELECT min(id) FROM lane
"""
_IS_BLOCKED: Final = "SELECT 1 FROM blocker WHERE seq = ? LIMIT 1"
# Only a blocked job has no due time.
NEVER_DUE: Final = f"""
    SELECT seq FROM waiting WHERE status <> {STATUS_CODE[Status.BLOCKED]} AND due IS NULL
"""
_LIVE: Final = f"{GUARDED} WHERE finished.seq IS NULL"
OUT_OF_RUNNING: Final = f"""
    DELETE FROM running WHERE seq = ?
    RETURNING {whole("version")}, {whole("attempts")}, {whole("events")}, CAST(worker AS BLOB),
        {whole("acquired_at", MOMENT_MAX)}, {whole("leased_event")},
        {whole("available_at", MOMENT_MAX)}, {whole("expires_at", MOMENT_MAX)},
        {whole("heartbeat_at", MOMENT_MAX)}, {whole("lease_micros")}
"""


class Damaged(NamedTuple):
    """A job that cannot be read, by its number, and why."""

    seq: int
    problem: str


class _Running(NamedTuple):
    """A job's row in `running`, as far as it can be read, as OUT_OF_RUNNING returns it."""

    version: int
    attempts: int
    events: int
    worker: bytes
    acquired_at: int
    leased_event: int
    available_at: int
    expires_at: int
    heartbeat_at: int
    lease_micros: int


class Reached(NamedTuple):
    """A job's progress, as far as it can be determined."""

    version: int
    attempts: int
    events: int


class Identity(NamedTuple):
    """The identity of a job."""

    id: str
    lane: int
    priority: int | None


def find(db: apsw.Connection, limit: int = PASSED_OVER_AT_ONCE) -> list[Damaged]:
    """Find unfinished jobs that cannot be read. This reads all unfinished jobs, so it is not for a
    write.
    """
    return list(islice(chain(_damaged(db, _LIVE), _never_due(db)), limit))


def set_aside(step: Step, damaged: Damaged) -> Decision | None:
    """Make an unreadable job a dead letter, whatever its status; None if it has ended."""
    return _running_aside(step, damaged) or _waiting_aside(step, damaged)


def _running_aside(step: Step, damaged: Damaged) -> Decision | None:
    seq, problem = damaged
    out: Any = step.execute(OUT_OF_RUNNING, (seq,)).fetchone()
    if out is None:
        return None
    stood = _Running(*out)
    job = _identity(step, seq)
    reached = _reached_by(step, seq, Reached(stood.version, stood.attempts, stood.events))
    if step.rules.key_limits:
        key_accounts.freed(KeyShelf(step), (seq,))
    held = EndedLease(
        seq=seq,
        version=reached.version + (stood.version < reached.version),
        worker=stood.worker.decode(errors="replace"),
        acquired_at=stood.acquired_at,
        attempts=stood.attempts,
        events=reached.events,
        leased_event=stood.leased_event or reached.events,
        available_at=stood.available_at,
        cancel_reason=None,
        expires_at=stood.expires_at,
        heartbeat_at=stood.heartbeat_at,
        lease_micros=stood.lease_micros,
    )
    decision = decisions.set_aside(stood.attempts, problem)
    ends = Ends(step)
    ends.add(job.id, held, job.lane, decision, checkpoint=True)
    ends.write()
    return decision


def _waiting_aside(step: Step, damaged: Damaged) -> Decision | None:
    seq, problem = damaged
    counted = KeyShelf(step).counted_among((seq,)).get(seq)
    out: Any = step.execute(OUT_OF_READY, (seq,)).fetchone()
    if out is None:
        out = _out_of_waiting(step, seq)
    if out is None:
        out = step.execute(OUT_OF_READY_ANYWHERE, (seq,)).fetchone()
    if out is None:
        return None
    version, attempts, events, available_at, stood_in, *rest = out
    before: Status = rest[0] if rest else Status.PENDING
    job = _identity(step, seq, stood_in)
    reached = _reached_by(step, seq, Reached(version, attempts, events))
    if before is Status.PENDING:
        step.execute(FORGET_PLACE, (seq,))
        if job.priority is not None:
            count_left(step.count, [(job.lane, job.priority)])
        if counted is not None:
            key_accounts.left(KeyShelf(step), [counted])
    state = JobState(seq, job.id, job.lane, before, *reached, available_at)
    ending = Ending(state, Status.DEAD, set_aside_reason(problem))
    return Histories(step).finish([ending])[0]


def told(db: apsw.Connection) -> Iterator[str]:
    """Every unreadable row, as sentences, including those of jobs that were set aside."""
    yield from damaged_cells.told(db)
    yield from SCHEDULES.unreadable(db)
    yield from known.read_rules(db).problems()
    yield from unreadable_settings(db)
    yield from TokenReader(db).unreadable()


def _damaged(db: apsw.Connection, statement: str) -> Iterator[Damaged]:
    rows: Any = db.cursor().execute(statement)
    for row in rows:
        found = problems(row)
        if found:
            yield Damaged(row[0], "; ".join(found))


def _never_due(db: apsw.Connection) -> Iterator[Damaged]:
    rows: Any = db.execute(NEVER_DUE)
    return (Damaged(seq, "it is not known when it is due") for (seq,) in rows.fetchall())


def _identity(step: Step, seq: int, stood_in: int = 0) -> Identity:
    """The identity of a job, repaired if it could not be named or found otherwise."""
    raw, lane, priority, _ = _row(step, IDENTITY, seq)
    try:
        job_id = raw.decode()
    except (AttributeError, UnicodeDecodeError):
        kept = b"" if raw is None else raw
        job_id = f"{kept.decode(errors='replace')}-unreadable-{seq}"
        step.execute(RENAME, (job_id, seq))
    if lane is None:
        lane = _row(step, ANY_LANE, stood_in)[0]
        step.execute(REHOME, (lane, seq))
    return Identity(job_id, lane, priority)


def _reached_by(step: Step, seq: int, said: Reached) -> Reached:
    """A job's progress, from its row and its other records."""
    version, ended_event, n = _row(step, REACHED, seq)
    return Reached(max(said.version, version), said.attempts, max(said.events, ended_event, n))


def _out_of_waiting(step: Step, seq: int) -> tuple[Any, ...] | None:
    blocked = step.execute(_IS_BLOCKED, (seq,)).fetchone() is not None
    if blocked:
        Histories(step).note_raised_by((seq,))
    out: Any = step.execute(OUT_OF_WAITING, (seq,)).fetchone()
    if out is None:
        return None
    step.execute(WAIT_FOR_NOBODY, (seq,))
    *rest, code = out
    before = STATUS_OF.get(code)
    if before not in (Status.SCHEDULED, Status.FAILED, Status.BLOCKED):
        before = Status.BLOCKED if blocked else Status.SCHEDULED
    return (*rest, before)


def _row(step: Step, statement: str, number: int) -> Any:
    return step.execute(statement, (number,)).fetchone()
