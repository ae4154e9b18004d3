"""Lanes and buckets in the words of this database; see `tables.gate`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

from leasehold.stores.postgres.server.connection import SqlConnection, unnested
from leasehold.stores.tables.gate import LaneName, TableLaneNumbers, TableStartBook

if TYPE_CHECKING:
    from leasehold.stores.postgres.writing.step import Step

KEEP_BUCKETS: Final = f"""
    INSERT INTO bucket SELECT * FROM {unnested("text text bigint")}
    ON CONFLICT (queue, name) DO UPDATE SET full_at = excluded.full_at
"""  # noqa: S608  # our own names
FIND: Final = f"""
    SELECT lane.queue, lane.task, id FROM {unnested("text text")} AS wanted (queue, task)
        JOIN lane ON lane.queue = wanted.queue AND lane.task = wanted.task
"""  # noqa: S608  # our own names
MAKE: Final = f"""
    INSERT INTO lane (queue, task, made_at) SELECT * FROM {unnested("text text bigint")}
    RETURNING queue, task, id
"""  # noqa: S608  # our own names
QUEUES: Final = "SELECT queue FROM lane UNION SELECT name FROM queue ORDER BY 1"


class StartBook(TableStartBook):
    """See `leasehold.core.rules.starting.StartBook`."""

    __slots__ = ()
    _db: SqlConnection

    def _keep(self, buckets: Sequence[tuple[str, str, int]]) -> None:
        self._db.many(KEEP_BUCKETS, buckets)


class LaneNumbers(TableLaneNumbers):
    """Remembers lane numbers, while the server lasts."""

    def _find(self, step: Step, names: Collection[LaneName]) -> dict[LaneName, int]:
        found = step.many(FIND, list(names)) or ()
        return {(queue, task): number for queue, task, number in found}

    def _make(self, step: Step, names: Collection[LaneName]) -> dict[LaneName, int]:
        made = step.many(MAKE, [(*name, step.now) for name in names]) or ()
        return {(queue, task): number for queue, task, number in made}


def queues(db: SqlConnection) -> list[str]:
    """Every queue that has jobs or rules, or had."""
    return [str(name) for (name,) in db.execute(QUEUES)]
