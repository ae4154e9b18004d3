"""Setting the store's clock back to the wall clock, with every time that came from it.

Two kinds of times are later than the wall clock. An event that *happened* by the wrong clock counts
as having happened now. An event *postponed* from a time by the wrong clock is postponed from now,
by the rest of its delay. Any other future time was set by a person or before the clock went wrong,
and stays.
"""

from __future__ import annotations

from typing import Final

from leasehold.core.contract.clock_store import ClockRepair
from leasehold.core.model.limits import IDEMPOTENCY_SECONDS
from leasehold.core.model.span import DAY_MICROS, MINUTE_MICROS
from leasehold.core.rules.clock import basis_of_now, check_may_be_set_back, is_ahead
from leasehold.core.rules.sampling import KEPT
from leasehold.env import ClockReading, from_micros
from leasehold.stores.sqlite.leasing.recover import Sweep
from leasehold.stores.sqlite.rules.schedules import go_on_from
from leasehold.stores.sqlite.writing.database import Database
from leasehold.stores.sqlite.writing.step import Step
from leasehold.stores.tables.rebalance import RESCORE

RUNNING: Final = "SELECT count(*) FROM running"
# A consumer without a job depends on no time of the store; its next lease enters it again.
FORGET_CONSUMERS: Final = "DELETE FROM worker WHERE is_consumer"
WORKERS: Final = "SELECT id, host, pid FROM worker WHERE NOT is_consumer ORDER BY id"
QUEUES: Final = "SELECT DISTINCT queue FROM lane"

# ?1 is the new time, ?2 the old one. Statements that use a job's creation or the start of its wait
# run before those times are set back.
PUT_OFF: Final = (
    """UPDATE waiting SET due = ?1 + max(0, due - ?2) WHERE since > ?1 AND due > ?1""",
    """UPDATE dependent SET due = ?1 + max(0, due - ?2) WHERE due > ?1
       AND seq IN (SELECT seq FROM job WHERE created_at > ?1)""",
    """UPDATE job SET start_by = ?1 + max(0, start_by - ?2) WHERE created_at > ?1
       AND start_by > ?1""",
    """UPDATE lane SET held_until = ?1 + max(0, held_until - ?2) WHERE held_until > ?1""",
    """UPDATE bucket SET full_at = ?1 * 1000 + max(0, full_at - ?2 * 1000)
       WHERE full_at > ?1 * 1000""",
    """UPDATE resting SET until = ?1 + max(0, until - ?2) WHERE until > ?1""",
)
# The place of a pending job follows from its creation, unless it has a row in `place`.
PLACES: Final = """
    UPDATE ready SET turn = ?1 WHERE seq IN (SELECT seq FROM job WHERE created_at > ?1)
        AND seq NOT IN (SELECT seq FROM place)
"""
HAPPENED: Final = {
    "job": ("created_at",),
    "ready": ("available_at",),
    "waiting": ("since",),
    "finished": ("finished_at", "started_at", "available_at"),
    "attempt": ("started_at", "ended_at", "expires_at", "heartbeat_at"),
    "failed_job": ("first_at", "last_at"),
    "event": ("at",),
    "log": ("at",),
    "schedule": ("created_at", "updated_at", "last_at", "missed_at"),
    "audit": ("at",),
    "audit_archive": ("at",),
    "lane": ("made_at",),
    "reply": ("at",),
    "pin": ("at",),
    "queue": ("older_at", "newer_at", "created_at", "changed_at"),
    "cleanup": ("started_at", "active_at", "ended_at"),
    "failure": ("first_at", "last_at"),
    "error_total": ("last_at",),
    "worker_total": ("first_at", "last_at"),
    "archive": (
        "created_at",
        "started_at",
        "finished_at",
        "archived_at",
        "first_failed_at",
        "last_failed_at",
    ),
}
KEYS: Final = ("idempotency", "pruned_key")
ARCHIVE_DAYS: Final = "UPDATE archive SET day = ?1 WHERE day > ?1"
# The figures of future minutes and days; the totals of the queues keep their counts.
SPANS: Final = "DELETE FROM span WHERE resolution = ? AND at > ?"
OPEN_MINUTE: Final = "UPDATE store_state SET open_minute = ?"


def repair_clock(database: Database, actor: str) -> ClockRepair:
    """Set the store's clock back to the wall clock, once no worker is left."""
    Sweep(database).run()
    return database.write(lambda step: _repair(step, database.env.clock.reading(), actor))


def _repair(step: Step, reading: ClockReading, actor: str) -> ClockRepair:
    before, now = step.now, reading.wall
    if not is_ahead(before, now):
        return ClockRepair(before=from_micros(before), after=from_micros(before), changed={})
    ((running,),) = step.execute(RUNNING).fetchall()
    workers = [f"{name} (pid {pid} on {host})" for name, host, pid in step.execute(WORKERS)]
    check_may_be_set_back(workers, running)
    step.execute(FORGET_CONSUMERS)
    changed = _set_back(step, now, before)
    step.execute(OPEN_MINUTE, (now // MINUTE_MICROS,))
    for (queue,) in step.execute(QUEUES).fetchall():
        step.execute(RESCORE, (queue,))
    step.some_rescoring = True
    step.set_clock(now, basis_of_now(now, reading, step.clock_basis.repairs + 1))
    answer = ClockRepair(before=from_micros(before), after=from_micros(now), changed=changed)
    detail = {"before": answer.before.isoformat(), "changed": changed}
    step.audit(actor, "repair_clock", sum(changed.values()), detail)
    step.hints.ready = True
    return answer


def _set_back(step: Step, now: int, before: int) -> dict[str, int]:
    changed: dict[str, int] = {}

    def change(table: str, statement: str, *values: int) -> None:
        step.execute(statement, values)
        if rows := step.db.changes():
            changed[table] = changed.get(table, 0) + rows

    for statement in PUT_OFF:
        change(statement.split()[1], statement, now, before)
    step.execute(PLACES, (now,))
    for table, columns in HAPPENED.items():
        for column in columns:
            change(table, f"UPDATE {table} SET {column} = ?1 WHERE {column} > ?1", now)
    change("archive", ARCHIVE_DAYS, now // DAY_MICROS)
    latest = now + round(IDEMPOTENCY_SECONDS * 1e6)
    for table in KEYS:
        change(table, f"UPDATE {table} SET expires_at = ?1 WHERE expires_at > ?1", latest)
    for resolution in KEPT:
        change("span", SPANS, resolution, now // resolution.micros)
    if schedules := go_on_from(step, from_micros(now)):
        changed["schedule"] = schedules
    return changed
