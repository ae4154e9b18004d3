"""The recovery sweep: take back what expired, or whose holder is proved dead.

A reader looks for them, which holds up nobody; the writes that follow take back so many each, and
look at every job once more: its lease is expired by now, or its holder is proved dead in this very
write. (A worker that comes back under its old id has its lock again before it can lease anything.)

Guard of the take: the row is still in `running` with the version that was read, in the same write.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

import apsw
import msgspec

from leasehold.core.decision import Decision, decide_recovery
from leasehold.core.fence import lease_is_over
from leasehold.core.lease import Settled, StuckJob, SweepReport
from leasehold.core.limits import SECONDS_MAX
from leasehold.core.outcome import JobError
from leasehold.core.recovery import WORKER_SILENT_MICROS_MAX, HeldLease, lost, report_of, taken
from leasehold.env import from_micros
from leasehold.errors import LeaseLostError
from leasehold.stores.sqlite.leasing import damage, lease, parking
from leasehold.stores.sqlite.leasing.ends import END_LEASE, Ends, Held
from leasehold.stores.sqlite.leasing.ready import AT_ITS_PLACE
from leasehold.stores.sqlite.leasing.state import find as find_state
from leasehold.stores.sqlite.schema.job_row import problem_with
from leasehold.stores.sqlite.schema.rows import Kind, Lenient
from leasehold.stores.sqlite.writing.step import Step

# `running` is small, so a reader simply reads it all. An expiry beyond all leases cannot be read.
LOST: Final = f"""
    SELECT seq FROM running
    WHERE typeof(expires_at) <> 'integer' OR expires_at <= ?1
        OR expires_at > ?1 + {round(SECONDS_MAX) * 1_000_000}
        OR worker IN (SELECT value FROM json_each(?2))
    ORDER BY expires_at
"""  # noqa: S608  # our own number
_HELD_LEASE: Final = """
    SELECT seq, id, lane, allowance, max_retries, running.version, worker, expires_at, heartbeat_at
    FROM running JOIN job USING (seq)
"""
STILL_LOST: Final = f"{_HELD_LEASE} WHERE seq = ?"
HELD_UNDER: Final = f"{_HELD_LEASE} WHERE id = ? AND running.version = ?"
# Who still holds a job stays dead for the next sweep, which finds the job by its holder.
STILL_HOLDING: Final = "SELECT DISTINCT worker FROM running"
FORGET_WORKER: Final = "DELETE FROM worker WHERE id = ?"
# A worker that left no lock file behind (another machine's disk image, a killed start-up) is
# forgotten a day after its last sign of life, once it holds nothing.
SILENT: Final = """
    SELECT id FROM worker WHERE heartbeat_at < ? AND id NOT IN (SELECT worker FROM running)
"""
FORGET_SILENT: Final = "DELETE FROM worker WHERE id = ? AND heartbeat_at < ?"
# Many whose time is over have started, or ended, before: a reader finds those that have not.
LATE: Final = f"""
    SELECT ready.seq, job.lane, version, attempts, events, available_at, job.id, job.start_by
    FROM job LEFT JOIN place ON place.seq = job.seq JOIN ready ON {AT_ITS_PLACE}
    WHERE start_by < ?1 AND version = 0
