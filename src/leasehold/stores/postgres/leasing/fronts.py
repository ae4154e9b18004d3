"""What one process asks of an accelerator's index of pending jobs, and tells it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Final

from leasehold.core.contract.accelerator import Accelerator, LaneFront, ReadyIndex, Spot
from leasehold.stores.tables.step import Hints

SPOTS_KEPT: Final = 100_000
"""How many spots of a lane are kept: its hot part."""
SPOTS_WANTED: Final = SPOTS_KEPT // 2
"""A lane of which fewer spots are known, but not all, is filled again soon."""


class Fronts:
    """What this process asks of the accelerator's index, and tells it."""

    def __init__(self, accelerator: Accelerator | None) -> None:
        self._accelerator = accelerator
        self.era: int | None = None
        """The base of lease versions, as the latest write found it: it is another one after each
        start of the server, and in each copy of the store. None before the first write.
        """
        self.leased_from: set[int] = set()
        """The lanes that leases of this process have read as always, for the keeper."""
        self.is_short = threading.Event()
        """Set when a lane should be filled again soon."""
        self.is_over = threading.Event()
        """Set when the store is closed."""

    @property
    def index(self) -> ReadyIndex | None:
        """The index, while the accelerator answers."""
        if self._accelerator is None or self.era is None or not self._accelerator.is_up:
            return None
        return self._accelerator.ready_index(self.era)

    def of(self, lanes: Sequence[int], limit: int) -> Mapping[int, LaneFront]:
        """The fronts of those lanes that the accelerator knows now."""
        index = self.index
        if index is None or not lanes:
            return {}
        fronts = index.fronts(lanes, limit)
        if len(fronts) < len(lanes):
            self.is_short.set()
        return {lane: front for lane, front in fronts.items() if self._is_of_use(front)}

    def _is_of_use(self, front: LaneFront) -> bool:
        if front.end is None:
            return True
        if front.known < SPOTS_WANTED:
            self.is_short.set()
        return bool(front.spots)

    def after(self, lane: int, spot: Spot, before: Spot | None, limit: int) -> LaneFront | None:
        """The next spots of a lane."""
        index = self.index
        return None if index is None else index.spots(lane, spot, before, limit)

    def tell(self, hints: Hints) -> bool:
        """Tell the index of a commit, before anybody is woken by it. Returns False if it does not
        know of jobs that have become pending.
        """
        if not (hints.entered or hints.left):
            return True
        index = self.index
        is_told = index is not None and index.change(hints.entered, hints.left)
        return is_told or not hints.entered
