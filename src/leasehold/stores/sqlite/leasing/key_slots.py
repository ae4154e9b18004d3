"""How many jobs of each key one lease may take, in queues that limit it.

Guard: what runs of a key is read in the write that leases, and counted there, so a limit holds
under any race.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from functools import partial
from typing import Any, Final

from leasehold.core.budget import TURNED_AWAY_AT_ONCE
from leasehold.stores.sqlite.leasing import parking
from leasehold.stores.sqlite.leasing.order import Row
from leasehold.stores.sqlite.writing.step import Step

# The accounts that have parked jobs of a group: one seek for each of them.
PARKED_IN_GROUP: Final = """
    WITH RECURSIVE parked (lane) AS (
        SELECT min(lane) FROM ready INDEXED BY ready_by_parent WHERE parent_id = ?1 AND lane < 0
        UNION ALL
        SELECT (SELECT min(lane) FROM ready INDEXED BY ready_by_parent
                WHERE parent_id = ?1 AND lane > parked.lane AND lane < 0)
        FROM parked WHERE parked.lane IS NOT NULL
    )
    SELECT parked.lane, key_lane.queue, key_lane.key, key_lane.lane
    FROM parked CROSS JOIN key_lane ON key_lane.id = -parked.lane
"""

KEY: Final = 21
"""The position of the key in a row that a lease reads."""


class KeySlots:
    """What one lease may still take of each key, and whom it had to turn away."""

    __slots__ = ("_free", "_limits", "_step", "_turned_away")

    def __init__(self, step: Step) -> None:
        self._step = step
        self._limits = step.rules.key_limits
        self._free: dict[tuple[str, str], int] = {}
        self._turned_away: list[Row] = []

    def take(self, queue: str, row: Row) -> bool:
        """Take a slot for a job, if its key has one left."""
        if queue not in self._limits:
            return True
        free = self.left(queue, row[KEY])
        if free:
            self._free[queue, row[KEY]] = free - 1
            return True
        self._turned_away.append(row)
        return False

    def left(self, queue: str, key: str) -> int:
        """How many jobs more of a key may be leased."""
        free = self._free.get((queue, key))
        if free is None:
            free = self._free[queue, key] = parking.free_of(self._step, queue, key)
        return free

    @property
    def turned_too_many_away(self) -> bool:
        """Whether to leave it at that, for now: the next lease goes on behind those it parked."""
        return len(self._turned_away) >= TURNED_AWAY_AT_ONCE

    def park_the_rest(self) -> None:
        """Nobody else is to meet those that were turned away. Call it once the leases stand."""
        for tier, turn, seq, lane, *_ in self._turned_away:
            parking.park(self._step, lane, tier, turn, seq)

    def lanes_of_group(
        self, parent_id: str, lanes: Container[int]
    ) -> Iterator[tuple[int, int, str, Callable[[], int]]]:
        """Where to look for jobs of a group that are parked behind others of their key.

        Those others need not be of the group. Answers the lane number, that of the lane they
        belong to, the queue, and what says how many jobs more of that key may be leased.
        """
        if not self._limits:
            return
        rows: list[Any] = self._step.execute(PARKED_IN_GROUP, (parent_id,)).fetchall()
        for number, queue, key, lane in rows:
            if lane in lanes and self.left(queue, key):
                yield number, lane, queue, partial(self.left, queue, key)
