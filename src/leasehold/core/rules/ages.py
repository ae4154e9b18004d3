"""How long the oldest pending job had waited, step by step.

The age is stored with the minutes in which anything happened. In the others no job arrived or left,
so it grew by the time that passed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from leasehold.core.model.span import MINUTE_MICROS, Span
from leasehold.core.rules.metrics import MetricsReader
from leasehold.core.rules.sampling import Resolution

UNKNOWN: Final = -1
"""The age in a span whose jobs have waited for an unknown time."""


def age_seconds(span: Span, _seconds: float) -> float | None:
    """The age found by `ages_at_ends`; None if it is unknown."""
    return None if span.oldest_micros == UNKNOWN else span.oldest_micros / 1e6


def ages_at_ends(
    reader: MetricsReader,
    queue: str | None,
    resolution: Resolution,
    first: int,
    spans: Sequence[Span],
) -> list[int]:
    """The age at the end of each of these spans, from a number to now, of a queue or of all."""
    step = resolution.micros
    # Nothing has changed since the latest write.
    changed = reader.open_minute() * MINUTE_MICROS // step
    since = min(reader.available_since(queue).values(), default=None)
    ages: list[int] = []
    age = UNKNOWN
    for number, span in enumerate(spans, start=first):
        if number >= changed:
            end = min(reader.now, (number + 1) * step)
            age = max(span.oldest_micros, 0 if since is None else end - since)
        elif span.oldest_micros or not span.pending:
            age = span.oldest_micros
        elif span.happened or age == UNKNOWN:
            age = UNKNOWN
        else:
            age += step
        ages.append(age)
    return ages
