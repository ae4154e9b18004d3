"""Lanes and buckets in the words of this database; see `tables.gate`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Final

import apsw

from leasehold.stores.tables.gate import LaneName, TableLaneNumbers, TableStartBook

if TYPE_CHECKING:
    from leasehold.stores.sqlite.writing.step import Step

KEEP_BUCKET: Final = "INSERT OR REPLACE INTO bucket VALUES (?, ?, ?)"
FIND: Final = "SELECT id FROM lane WHERE queue = ? AND task = ?"
MAKE: Final = """
    INSERT INTO lane (queue, task, made_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING
"""
QUEUES: Final = """
    SELECT CAST(queue AS BLOB) FROM lane UNION SELECT CAST(name AS BLOB) FROM queue ORDER BY 1
"""


class StartBook(TableStartBook):
    """See `leasehold.core.rules.starting.StartBook`."""

    __slots__ = ()
    _db: apsw.Connection

    def _keep(self, buckets: Sequence[tuple[str, str, int]]) -> None:
        self._db.executemany(KEEP_BUCKET, buckets)


class LaneNumbers(TableLaneNumbers):
    """Remembers lane numbers."""

    def _find(self, step: Step, names: Collection[LaneName]) -> dict[LaneName, int]:
        found = ((name, step.execute(FIND, name).fetchone()) for name in names)
        return {name: int(row[0]) for name, row in found if row is not None}

    def _make(self, step: Step, names: Collection[LaneName]) -> dict[LaneName, int]:
        made = {}
        for name in names:
            step.execute(MAKE, (*name, step.now))
            made[name] = step.db.last_insert_rowid()
        return made


def queues(db: apsw.Connection) -> list[str]:
    """Every queue that has jobs or rules, or had."""
    names: Any = db.execute(QUEUES)
    return [name.decode(errors="replace") for (name,) in names]
