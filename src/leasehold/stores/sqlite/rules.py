"""The rules of queues as a write needs them: read again only when somebody changed them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import apsw
import msgspec

from leasehold.core.queue_config import QueueConfig, QueueState

LOAD: Final = "SELECT name, state, config FROM queue"

_decode = msgspec.json.Decoder(QueueConfig).decode


class Rule(NamedTuple):
    """What a queue lets happen, and its limits."""

    state: QueueState
    config: QueueConfig


class Rules:
    """Remembers the rules under the generation at which they were read."""

    def __init__(self) -> None:
        self._generation = 0
        # Before the first change there is nothing to read.
        self._known: Mapping[str, Rule] = {}

    def at(self, db: apsw.Connection, generation: int) -> Mapping[str, Rule]:
        """The rules by queue. `generation` must be committed: one that is not may come to nothing
        and then be used again for other rules.
        """
        if generation != self._generation:
            self._known = load(db)
            self._generation = generation
        return self._known


def load(db: apsw.Connection) -> Mapping[str, Rule]:
    """The rules as they are now, inside this write or read."""
    return {
        str(name): Rule(QueueState(state), _decode(config))
        for name, state, config in db.execute(LOAD)
    }
