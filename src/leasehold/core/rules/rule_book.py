"""The rules of all queues that have any, indexed by what they limit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Final

import msgspec

from leasehold.core.model.key_limits import KeyLimits
from leasehold.core.model.queue_config import DEFAULT_CONFIG, QueueRule, QueueState

_ABOUT_NO_OTHER_JOB: Final = {
    name: getattr(DEFAULT_CONFIG, name)
    for name in (
        "rate_per_second",
        "client_rate_per_second",
        "lease_seconds",
        "max_retries",
        "retry",
        "retention",
    )
}
"""Rules that do not relate a job to other jobs of the queue, with their defaults."""


class RuleBook(dict[str, QueueRule]):
    """The rules by queue."""

    def __init__(self, rules: Mapping[str, QueueRule] = {}) -> None:
        super().__init__(rules)
        self.key_limits: Mapping[str, KeyLimits] = {
            queue: rule.config.key_limits
            for queue, rule in rules.items()
            if rule.config.key_limits is not None
        }
        """The queues that limit how many jobs of one key run or start, with the limits."""
        self.paced: Collection[str] = {
            queue
            for queue, rule in rules.items()
            if rule.config.start_rate is not None or rule.config.key_start_rate is not None
        }
        """The queues whose jobs, or some of them, have a start rate."""
        self.capped: Collection[str] = {
            queue for queue, rule in rules.items() if rule.config.max_priority is not None
        }
        """The queues in which even a new job may not stand where its own priority would put it."""

        self.rated: frozenset[str] = frozenset(
            queue
            for queue, rule in rules.items()
            if rule.config.rate_per_second is not None
            or rule.config.client_rate_per_second is not None
        )
        """The queues that limit how fast jobs arrive, in total or from each client."""

    def are_light(self, queues: Iterable[str]) -> bool:
        """Whether jobs of these queues are leased regardless of other jobs, and accepted unless
        they come too fast.
        """
        return all(queue not in self or queue in self._light for queue in queues)

    @cached_property
    def _light(self) -> Collection[str]:
        return {queue for queue, rule in self.items() if _is_light(rule)}

    def problems(self) -> Iterator[str]:
        """The queues whose rules cannot be read, as sentences."""
        for queue, rule in self.items():
            if rule.problem is not None:
                yield (
                    f"the rules of queue {queue!r} cannot be read: {rule.problem}; nothing is "
                    "leased or accepted there until they are set again, or this process is upgraded"
                )


def _is_light(rule: QueueRule) -> bool:
    others = msgspec.structs.replace(rule.config, **_ABOUT_NO_OTHER_JOB)
    return rule.state is QueueState.ACTIVE and rule.problem is None and others == DEFAULT_CONFIG
