"""Rules and orders are kept as plain data, whichever kind of number or text they were made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from leasehold import (
    Breaker,
    CancelAll,
    Constant,
    Cron,
    Delays,
    Every,
    Exponential,
    Linear,
    QueueConfig,
    QueueRetention,
    ReprioritizeAll,
    RetentionPolicy,
)


class Count(int):
    """As numbers of other libraries are."""


class Ratio(float):
    """As numpy.float64 is."""


class Markup(str):
    """As template engines have it."""

    __slots__ = ()


NUMBERS = set(QueueConfig.__struct_fields__) - {"retry", "retention", "fifo_mode"}
MADE: list[Callable[[], msgspec.Struct]] = [
    lambda: Breaker(Count(3), Ratio(60)),
    lambda: CancelAll(Markup("sold out")),
    lambda: Constant(Ratio(1)),
    lambda: Cron(Markup("0 3 * * *"), Markup("UTC")),
    lambda: Delays([Count(1), Ratio(2)]),
    lambda: Every(Ratio(60)),
    lambda: Exponential(Count(1), Ratio(2), Ratio(0), Count(60)),
    lambda: Linear(Count(1), Ratio(2), Count(60)),
    lambda: QueueConfig.of(dict.fromkeys(NUMBERS, Count(3))),
    lambda: QueueConfig(rate_per_second=Ratio(3), aging_factor=Ratio(60)),
    lambda: QueueRetention(completed_seconds=Ratio(60), dead_seconds=Count(60)),
    lambda: ReprioritizeAll(Count(3)),
    lambda: RetentionPolicy(completed_seconds=Ratio(60), history_events_max=Count(60)),
]


@pytest.mark.parametrize("make", MADE, ids=lambda make: type(make()).__name__)
def test_kinds_of_numbers_and_texts_are_stored_as_plain_ones(make: Callable[[], Any]) -> None:
    made = make()
    assert msgspec.json.decode(msgspec.json.encode(made), type=type(made)) == made
