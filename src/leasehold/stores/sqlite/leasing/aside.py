"""Setting a job aside whose row cannot be read: it becomes a dead letter, its row untouched.

Guard: the job's row is out of the state table it stands in, in the same write. Nothing is taken for
granted of what that row holds: what is no number there counts as 0.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from leasehold.core.status import Status
from leasehold.core.unreadable import set_aside_reason
from leasehold.stores.sqlite.leasing import parking, ready
from leasehold.stores.sqlite.leasing.finish import end_waiting
from leasehold.stores.sqlite.leasing.locate import WAIT_FOR_NOBODY
from leasehold.stores.sqlite.reading.measuring import count_left
from leasehold.stores.sqlite.schema.codes import STATUS_OF
from leasehold.stores.sqlite.schema.rows import MOMENT_MAX
from leasehold.stores.sqlite.submitting import inheritance
from leasehold.stores.sqlite.writing.step import Step


def whole(column: str, greatest: int = 1 << 40) -> str:
    """A column that is to hold a whole number from 0 on; 0 if it does not."""
    return f"iif(typeof({column}) = 'integer' AND {column} BETWEEN 0 AND {greatest}, {column}, 0)"


_STATE: Final = ", ".join((whole("version"), whole("attempts"), whole("events")))
_READY: Final = f"RETURNING {_STATE}, {whole('available_at', MOMENT_MAX)}, {whole('lane')}"
OUT_OF_READY: Final = f"""
    DELETE FROM ready WHERE (lane, tier, turn, seq) IN ({ready.KEY_OF}) {_READY}
"""  # noqa: S608  # our own names
# Its place cannot be told from its row in `job`: every row of `ready` is looked at for it.
OUT_OF_READY_ANYWHERE: Final = f"DELETE FROM ready WHERE seq = ? {_READY}"  # noqa: S608  # as above
OUT_OF_WAITING: Final = f"""
    DELETE FROM waiting WHERE seq = ?
    RETURNING {_STATE}, {whole("coalesce(due, since)", MOMENT_MAX)}, 0, {whole("status")}
"""  # noqa: S608  # our own names
# What is known of it elsewhere: neither a version nor an event number is used twice.
REACHED: Final = """
    SELECT coalesce((SELECT max(version) FROM attempt WHERE seq = ?1), 0),
           coalesce((SELECT max(ended_event) FROM attempt WHERE seq = ?1), 0),
           coalesce((SELECT max(n) FROM event WHERE seq = ?1), 0)
"""
IDENTITY: Final = f"""
    SELECT iif(typeof(job.id) = 'text', CAST(job.id AS BLOB), NULL), lane.id,
           iif(typeof(priority) = 'integer' AND priority BETWEEN 0 AND 100, priority, NULL),
           {whole("allowance")}
    FROM job LEFT JOIN lane ON lane.id = job.lane WHERE seq = ?
"""  # noqa: S608  # our own names
RENAME: Final = "UPDATE job SET id = ? WHERE seq = ?"
REHOME: Final = "UPDATE job SET lane = ? WHERE seq = ?"
ANY_LANE: Final = """
    SELECT id FROM lane WHERE id = ?1
    UNION ALL SELECT lane FROM key_lane WHERE id = -?1
    UNION ALL SELECT min(id) FROM lane
"""
_IS_BLOCKED: Final = "SELECT 1 FROM blocker WHERE seq = ? LIMIT 1"


class Reached(NamedTuple):
    """How far a job has got, as far as that can be told."""

    version: int
    attempts: int
    events: int


class Identity(NamedTuple):
    """What a job is known by."""

    id: str
    lane: int
    priority: int | None


def waiting_job(step: Step, seq: int, problem: str) -> bool:
    """Set aside a job that is pending or waits; whether it was there."""
    counted = parking.counted(step, seq)
    out: Any = step.execute(OUT_OF_READY, (seq,)).fetchone()
    if out is None:
        out = _out_of_waiting(step, seq)
    if out is None:
        out = step.execute(OUT_OF_READY_ANYWHERE, (seq,)).fetchone()
    if out is None:
        return False
    version, attempts, events, available_at, stood_in, *rest = out
    before: Status = rest[0] if rest else Status.PENDING
    job = identity(step, seq, stood_in)
    reached = reached_by(step, seq, Reached(version, attempts, events))
    if before is Status.PENDING:
        step.execute(ready.FORGET_PLACE, (seq,))
        if job.priority is not None:
            count_left(step.count, [(job.lane, job.priority)])
        if counted is not None:
            parking.left(step, counted)
    end_waiting(
        step,
        seq=seq,
        job_id=job.id,
        lane=job.lane,
        before=before,
        after=Status.DEAD,
        version=reached.version,
        attempts=reached.attempts,
        events=reached.events,
        available_at=available_at,
        reason=set_aside_reason(problem),
    )
    return True


def identity(step: Step, seq: int, stood_in: int = 0) -> Identity:
    """What a job is known by, put right where nobody could name it or find it otherwise."""
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


def reached_by(step: Step, seq: int, said: Reached) -> Reached:
    """How far a job has got, by what its row says and what is known of it elsewhere."""
    version, ended_event, n = _row(step, REACHED, seq)
    return Reached(max(said.version, version), said.attempts, max(said.events, ended_event, n))


def _out_of_waiting(step: Step, seq: int) -> tuple[Any, ...] | None:
    blocked = step.execute(_IS_BLOCKED, (seq,)).fetchone() is not None
    if blocked:
        inheritance.waits_no_more(step, seq)
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
