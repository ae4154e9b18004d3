"""Lanes: one per queue and task, known by number."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from leasehold.stores.postgres.server.connection import SqlConnection, unnested
from leasehold.stores.postgres.writing.step import Step
from leasehold.stores.tables.lanes import stats_from

FIND: Final = f"""
    SELECT lane.queue, lane.task, id FROM {unnested("text text")} AS wanted (queue, task)
        JOIN lane ON lane.queue = wanted.queue AND lane.task = wanted.task
"""  # noqa: S608  # our own names
MAKE: Final = f"""
    INSERT INTO lane (queue, task, made_at) SELECT * FROM {unnested("text text bigint")}
    RETURNING queue, task, id
"""  # noqa: S608  # our own names

STATS: Final = stats_from("lane_now")


QUEUES: Final = "SELECT queue FROM lane UNION SELECT name FROM queue ORDER BY 1"


LaneName = tuple[str, str]
"""Queue and task."""


class LaneNumbers:
    """Remembers lane numbers, which never change once they are committed on a server that lasts."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], int] = {}

    def forget(self) -> None:
        """What was committed may be lost."""
        self._known = {}

    def numbers(self, step: Step, wanted: Collection[LaneName]) -> Mapping[LaneName, int]:
        """The numbers of lanes; those that are not there are made."""
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
