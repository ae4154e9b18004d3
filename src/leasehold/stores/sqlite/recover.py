"""The recovery sweep: take back what expired, or whose holder is proved dead.

Guard of the take: the row is still in `running` with the version that was read, in the same write.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from leasehold.core import messages
from leasehold.core.lease import Settled, StuckJob, SweepReport
from leasehold.core.outcome import JobError, decide_recovery
from leasehold.core.status import Status
from leasehold.env import from_micros
from leasehold.stores.sqlite import parking
from leasehold.stores.sqlite.ready import AT_ITS_PLACE
from leasehold.stores.sqlite.settle import END_LEASE, FIND_SEQ, JOB_RULES, apply_decision
from leasehold.stores.sqlite.step import Step

# `running` is small, so the sweep simply reads it all.
EXPIRED: Final = """
    SELECT seq, running.version, id, worker, expires_at, heartbeat_at
    FROM running JOIN job USING (seq) WHERE expires_at <= ? ORDER BY expires_at
"""
HELD_BY: Final = """
    SELECT seq, running.version, id, worker, expires_at, heartbeat_at
    FROM running JOIN job USING (seq) WHERE worker = ? AND expires_at > ?
"""
FORGET_WORKER: Final = "DELETE FROM worker WHERE id = ?"
# A worker that left no lock file behind (another machine's disk image, a killed start-up) is
# forgotten a day after its last sign of life, once it holds nothing.
FORGET_SILENT: Final = """
    DELETE FROM worker WHERE heartbeat_at < ? AND id NOT IN (SELECT worker FROM running)
"""
SILENT_MICROS: Final = 24 * 3600 * 1_000_000
LATE: Final = f"""
    SELECT ready.seq, job.lane, version, attempts, events, available_at, job.id, job.start_by
    FROM job LEFT JOIN place ON place.seq = job.seq JOIN ready ON {AT_ITS_PLACE}
    WHERE start_by < ? AND version = 0 LIMIT 1000
"""  # noqa: S608  # our own names
HOLDER: Final = "SELECT worker, heartbeat_at FROM running WHERE seq = ? AND version = ?"
RESET_ALLOWANCE: Final = "UPDATE job SET allowance = max_retries + 1 WHERE seq = ?"
STUCK: Final = """
    SELECT job.id, queue, task, worker, running.version, attempts, acquired_at, heartbeat_at,
           expires_at
    FROM running JOIN job USING (seq) JOIN lane ON lane.id = job.lane
    WHERE heartbeat_at <= ? ORDER BY heartbeat_at
"""


def recover(step: Step, dead_workers: Collection[str]) -> SweepReport:
    """One sweep, in one write."""
    expired: list[tuple[Any, ...]] = step.execute(EXPIRED, (step.now,)).fetchall()
    for worker in dead_workers:
        expired += step.execute(HELD_BY, (worker, step.now)).fetchall()
    ends = {Status.PENDING: 0, Status.DEAD: 0, Status.CANCELLED: 0}
    for seq, version, job_id, worker, expires_at, heartbeat_at in expired:
        heartbeat = from_micros(heartbeat_at)
        error = (
            messages.died(worker, version, heartbeat)
            if worker in dead_workers
            else messages.expired(worker, version, from_micros(expires_at), heartbeat)
        )
        ends[_take_back(step, seq, version, job_id, error).status] += 1
    for worker in dead_workers:
        step.execute(FORGET_WORKER, (worker,))
    step.execute(FORGET_SILENT, (step.now - SILENT_MICROS,))
    return SweepReport(
        expired_found=len(expired),
        recovered=ends[Status.PENDING],
        dead=ends[Status.DEAD],
        cancelled=ends[Status.CANCELLED],
        checkpoints_created=len(expired),
        workers_proved_dead=tuple(sorted(dead_workers)),
    )


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


def late_rows(step: Step) -> list[tuple[Any, ...]]:
    """Pending jobs past their start_by, as `cancel_late` takes them."""
    return step.execute(LATE, (step.now,)).fetchall()


def stuck_jobs(rows: list[tuple[Any, ...]]) -> list[StuckJob]:
    """What the STUCK query found."""
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
        ) in rows
    ]
