"""The rules of all queues that have any, and which of them limit what."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from leasehold.core.model.key_limits import KeyLimits
from leasehold.core.model.queue_config import QueueRule


class RuleBook(dict[str, QueueRule]):
    """The rules by queue."""

    def __init__(self, rules: Mapping[str, QueueRule] = {}) -> None:
        super().__init__(rules)
        self.key_limits: Mapping[str, KeyLimits] = {
            queue: rule.config.key_limits
            for queue, rule in rules.items()
            if rule.config.key_limits is not None
        }
        """The queues that limit how many jobs of one key run or start, with those limits."""
        self.paced: Collection[str] = {
            queue
            for queue, rule in rules.items()
            if rule.config.start_rate is not None or rule.config.key_start_rate is not None
        }
        """The queues whose jobs, or some of them, have a start rate."""
        self.capped: Collection[str] = {
            queue for queue, rule in rules.items() if rule.config.max_priority is not None
        }
        """The queues in which even a new job may not stand where its own priority says."""

    def problems(self) -> Iterator[str]:
        """The queues whose rules cannot be read, as sentences."""
        for queue, rule in self.items():
            if rule.problem is not None:
                yield (
                    f"the rules of queue {queue!r} cannot be read: {rule.problem}; nothing is "
                    "leased or accepted there until they are set again, or this process is upgraded"
                )
