"""The reading part of clean-ups: their records, and the rows for the next write to remove.

A clean-up's record also holds its progress. `tables.removing` has the writes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import cached_property
from typing import Any, ClassVar, Final

from leasehold.core.model.queue_config import QueueRule
from leasehold.core.model.queue_retention import QueueRetention
from leasehold.core.model.retention import (
    CLEANUP_RECORDS_MAX,
    COUNTED,
    CleanUp,
    CleanUpMode,
    Scope,
)
from leasehold.core.model.status import Status
from leasehold.core.model.stored import MOMENT_MAX
from leasehold.core.rules.cleanup_store import (
    Bookmark,
    CleanUpBatch,
    CleanUpProgress,
    Cutoffs,
    OldestAudits,
    Phase,
)
from leasehold.core.rules.rule_book import RuleBook
from leasehold.env import from_micros, to_micros
from leasehold.stores.tables.figures import stats
from leasehold.stores.tables.statements import SqlConnection, SqlCursor

_COLUMNS: Final = (
    "run", "mode", "actor", "started_at", "active_at", "ended_at", *COUNTED, "writes",
    "lock_micros", "phase", "ended_up_to", "seq_up_to", "bound",
)  # fmt: skip
_NAMES: Final = ", ".join(_COLUMNS)
ONE: Final = f"SELECT {_NAMES} FROM cleanup WHERE run = $1"
LATEST: Final = f"SELECT {_NAMES} FROM cleanup ORDER BY run DESC LIMIT $1"
_VALUES: Final = ", ".join(f"${n}" for n in range(1, len(_COLUMNS) + 1))
_CHANGES: Final = ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS[1:])
SAVE: Final = f"""
    INSERT INTO cleanup ({_NAMES}) VALUES ({_VALUES}) ON CONFLICT (run) DO UPDATE SET {_CHANGES}
"""
FORGET: Final = "DELETE FROM cleanup WHERE run <= $1"


def latest_cleanups(db: SqlConnection, limit: int) -> Iterator[CleanUp]:
    """The latest records, newest first."""
    return (_progress(row).record for row in db.execute(LATEST, (limit,)))


def progress_of(db: SqlConnection, run: int) -> CleanUpProgress | None:
    """The state of a clean-up."""
    row = db.execute(ONE, (run,)).fetchone()
    return None if row is None else _progress(row)


def save_progress(db: SqlConnection, progress: CleanUpProgress) -> None:
    """Save the state of a clean-up, and forget the oldest records."""
    record = progress.record
    values = {
        "run": record.run,
        "mode": str(record.mode.value),
        "actor": record.actor,
        "started_at": to_micros(record.started_at),
        "active_at": to_micros(record.active_at),
        "ended_at": None if record.ended_at is None else to_micros(record.ended_at),
        **{name: getattr(record, name) for name in COUNTED},
        "writes": record.writes,
        "lock_micros": round(record.lock_seconds * 1e6),
        "phase": int(progress.phase),
        "ended_up_to": progress.bookmark.major,
        "seq_up_to": progress.bookmark.minor,
        "bound": progress.bookmark.bound,
    }
    db.execute(SAVE, [values[name] for name in _COLUMNS])
    db.execute(FORGET, (record.run - CLEANUP_RECORDS_MAX,))


def retentions_of(rules: Mapping[str, QueueRule]) -> dict[str, QueueRetention]:
    """The queues with their own retention."""
    return {
        queue: rule.config.retention
        for queue, rule in rules.items()
        if rule.config.retention is not None
    }


def _progress(row: tuple[Any, ...]) -> CleanUpProgress:
    value = dict(zip(_COLUMNS, row, strict=True))
    ended_at = value["ended_at"]
    record = CleanUp(
        run=value["run"],
        mode=CleanUpMode(value["mode"]),
        actor=value["actor"],
        started_at=from_micros(value["started_at"]),
        active_at=from_micros(value["active_at"]),
        ended_at=None if ended_at is None else from_micros(ended_at),
        writes=value["writes"],
        lock_seconds=value["lock_micros"] / 1e6,
        **{name: value[name] for name in COUNTED},
    )
    bookmark = Bookmark(value["ended_up_to"], value["seq_up_to"], value["bound"])
    return CleanUpProgress(record, Phase(value["phase"]), bookmark)


WALKED_AT_ONCE: Final = 20_000
"""Rows per read: a long one would keep SQLite's write-ahead log from being checkpointed."""
WALKED_PER_CALL: Final = 10 * WALKED_AT_ONCE
OLD_KEYS: Final = "SELECT seq FROM pruned_key WHERE expires_at <= $1 LIMIT $2"
ALL: Final = Cutoffs(MOMENT_MAX, {})
"""For phases that do not depend on the age of the job."""


