"""The state of queues that the gate of a submit reads and keeps; `core.rules.gate` decides.

Guard: depth and buckets are read, and written down, in the write that stores the jobs, so no other
process comes in between. Only the buckets of queues and clients may be elsewhere
(`writing.loans`): tokens for the whole call are taken there before the gate decides.

Lanes: one per queue and task, known by number.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from leasehold.core.model.budget import FORGOTTEN_AT_ONCE
from leasehold.core.model.drain import Drain
from leasehold.core.model.job import Draft
from leasehold.core.model.queue_config import QueueRule
from leasehold.core.rules.admission import QUEUE_BUCKET, client_bucket, loose_rate
from leasehold.core.rules.gate import QueueFill
from leasehold.stores.postgres.server.connection import SqlConnection, unnested

if TYPE_CHECKING:
    from leasehold.stores.postgres.writing.step import Step


# Only the UNIQUE (queue, task) index and the queue's few lanes are read, never its jobs.
FILLED: Final = """
    SELECT coalesce(sum(pending), 0)::bigint,
           coalesce(sum(total_completed + total_dead + total_cancelled), 0)::bigint
    FROM lane WHERE queue = $1
"""
DRAIN: Final = "SELECT older_at, older_ended, newer_at, newer_ended FROM queue WHERE name = $1"
KEEP_DRAIN: Final = """
    UPDATE queue SET older_at = $1, older_ended = $2, newer_at = $3, newer_ended = $4
    WHERE name = $5
"""
FULL_AT: Final = "SELECT full_at FROM bucket WHERE queue = $1 AND name = $2"
KEEP_BUCKETS: Final = f"""
    INSERT INTO bucket SELECT * FROM {unnested("text text bigint")}
    ON CONFLICT (queue, name) DO UPDATE SET full_at = excluded.full_at
"""  # noqa: S608  # our own names
FORGET_FULL_BUCKETS: Final = f"""
    DELETE FROM bucket WHERE (queue, name) IN (
        SELECT queue, name FROM bucket WHERE full_at <= $1 ORDER BY full_at
        LIMIT {FORGOTTEN_AT_ONCE})
"""  # noqa: S608  # our own number


class StartBook:
    """See `leasehold.core.rules.starting.StartBook`."""

    __slots__ = ("_db", "now")

    def __init__(self, db: SqlConnection, now: int) -> None:
        self._db = db
        self.now = now

    def full_at(self, queue: str, bucket: str) -> int:
        row: Any = self._db.execute(FULL_AT, (queue, bucket)).fetchone()
        return 0 if row is None else row[0]

    def keep_buckets(self, queue: str, buckets: Mapping[str, int]) -> None:
        self._db.execute(FORGET_FULL_BUCKETS, (self.now * 1000,))
        self._db.many(KEEP_BUCKETS, [(queue, name, full_at) for name, full_at in buckets.items()])


class GateBook(StartBook):
    """See `leasehold.core.rules.gate.GateBook`."""

    __slots__ = ("_drafts", "_partial", "step")

    def __init__(self, step: Step, drafts: Sequence[Draft], *, partial: bool) -> None:
        """The drafts are all that this call may let in."""
        super().__init__(step.db, step.now)
        self.step = step
        self._drafts = drafts
        self._partial = partial

    def full_at(self, queue: str, bucket: str) -> int:
        elsewhere = self._full_at_elsewhere(queue, bucket)
        if elsewhere is not None:
            return elsewhere
        # Here a rate is exact: no other write may count at the same time.
        self.step.must_be_alone()
        return super().full_at(queue, bucket)

    def _full_at_elsewhere(self, queue: str, bucket: str) -> int | None:
        rule = self.rule_of(queue)
        rate = None if rule is None else loose_rate(rule.config, bucket)
        if rate is None or not self.step.loans.are_to_be_had:
            return None
        jobs = sum(
            draft.queue == queue and bucket in (QUEUE_BUCKET, client_bucket(draft.client))
            for draft in self._drafts
        )
        least = 1 if self._partial else jobs
        return self.step.loans.take((queue, bucket), rate, jobs, least, self.now)

    def keep_buckets(self, queue: str, buckets: Mapping[str, int]) -> None:
        here = {
            name: full_at
            for name, full_at in buckets.items()
            if not self.step.loans.use((queue, name), full_at)
        }
        if here:
            super().keep_buckets(queue, here)

    def rule_of(self, queue: str) -> QueueRule | None:
        return self.step.rules.get(queue)

    def fill_of(self, queue: str) -> QueueFill:
        # This write may have made jobs pending before, and the lanes must say so.
        self.step.write_counters()
        pending, ended = self._row(FILLED, queue)
        drain = self._row(DRAIN, queue)
        # None before the first look.
        return QueueFill(pending, ended, None if None in drain else Drain(*drain))

    def _row(self, statement: str, queue: str) -> Any:
        return self.step.execute(statement, (queue,)).fetchone()

    def keep_drain(self, queue: str, drain: Drain) -> None:
        self.step.execute(
            KEEP_DRAIN,
            (drain.older_at, drain.older_ended, drain.newer_at, drain.newer_ended, queue),
        )


FIND: Final = f"""
    SELECT lane.queue, lane.task, id FROM {unnested("text text")} AS wanted (queue, task)
        JOIN lane ON lane.queue = wanted.queue AND lane.task = wanted.task
"""  # noqa: S608  # our own names
MAKE: Final = f"""
    INSERT INTO lane (queue, task, made_at) SELECT * FROM {unnested("text text bigint")}
    RETURNING queue, task, id
"""  # noqa: S608  # our own names


QUEUES: Final = "SELECT queue FROM lane UNION SELECT name FROM queue ORDER BY 1"


LaneName = tuple[str, str]
"""Queue and task."""


class LaneNumbers:
    """Remembers lane numbers, which never change once they are committed on a server that lasts."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], int] = {}

    def forget(self) -> None:
        """Committed rows may be lost."""
        self._known = {}

    def numbers(self, step: Step, wanted: Collection[LaneName]) -> Mapping[LaneName, int]:
        """The numbers of lanes; missing ones are made."""
        known = self._known
        if all(name in known for name in wanted):
            return known
        names = set(wanted)
        found = {(queue, task): id_ for queue, task, id_ in step.many(FIND, list(names)) or ()}
        # One made in this very write is not remembered yet: it may still be rolled back.
        known.update({name: id_ for name, id_ in found.items() if name not in step.new_lanes})
        missing = [name for name in names if name not in found]
        if missing:
            step.must_be_alone()
            made = step.many(MAKE, [(*name, step.now) for name in missing]) or ()
            found |= {(queue, task): id_ for queue, task, id_ in made}
            step.new_lanes.update(missing)
        return found


def queues(db: SqlConnection) -> list[str]:
    """Every queue that has jobs or rules, or had."""
    return [str(name) for (name,) in db.execute(QUEUES)]