"""  # noqa: S608  # our own names
STILL_LATE: Final = f"{LATE} AND job.seq = ?2"
RESET_ALLOWANCE: Final = "UPDATE job SET allowance = max_retries + 1 WHERE seq = ?"
STUCK: Final = Lenient(
    {
        "job.id": Kind.TEXT,
        "queue": Kind.TEXT,
        "task": Kind.TEXT,
        "worker": Kind.TEXT,
        "running.version": Kind.WHOLE,
        "attempts": Kind.WHOLE,
        "acquired_at": Kind.MOMENT,
        "heartbeat_at": Kind.MOMENT,
        "expires_at": Kind.MOMENT,
    },
    "FROM running JOIN job USING (seq) JOIN lane ON lane.id = job.lane "
    "WHERE heartbeat_at <= ? ORDER BY heartbeat_at",
)


class Suspects(NamedTuple):
    """What a reader found for a sweep; each write looks at its part once more."""

    dead: frozenset[str]
    """Workers that were proved dead before their jobs were looked for."""
    jobs: list[int]
    late: list[int]
    """Pending jobs past their start_by."""
    silent: list[str]


def find(db: apsw.Connection, now: int, dead: Collection[str]) -> Suspects:
    """The jobs whose holders may be lost, and the workers that were silent for long."""
    workers = msgspec.json.encode(sorted(dead)).decode()
    jobs = [seq for (seq,) in db.execute(LOST, (now, workers))]
    silent = [worker for (worker,) in db.execute(SILENT, (now - WORKER_SILENT_MICROS_MAX,))]
    late = [row[0] for row in db.execute(LATE, (now,))]
    return Suspects(frozenset(dead), jobs, late, silent)


def recover(step: Step, jobs: Sequence[int], dead: Collection[str]) -> SweepReport:
    """Take back those of these jobs that are lost, in one write."""
    decisions = []
    for seq in jobs:
        problem = problem_with(step.db, seq)
        if problem is not None:
            decisions.append(damage.set_aside(step, damage.Damaged(seq, problem)))
            continue
        suspect = _held(step.execute(STILL_LOST, (seq,)).fetchone())
        error = None if suspect is None else lost(suspect.lease, step.now, dead)
        if suspect is not None and error is not None:
            decisions.append(_take_back(step, suspect, error)[0])
    return report_of(decision for decision in decisions if decision is not None)


def forget_workers(step: Step, dead: Collection[str], silent: Collection[str]) -> SweepReport:
    """Forget workers whose jobs have been taken back."""
    holding = {worker for (worker,) in step.execute(STILL_HOLDING)}
    done = sorted(set(dead) - holding)
    step.executemany(FORGET_WORKER, [(worker,) for worker in done])
    before = step.now - WORKER_SILENT_MICROS_MAX
    step.executemany(FORGET_SILENT, [(worker, before) for worker in silent])
    return SweepReport(workers_proved_dead=tuple(done))


class _HeldJob(NamedTuple):
    """A running job that may be taken from its holder."""

    seq: int
    id: str
    lane: int
    allowance: int
    max_retries: int
    lease: HeldLease


def _held(row: Any) -> _HeldJob | None:
    if row is None:
        return None
    seq, job_id, lane, allowance, max_retries, *lease = row
    return _HeldJob(seq, job_id, lane, allowance, max_retries, HeldLease(*lease))


def _take_back(
    step: Step, job: _HeldJob, error: JobError, *, attempts: int | None = None
) -> tuple[Decision, Settled]:
    row: Any = step.execute(END_LEASE, (job.seq, job.lease.version)).fetchone()
    held = Held._make(row)
    if step.rules.key_limits:
        parking.freed(step, (job.seq,))
    decision = decide_recovery(
        attempts=held.attempts if attempts is None else attempts,
        allowance=job.allowance,
        cancel_reason=held.cancel_reason,
        error=error,
    )
    ends = Ends(step)
    settled = ends.add(job.id, held, job.lane, decision, checkpoint=True)
    ends.write()
    return decision, settled


def recover_one(
    step: Step, job_id: str, version: int, *, reset_attempts: bool, reason: str
) -> Settled | LeaseLostError:
    """Take one job from its holder; an error if that lease is over."""
    job = _held(step.execute(HELD_UNDER, (job_id, version)).fetchone())
    if job is None:
        # Whoever takes jobs back is no stale holder: its being late is not the job's history.
        return lease_is_over(job_id, version, find_state(step, job_id))
    error = taken(job.lease, reason)
    if not reset_attempts:
        return _take_back(step, job, error)[1]
    step.execute(RESET_ALLOWANCE, (job.seq,))
    fresh = job._replace(allowance=job.max_retries + 1)
    return _take_back(step, fresh, error, attempts=0)[1]


def cancel_late(step: Step, jobs: Sequence[int]) -> None:
    """Cancel those of these jobs that are pending past their start_by."""
    for seq in jobs:
        row: Any = step.execute(STILL_LATE, (step.now, seq)).fetchone()
        if row is not None:
            lease.cancel_late(step, row)


def stuck_jobs(db: apsw.Connection, before: int) -> list[StuckJob]:
    """Running jobs without a heartbeat since then, longest first."""
    return [
        StuckJob(
            job_id=job_id,
            queue=queue,
            task=task,
            worker=worker,
            lease_version=version,
            attempts=attempts,
            started_at=from_micros(acquired_at),
            heartbeat_at=from_micros(heartbeat_at),
            lease_expires_at=from_micros(expires_at),
        )
        for (
            job_id,
            queue,
            task,
            worker,
            version,
            attempts,
            acquired_at,
            heartbeat_at,
            expires_at,
        ) in STUCK.rows(db, (before,))
    ]
