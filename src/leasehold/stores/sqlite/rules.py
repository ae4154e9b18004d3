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


class Known(dict[str, Rule]):
    """The rules by queue."""

    def __init__(self, rules: Mapping[str, Rule] = {}) -> None:
        super().__init__(rules)
        self.key_limits: Mapping[str, int] = {
            queue: rule.config.key_concurrency
            for queue, rule in rules.items()
            if rule.config.key_concurrency is not None
        }
        """The queues that limit how many jobs of one key run at once, with that limit."""


class Rules:
    """Remembers the rules under the generation at which they were read."""

    def __init__(self) -> None:
        self._generation = 0
        # Before the first change there is nothing to read.
        self._known = Known()

    def at(self, db: apsw.Connection, generation: int) -> Known:
        """The rules by queue. `generation` must be committed: one that is not may come to nothing
        and then be used again for other rules.
        """
        if generation != self._generation:
            self._known = load(db)
            self._generation = generation
        return self._known


def load(db: apsw.Connection) -> Known:
    """The rules as they are now, inside this write or read."""
    return Known(
        {
            str(name): Rule(QueueState(state), _decode(config))
            for name, state, config in db.execute(LOAD)
        }
    )
