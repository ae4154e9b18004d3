"""Setting the store's clock back to the wall clock, with every time that came from it.

Two kinds of times are later than the wall clock. An event that *happened* by the wrong clock counts
as having happened now. An event *postponed* from a time by the wrong clock is postponed from now,
by the rest of its delay. Any other future time was set by a person or before the clock went wrong,
and stays.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Final

from leasehold.core.contract.clock_store import ClockRepair
from leasehold.core.model.limits import IDEMPOTENCY_SECONDS
from leasehold.core.model.span import DAY_MICROS, MINUTE_MICROS
from leasehold.core.model.stored import micros
from leasehold.core.rules.clock import check_may_be_set_back, is_ahead
from leasehold.core.rules.sampling import KEPT
from leasehold.core.rules.scheduling import next_tick_from
from leasehold.env import from_micros
from leasehold.stores.tables.rebalance import RESCORE
from leasehold.stores.tables.schedules import ScheduleRows
from leasehold.stores.tables.step import TableStep

RUNNING: Final = "SELECT count(*) FROM running"
# A consumer without a job depends on no time of the store; its next lease enters it again.
FORGET_CONSUMERS: Final = "DELETE FROM worker WHERE is_consumer"
WORKERS: Final = "SELECT id, host, pid FROM worker WHERE NOT is_consumer ORDER BY id"
QUEUES: Final = "SELECT DISTINCT queue FROM lane"

# $1 is the new time, $2 the old one; `larger` is the name of a function. Statements that use a
# job's creation or the start of its wait run before those times are set back.
PUT_OFF: Final = (
    """UPDATE waiting SET due = $1 + {larger}(0, due - $2) WHERE since > $1 AND due > $1""",
    """UPDATE dependent SET due = $1 + {larger}(0, due - $2) WHERE due > $1
       AND seq IN (SELECT seq FROM job WHERE created_at > $1)""",
    """UPDATE job SET start_by = $1 + {larger}(0, start_by - $2) WHERE created_at > $1
       AND start_by > $1""",
    """UPDATE lane SET held_until = $1 + {larger}(0, held_until - $2) WHERE held_until > $1""",
    """UPDATE bucket SET full_at = $1 * 1000 + {larger}(0, full_at - $2 * 1000)
       WHERE full_at > $1 * 1000""",
    """UPDATE resting SET until = $1 + {larger}(0, until - $2) WHERE until > $1""",
)
# The place of a pending job follows from its creation, unless it has a row in `place`.
PLACES: Final = """
    UPDATE ready SET turn = $1 WHERE seq IN (SELECT seq FROM job WHERE created_at > $1)
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
ARCHIVE_DAYS: Final = "UPDATE archive SET day = $1 WHERE day > $1"
# The figures of future minutes and days; the totals of the queues keep their counts.
SPANS: Final = "DELETE FROM span WHERE resolution = $1 AND at > $2"
OPEN_MINUTE: Final = "UPDATE store_state SET open_minute = $1"
GO_ON: Final = "UPDATE schedule SET next_at = $1, due_at = $1 WHERE {number} = $2"


class TableClockRepair(ABC):
    """The repair of the clock in one write."""

    larger: ClassVar[str]
    """The name of the function that returns the larger of two numbers."""
    schedules: ClassVar[ScheduleRows]
    ahead: ClassVar[str]
    """The statement that reads schedules to look at after a time."""

    def __init__(self, step: Any) -> None:
        self._step: TableStep = step
        self._changed: dict[str, int] = {}

    @abstractmethod
    def _set_clock(self, now: int) -> None:
        """Change the time from here on, for this write and all later ones."""

    def _before_archive(self, day: int) -> None:  # noqa: B027  # not every store has parts
        """Called before jobs that were archived after a day are moved to it."""

    def run(self, now: int, actor: str) -> ClockRepair:
        """Set the clock back to the wall clock, which shows `now`."""
        step, before = self._step, self._step.now
        if not is_ahead(before, now):
            return ClockRepair(before=from_micros(before), after=from_micros(before), changed={})
        ((running,),) = step.execute(RUNNING).fetchall()
        workers = [f"{name} (pid {pid} on {host})" for name, host, pid in step.execute(WORKERS)]
        check_may_be_set_back(workers, running)
        step.execute(FORGET_CONSUMERS)
        self._set_back(now, before)
        step.execute(OPEN_MINUTE, (now // MINUTE_MICROS,))
        for (queue,) in step.execute(QUEUES).fetchall():
            step.execute(RESCORE, (queue,))
        step.some_rescoring = True
        self._set_clock(now)
        changed = self._changed
        answer = ClockRepair(before=from_micros(before), after=from_micros(now), changed=changed)
        detail = {"before": answer.before.isoformat(), "changed": changed}
        step.audit(actor, "repair_clock", sum(changed.values()), detail)
        step.hints.ready = True
        return answer

    def _set_back(self, now: int, before: int) -> None:
        for statement in PUT_OFF:
            self._change(statement.split()[1], statement.format(larger=self.larger), now, before)
        self._step.execute(PLACES, (now,))
        for table, columns in HAPPENED.items():
            for column in columns:
                self._change(table, f"UPDATE {table} SET {column} = $1 WHERE {column} > $1", now)
        self._before_archive(now // DAY_MICROS)
        self._change("archive", ARCHIVE_DAYS, now // DAY_MICROS)
        latest = now + round(IDEMPOTENCY_SECONDS * 1e6)
        for table in KEYS:
            statement = f"UPDATE {table} SET expires_at = $1 WHERE expires_at > $1"
            self._change(table, statement, latest)
        for resolution in KEPT:
            self._change("span", SPANS, resolution, now // resolution.micros)
        self._move_schedules_up(now)

    def _change(self, table: str, statement: str, *values: int) -> None:
        if rows := self._step.changed(statement, values):
            self._changed[table] = self._changed.get(table, 0) + rows

    def _move_schedules_up(self, now: int) -> None:
        """Move up schedules whose next tick was computed with a clock that was ahead."""
        rows = self._step.execute(self.ahead, (now,)).fetchall()
        go_on = GO_ON.format(number=self.schedules.number)
        for row in rows:
            tick = next_tick_from(self.schedules.schedule_of(row), from_micros(now))
            self._step.execute(go_on, (micros(tick), row[-1]))
        if rows:
            self._changed["schedule"] = self._changed.get("schedule", 0) + len(rows)
