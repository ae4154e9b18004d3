"""Queues and their rules as a write changes them; `core.rules.queue_orders` decides."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Final

import msgspec

from leasehold.core.model.codes import DELETED_BY
from leasehold.core.model.queue_config import QueueInfo, QueueRule
from leasehold.core.model.status import WAITING, Status
from leasehold.core.model.stored import micros
from leasehold.core.rules import rebalancing
from leasehold.env import from_micros
from leasehold.stores.tables import rebalance
from leasehold.stores.tables.job_states import Ending, TableHistories
from leasehold.stores.tables.queues import TableQueues
from leasehold.stores.tables.rebalance import TablePasses
from leasehold.stores.tables.step import TableStep

KEEP_RULE: Final = """
    INSERT INTO queue (name, state, config, created_at, created_by, changed_at, changed_by)
    VALUES ($1, $2, $3, $4, $5, $6, $7)
    ON CONFLICT (name) DO UPDATE SET state = excluded.state, config = excluded.config,
        changed_at = excluded.changed_at, changed_by = excluded.changed_by
"""
FORGET_RULE: Final = "DELETE FROM queue WHERE name = $1"
FORGET_BUCKETS: Final = "DELETE FROM bucket WHERE queue = $1"
KNOWN: Final = "SELECT 1 FROM lane WHERE queue = $1 LIMIT 1"
LEFT: Final = """
    SELECT CAST(coalesce(sum(scheduled + blocked + pending + failed), 0) AS bigint),
           CAST(coalesce(sum(running), 0) AS bigint)
    FROM lane WHERE queue = $1
"""
STILL_PENDING: Final = """
    SELECT 1 FROM lane JOIN ready ON ready.lane = lane.id WHERE queue = $1
    UNION ALL
    SELECT 1 FROM key_lane JOIN ready ON ready.lane = -key_lane.id WHERE queue = $1 LIMIT 1
"""


class TableQueueBook:
    """See `leasehold.core.rules.queue_orders.QueueBook`; jobs go by their numbers."""

    note_deleted: ClassVar[str]
    """Notes of the lanes of a queue how many jobs were submitted by now."""
    note_purged: ClassVar[str]
    """For `many`: lets an ended job be told to who waits for it, and erased then."""
    queues: ClassVar[type[TableQueues]]
    histories: ClassVar[type[TableHistories]]

    def __init__(self, step: Any) -> None:
        self._step: TableStep = step

    @property
    def now(self) -> datetime:
        return from_micros(self._step.now)

    def rule_of(self, queue: str) -> QueueRule | None:
        return self._step.rules.get(queue)

    def has_held_jobs(self, queue: str) -> bool:
        return self._step.execute(KNOWN, (queue,)).fetchone() is not None

    def set_rule(self, queue: str, rule: QueueRule) -> None:
        step = self._step
        before = step.rules.get(queue) or QueueRule()
        if rule.config.scoring != before.config.scoring:
            rebalancing.rescore(TablePasses(self._step, self.histories.ready), queue)
        state = rule.state.value
        if rule.deleted_by is not None:
            state += DELETED_BY + rule.deleted_by
        config = msgspec.json.encode(rule.config).decode()
        signed = micros(rule.created_at), rule.created_by, micros(rule.changed_at), rule.changed_by
        step.execute(KEEP_RULE, (queue, state, config, *signed))
        step.rules_changed()
        limits = before.config.key_limits, rule.config.key_limits
        rebalancing.limits_changed(TablePasses(self._step, self.histories.ready), queue, *limits)
        step.hints.ready = True

    def forget_rule(self, queue: str) -> None:
        step = self._step
        step.execute(FORGET_RULE, (queue,))
        step.flush()
        step.execute(self.note_deleted, (queue,))
        step.execute(FORGET_BUCKETS, (queue,))
        rebalance.forget(step, queue)
        step.rules_changed()
        step.hints.ready = True

    def jobs_left(self, queue: str) -> tuple[int, int]:
        self._step.flush()
        waiting, running = self._step.execute(LEFT, (queue,)).fetchone()
        return waiting, running

    def has_pending(self, queue: str) -> bool:
        return self._step.execute(STILL_PENDING, (queue,)).fetchone() is not None

    def end_waiting(self, jobs: Sequence[int], after: Status, reason: str) -> list[int]:
        # They were found by a reader: some may have been leased, or ended, since.
        histories = self.histories(self._step)
        states = histories.standing_by_number(jobs)
        still = [seq for seq in jobs if seq in states and states[seq].status in WAITING]
        histories.end([Ending(states[seq], after, reason) for seq in still])
        return still

    def dependents(self, jobs: Sequence[int]) -> Mapping[int, int]:
        if not self._step.somebody_waits:
            return {}
        dialect = self.histories.dialect
        needed = dialect.among("needs", "$1")
        counted = f"SELECT needs, count(*) FROM blocker WHERE {needed} GROUP BY needs"  # noqa: S608  # our own names
        return dict(self._step.execute(counted, (dialect.listed(jobs),)).fetchall())

    def erase(self, jobs: Collection[int]) -> None:
        self.histories(self._step).erase_all(list(jobs))

    def erase_when_told(self, jobs: Collection[int]) -> None:
        if jobs:
            self._step.many(self.note_purged, [(seq,) for seq in jobs])
            self._step.some_unresolved = True

    def audit(self, actor: str, action: str, count: int, detail: dict[str, Any]) -> None:
        self._step.audit(actor, action, count, detail)

    def info(self, queue: str) -> QueueInfo:
        """The queue as this write leaves it."""
        self._step.flush()
        [found] = self.queues(self._step.db, self._step.now).infos(queue)
        return found
