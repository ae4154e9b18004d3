"""Pruning: rules.cleaning decides; here it is given a look at the store, and a way to write.

The records of clean-ups, each of which is also what its clean-up remembers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import apsw

from leasehold.core.model.queue_config import QueueRule
from leasehold.core.model.queue_retention import QueueRetention
from leasehold.core.model.retention import (
    CLEANUP_RECORDS_MAX,
    COUNTED,
    CleanUp,
    CleanUpMode,
    PruneReport,
    RetentionPolicy,
    Scope,
)
from leasehold.core.model.settings import retention_by
from leasehold.core.model.stored import UNREADABLE
from leasehold.core.rules import cleaning
from leasehold.core.rules.cleanup_store import (
    Bookmark,
    CleanedStore,
    CleanUpLook,
    CleanUpWrite,
    Phase,
    Progress,
)
from leasehold.env import from_micros, to_micros
from leasehold.errors import LeaseholdError
from leasehold.stores.sqlite.disk import space
from leasehold.stores.sqlite.keeping.finding import Look
from leasehold.stores.sqlite.keeping.removing import Removal
from leasehold.stores.sqlite.rules import settings
from leasehold.stores.sqlite.writing.database import Database


def prune(
    database: Database,
    policy: RetentionPolicy | None,
    run: int | None,
    scope: Scope,
    limit: int,
    actor: str,
) -> PruneReport:
    """Begin a clean-up, or go on with one."""

    @contextmanager
    def look() -> Iterator[CleanUpLook[int]]:
        with database.read() as db:
            yield Look(db, database.now(db))

    def remove(operation: Callable[[CleanUpWrite[int]], PruneReport]) -> PruneReport:
        return database.write(lambda step: operation(Removal(step)))

    order = cleaning.Order(policy or _policy(database), scope, limit, actor)
    store = CleanedStore(look, remove, database.env.clock.monotonic)
    report = None
    try:
        report = cleaning.prune(store, run, order)
    except UNREADABLE as error:
        # The record of an earlier clean-up, as a rule: who only looks has nobody to mend it.
        if isinstance(error, LeaseholdError) or not database.mend():
            raise
    # Not while the error is handled: its traceback keeps alive what the reader saw.
    report = report or cleaning.prune(store, run, order)
    if run is None and report.run is not None:
        # Damage that no write has met yet is looked for once per clean-up.
        database.mend()
    if run is not None:
        with database.read() as db:
            space.checkpoint(db)
    return report


def _policy(database: Database) -> RetentionPolicy:
    with database.read() as db:
        return retention_by(settings.load(db).values, RetentionPolicy())


_COLUMNS: Final = (
    "run", "mode", "actor", "started_at", "active_at", "ended_at", *COUNTED, "writes",
    "lock_micros", "phase", "ended_up_to", "seq_up_to", "bound",
)  # fmt: skip
_NAMES: Final = ", ".join(_COLUMNS)
ONE: Final = f"SELECT {_NAMES} FROM cleanup WHERE run = ?"  # noqa: S608  # our own names
LATEST: Final = f"SELECT {_NAMES} FROM cleanup ORDER BY run DESC LIMIT ?"  # noqa: S608  # as above
_VALUES: Final = ", ".join(f":{name}" for name in _COLUMNS)
SAVE: Final = f"INSERT OR REPLACE INTO cleanup ({_NAMES}) VALUES ({_VALUES})"  # noqa: S608  # as above
FORGET: Final = "DELETE FROM cleanup WHERE run <= ?"


def latest(db: apsw.Connection, limit: int) -> Iterator[CleanUp]:
    """The latest records, newest first."""
    return (_progress(row).record for row in db.execute(LATEST, (limit,)))


def progress_of(db: apsw.Connection, run: int) -> Progress | None:
    """How a clean-up stands."""
    row = db.execute(ONE, (run,)).fetchone()
    return None if row is None else _progress(row)


def save(db: apsw.Connection, progress: Progress) -> None:
    """Write down how a clean-up stands, and forget the oldest records."""
    record = progress.record
    db.execute(
        SAVE,
        {
            "run": record.run,
            "mode": record.mode,
            "actor": record.actor,
            "started_at": to_micros(record.started_at),
            "active_at": to_micros(record.active_at),
            "ended_at": None if record.ended_at is None else to_micros(record.ended_at),
            **{name: getattr(record, name) for name in COUNTED},
            "writes": record.writes,
            "lock_micros": round(record.lock_seconds * 1e6),
            "phase": progress.phase,
            "ended_up_to": progress.bookmark.major,
            "seq_up_to": progress.bookmark.minor,
            "bound": progress.bookmark.bound,
        },
    )
    db.execute(FORGET, (record.run - CLEANUP_RECORDS_MAX,))


def own_retentions(rules: Mapping[str, QueueRule]) -> dict[str, QueueRetention]:
    """The queues that have a retention of their own."""
    return {
        queue: rule.config.retention
        for queue, rule in rules.items()
        if rule.config.retention is not None
    }


def _progress(row: tuple[Any, ...]) -> Progress:
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
    return Progress(record, Phase(value["phase"]), bookmark)
