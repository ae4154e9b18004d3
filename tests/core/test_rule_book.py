"""Which rules of queues a store must look at, and how they are read back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from leasehold.core.model.codes import DELETED_BY
from leasehold.core.model.queue_config import QueueConfig, QueueRule, QueueState
from leasehold.core.rules.rule_book import RuleBook
from leasehold.core.rules.stored_rules import rule_from


@pytest.mark.parametrize(
    ("rules", "kinds"),
    [
        ({}, set()),
        ({"rate_per_second": 5}, {"rated"}),
        ({"client_rate_per_second": 5}, {"rated"}),
        ({"starts_per_second": 5}, {"paced"}),
        ({"key_starts_per_second": 5}, {"paced", "key_limits"}),
        ({"key_concurrency": 5}, {"key_limits"}),
        ({"max_priority": 5}, {"capped"}),
    ],
)
def test_a_queue_is_looked_at_for_each_kind_of_rule(rules: dict[str, Any], kinds: set[str]) -> None:
    book = RuleBook(
        {
            "ruled": QueueRule(QueueState.ACTIVE, QueueConfig(**rules)),
            "plain": QueueRule(QueueState.ACTIVE, QueueConfig()),
        }
    )
    found = {"rated": book.rated, "paced": book.paced, "capped": book.capped}
    for kind, queues in {**found, "key_limits": set(book.key_limits)}.items():
        assert set(queues) == ({"ruled"} if kind in kinds else set()), kind


def test_a_rule_says_who_deletes_its_queue() -> None:
    config = msgspec.json.encode(QueueConfig(max_depth=7)).decode()
    deleted = rule_from(f"{QueueState.PAUSED}{DELETED_BY}ann", config)
    assert (deleted.state, deleted.deleted_by) == (QueueState.PAUSED, "ann")
    assert deleted.config.max_depth == 7
    assert rule_from(str(QueueState.PAUSED), config).deleted_by is None
