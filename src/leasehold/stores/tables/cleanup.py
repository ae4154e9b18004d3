"""The records of clean-ups, each of which is also what its clean-up remembers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from leasehold.core.model.queue_config import QueueRule
from leasehold.core.model.queue_retention import QueueRetention
from leasehold.core.model.retention import CLEANUP_RECORDS_MAX, COUNTED, CleanUp, CleanUpMode
from leasehold.core.rules.cleanup_store import Bookmark, CleanUpProgress, Phase
from leasehold.env import from_micros, to_micros
from leasehold.stores.tables.statements import SqlConnection

_COLUMNS: Final = (
    "run", "mode", "actor", "started_at", "active_at", "ended_at", *COUNTED, "writes",
    "lock_micros", "phase", "ended_up_to", "seq_up_to", "bound",
)  # fmt: skip
_NAMES: Final = ", ".join(_COLUMNS)
ONE: Final = f"SELECT {_NAMES} FROM cleanup WHERE run = $1"  # noqa: S608  # our own names
LATEST: Final = f"SELECT {_NAMES} FROM cleanup ORDER BY run DESC LIMIT $1"  # noqa: S608  # as above
_VALUES: Final = ", ".join(f"${n}" for n in range(1, len(_COLUMNS) + 1))
_CHANGES: Final = ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS[1:])
SAVE: Final = f"""
    INSERT INTO cleanup ({_NAMES}) VALUES ({_VALUES}) ON CONFLICT (run) DO UPDATE SET {_CHANGES}
"""  # noqa: S608  # our own names
FORGET: Final = "DELETE FROM cleanup WHERE run <= $1"


def latest(db: SqlConnection, limit: int) -> Iterator[CleanUp]:
    """The latest records, newest first."""
    return (_progress(row).record for row in db.execute(LATEST, (limit,)))


def progress_of(db: SqlConnection, run: int) -> CleanUpProgress | None:
    """How a clean-up stands."""
    row = db.execute(ONE, (run,)).fetchone()
    return None if row is None else _progress(row)


def save(db: SqlConnection, progress: CleanUpProgress) -> None:
    """Write down how a clean-up stands, and forget the oldest records."""
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


def own_retentions(rules: Mapping[str, QueueRule]) -> dict[str, QueueRetention]:
    """The queues that have a retention of their own."""
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