class TableLook(ABC):
    """The reads for core.rules.cleaning; a store supplies the walks along its own indexes.

    Every walk returns where it continues (a time, a job number), the end of the job, which is NULL
    for an unwanted one, and its queue if queues differ.
    """

    load_rules: Callable[[Any], RuleBook]
    stats: ClassVar[str]
    oldest_day: ClassVar[str]
    oldest_audit: ClassVar[str]
    results: ClassVar[str]
    histories: ClassVar[str]
    history_bound: ClassVar[str]
    """The number of the latest job whose history must go, so that this many events are left."""

    def __init__(self, db: Any, now: int) -> None:
        self._db: SqlConnection = db
        self._now = now
        self.now = from_micros(now)

    @abstractmethod
    def _rows(
        self, statement: str, values: dict[str, Any], after: Bookmark, limit: int
    ) -> SqlCursor:
        """The next rows of a walk."""

    @abstractmethod
    def find_ended(
        self, status: Status, cutoffs: Cutoffs, after: Bookmark, limit: int
    ) -> CleanUpBatch[int]: ...

    @abstractmethod
    def has_rest(self, scope: Scope) -> bool: ...

    @cached_property
    def _own_retentions(self) -> Mapping[str, QueueRetention]:
        return retentions_of(self.load_rules(self._db))

    def own_retentions(self) -> Mapping[str, QueueRetention]:
        return self._own_retentions

    def latest(self) -> CleanUp | None:
        return next(latest_cleanups(self._db, 1), None)

    def progress(self, run: int) -> CleanUpProgress | None:
        return progress_of(self._db, run)

    def oldest_audits(self) -> OldestAudits:
        return OldestAudits(self._oldest("audit"), self._oldest("audit_archive"))

    def _oldest(self, table: str) -> datetime | None:
        row: Any = self._db.execute(self.oldest_audit.format(table)).fetchone()
        return None if row is None else from_micros(row[0])

    def counts(self, queue: str | None) -> Mapping[Status, int]:
        return stats(self._db, self.stats, queue).counts

    def oldest_archived_day(self) -> int | None:
        row: Any = self._db.execute(self.oldest_day).fetchone()
        return None if row is None else row[0]

    def find_results(self, after: Bookmark, limit: int) -> CleanUpBatch[int]:
        return self._walk(self.results, {"now": self._now}, ALL, after, limit)

    def find_histories(self, events_max: int, after: Bookmark, limit: int) -> CleanUpBatch[int]:
        bound = after.bound
        if bound is None:
            row: Any = self._db.execute(self.history_bound, (events_max,)).fetchone()
            bound = 0 if row[0] is None else row[0] + 1
        after = after._replace(bound=bound)
        return self._walk(self.histories, {"bound": bound}, ALL, after, limit)

    def _has_old_keys(self) -> bool:
        return self._db.execute(OLD_KEYS, (self._now, 1)).fetchone() is not None

    def _walk(
        self, statement: str, values: dict[str, Any], cutoffs: Cutoffs, after: Bookmark, limit: int
    ) -> CleanUpBatch[int]:
        """The next wanted jobs, found by reads of bounded length."""
        seqs: list[int] = []
        for _ in range(0, WALKED_PER_CALL, WALKED_AT_ONCE):
            walked = 0
            for major, seq, ended_at, queue in self._rows(statement, values, after, WALKED_AT_ONCE):
                walked += 1
                if ended_at is not None and cutoffs.take(queue, ended_at):
                    seqs.append(seq)
                    if len(seqs) == limit:
                        # Read no further: the next call continues here.
                        return CleanUpBatch(seqs, Bookmark(major, seq, after.bound))
            if walked < WALKED_AT_ONCE:
                return CleanUpBatch(seqs)
            after = Bookmark(major, seq, after.bound)
        return CleanUpBatch(seqs, after)
