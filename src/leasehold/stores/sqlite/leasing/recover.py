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

from leasehold.core import messages
from leasehold.core.lease import Settled, StuckJob, SweepReport
from leasehold.core.limits import SECONDS_MAX
from leasehold.core.outcome import JobError, decide_recovery
from leasehold.core.status import Status
from leasehold.env import from_micros
from leasehold.stores.sqlite.leasing import damage, lease, parking
from leasehold.stores.sqlite.leasing.ready import AT_ITS_PLACE
from leasehold.stores.sqlite.leasing.settle import END_LEASE, FIND_SEQ, JOB_RULES, apply_decision
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
STILL_LOST: Final = """
    SELECT running.version, id, worker, expires_at, heartbeat_at
    FROM running JOIN job USING (seq) WHERE seq = ?
"""
# Who still holds a job stays dead for the next sweep, which finds the job by its holder.
STILL_HOLDING: Final = "SELECT DISTINCT worker FROM running"
FORGET_WORKER: Final = "DELETE FROM worker WHERE id = ?"
# A worker that left no lock file behind (another machine's disk image, a killed start-up) is
# forgotten a day after its last sign of life, once it holds nothing.
SILENT: Final = """
    SELECT id FROM worker WHERE heartbeat_at < ? AND id NOT IN (SELECT worker FROM running)
"""
FORGET_SILENT: Final = "DELETE FROM worker WHERE id = ? AND heartbeat_at < ?"
SILENT_MICROS: Final = 24 * 3600 * 1_000_000
# Many whose time is over have started, or ended, before: a reader finds those that have not.
LATE: Final = f"""
    SELECT ready.seq, job.lane, version, attempts, events, available_at, job.id, job.start_by
    FROM job LEFT JOIN place ON place.seq = job.seq JOIN ready ON {AT_ITS_PLACE}
    WHERE start_by < ?1 AND version = 0
"""  # noqa: S608  # our own names
STILL_LATE: Final = f"{LATE} AND job.seq = ?2"
HOLDER: Final = "SELECT worker, heartbeat_at FROM running WHERE seq = ? AND version = ?"
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
    silent = [worker for (worker,) in db.execute(SILENT, (now - SILENT_MICROS,))]
    late = [row[0] for row in db.execute(LATE, (now,))]
    return Suspects(frozenset(dead), jobs, late, silent)


def recover(step: Step, jobs: Sequence[int], dead: Collection[str]) -> SweepReport:
    """Take back those of these jobs that are lost, in one write."""
    ends = {Status.PENDING: 0, Status.DEAD: 0, Status.CANCELLED: 0}
    for seq in jobs:
        problem = problem_with(step.db, seq)
        if problem is not None:
            ends[Status.DEAD] += damage.set_aside(step, damage.Damaged(seq, problem))
            continue
        held: Any = step.execute(STILL_LOST, (seq,)).fetchone()
        if held is None or not (held[3] <= step.now or held[2] in dead):
            continue
        version, job_id, worker, expires_at, heartbeat_at = held
        heartbeat = from_micros(heartbeat_at)
        error = (
            messages.died(worker, version, heartbeat)
            if worker in dead
            else messages.expired(worker, version, from_micros(expires_at), heartbeat)
        )
        ends[_take_back(step, seq, version, job_id, error).status] += 1
    found = sum(ends.values())
    return SweepReport(
        expired_found=found,
        recovered=ends[Status.PENDING],
        dead=ends[Status.DEAD],
        cancelled=ends[Status.CANCELLED],
        checkpoints_created=found,
    )


def forget_workers(step: Step, dead: Collection[str], silent: Collection[str]) -> SweepReport:
    """Forget workers whose jobs have been taken back."""
    holding = {worker for (worker,) in step.execute(STILL_HOLDING)}
    done = sorted(set(dead) - holding)
    step.executemany(FORGET_WORKER, [(worker,) for worker in done])
    before = step.now - SILENT_MICROS
    step.executemany(FORGET_SILENT, [(worker, before) for worker in silent])
    return SweepReport(workers_proved_dead=tuple(done))


def _take_back(
    step: Step, seq: int, version: int, job_id: str, error: JobError, *, reset: bool = False
) -> Settled:
    row = step.execute(END_LEASE, (seq, version)).fetchone()
    if step.rules.key_limits:
        parking.freed(step, (seq,))
    rules = step.execute(JOB_RULES, (seq,)).fetchone()
    assert row is not None
    assert rules is not None
    attempts = 0 if reset else row[4]
    decision = decide_recovery(
        attempts=attempts, allowance=rules[2], cancel_reason=row[8], why=error.message
    )
    settled = apply_decision(step, job_id, row, rules, decision, error, checkpoint=True)
    if settled.status is Status.PENDING:
        step.count(rules[0], "total_recovered")
    return settled


def recover_one(
    step: Step, job_id: str, version: int, *, reset_attempts: bool, reason: str
) -> Settled | None:
    """Take one job from its holder; None if that lease is over."""
    found: Any = step.execute(FIND_SEQ, (job_id,)).fetchone()
    if found is None:
        return None
    seq = found[0]
    held: Any = step.execute(HOLDER, (seq, version)).fetchone()
    if held is None:
        return None
    worker, heartbeat_at = held
    if reset_attempts:
        step.execute(RESET_ALLOWANCE, (seq,))
    error = messages.taken(worker, version, from_micros(heartbeat_at), reason)
    return _take_back(step, seq, version, job_id, error, reset=reset_attempts)


def cancel_late(step: Step, jobs: Sequence[int]) -> None:
    """Cancel those of these jobs that are pending past their start_by."""
    for seq in jobs:
        row: Any = step.execute(STILL_LATE, (step.now, seq)).fetchone()
        if row is not None:
            lease.cancel_late(step, lease.Late(*row))


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
