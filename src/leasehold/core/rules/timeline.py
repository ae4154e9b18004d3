"""Timelines: any metrics over any period, at a resolution that is kept.

An unknown value is None, never 0: forgotten figures, and percentiles of a minute in which nothing
was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from functools import partial
from operator import attrgetter
from typing import Final, Literal, NamedTuple

import msgspec

from leasehold.core.model.histogram import Durations, Measurements
from leasehold.core.model.phrases import listed
from leasehold.core.model.span import (
    BANDS,
    MINUTES_KEPT,
    SUMMED,
    WAIT_IN,
    Span,
    filled,
    side_by_side,
)
from leasehold.core.rules.ages import age_seconds, ages_at_ends
from leasehold.core.rules.metrics import MetricsReader, error_rate
from leasehold.core.rules.sampling import KEPT, Resolution, spans_of, spans_of_all
from leasehold.env import from_micros, to_micros
from leasehold.errors import InvalidWindowError

ResolutionName = Literal["minute", "day"]
RESOLUTIONS: Final = {"minute": Resolution.MINUTE, "day": Resolution.DAY}
OLDEST: Final = "oldest_pending_age_seconds"
POINTS_MAX: Final = MINUTES_KEPT
"""How many minutes or days one timeline may have."""


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """Metrics of one queue, or of all, step by step."""

    queue: str | None
    resolution: ResolutionName
    known_since: datetime
    """Values of earlier steps are None, because their figures were forgotten."""
    at: list[datetime]
    """When each step began, oldest first; the last one may not be over yet."""
    values: dict[str, list[float | None]]
    """By metric, one value for each step."""


Figure = Callable[[Span, float], float | None]
"""Computes one metric from a span and its length in seconds."""


class DurationFigure(NamedTuple):
    """Computes one metric from the durations of one kind, which are summed up once for all."""

    kind: str
    of: Callable[[Span], Measurements]
    field: str
    """Its name in `Durations`."""


def _durations(kind: str, of: Callable[[Span], Measurements]) -> dict[str, DurationFigure]:
    return {
        f"{kind}_{field}": DurationFigure(kind, of, field) for field in Durations.__struct_fields__
    }


def _field(name: str, span: Span, _seconds: float) -> float:
    return getattr(span, name)  # type: ignore[no-any-return]  # one of the counters


def _waits_in(band: str, span: Span) -> Measurements:
    return span.measured(WAIT_IN[band])


FIGURES: Final[dict[str, Figure | DurationFigure]] = {
    **{name: partial(_field, name) for name in (*SUMMED, "pending", "deepest")},
    OLDEST: age_seconds,
    "throughput_per_second": lambda span, seconds: span.completed / seconds if seconds else 0.0,
    "error_rate": lambda span, _: error_rate(span),
    **_durations("wait", lambda span: span.waits),
    **_durations("run", lambda span: span.runs),
    **_durations("held", lambda span: span.holds),
    **{
        name: figure
        for band in BANDS
        for name, figure in _durations(f"wait_{band}", partial(_waits_in, band)).items()
    },
}
"""All metrics that have a timeline."""


def timeline(
    reader: MetricsReader,
    metrics: Sequence[str],
    queue: str | None,
    *,
    since: datetime,
    until: datetime | None,
    resolution: ResolutionName,
) -> Timeline:
    """These metrics of a queue, or of all, for each step of the period that has begun."""
    chosen = _checked(metrics)
    kept_by = _resolution(resolution)
    step = kept_by.micros
    now = reader.now
    first = _moment("since", since) // step
    last = now // step
    end = last if until is None else min(last, (_moment("until", until) - 1) // step)
    if until is not None and until <= since:
        raise InvalidWindowError(f"until ({until}) must be later than since ({since})")
    if end - first >= POINTS_MAX:
        raise InvalidWindowError(
            f"from {since} to {until or 'now'} there are {end - first + 1:,} {resolution}s, more "
            f"than {POINTS_MAX:,}: ask for less at a time, or for days"
        )
    known = last - KEPT[kept_by] + 1
    begin = max(first, known)
    # Filled backwards from now, where the depth is known.
    spans = _spans(reader, queue, kept_by, begin, last, chosen) if begin <= end else []
    told = spans[: end - begin + 1]
    unknown = [None] * (max(end + 1, first) - first - len(told))
    seconds = [
        (min(now, (number + 1) * step) - number * step) / 1e6
        for number in range(begin, begin + len(told))
    ]
    durations = {
        figure.kind: [figure.of(span).summary() for span in told]
        for figure in {each.kind: each for each in chosen.values() if not callable(each)}.values()
    }
    values: dict[str, list[float | None]] = {}
    for name, figure in chosen.items():
        known_values = (
            map(figure, told, seconds)
            if callable(figure)
            else map(attrgetter(figure.field), durations[figure.kind])
        )
        values[name] = [*unknown, *known_values]
    return Timeline(
        queue=queue,
        resolution=resolution,
        known_since=from_micros(known * step),
        at=[from_micros(number * step) for number in range(first, end + 1)],
        values=values,
    )


def _spans(
    reader: MetricsReader,
    queue: str | None,
    kept_by: Resolution,
    first: int,
    last: int,
    metrics: Collection[str],
) -> list[Span]:
    one_by_one = queue is not None or "deepest" in metrics
    spans = (
        side_by_side(spans_of(reader, queue, kept_by, first).values(), first, last)
        if one_by_one
        else filled(spans_of_all(reader, kept_by, first), first, last)
    )
    if OLDEST not in metrics:
        return spans
    # The age for all queues together is kept with their spans, since an idle queue has no span.
    known = (
        filled(spans_of_all(reader, kept_by, first), first, last)
        if one_by_one and queue is None
        else spans
    )
    ages = ages_at_ends(reader, queue, kept_by, first, known)
    return [
        msgspec.structs.replace(span, oldest_micros=age)
        for span, age in zip(spans, ages, strict=True)
    ]


def _checked(metrics: Sequence[str]) -> dict[str, Figure | DurationFigure]:
    if isinstance(metrics, str) or not metrics:
        raise InvalidWindowError(
            f"metrics must be the names of one metric or more, not {metrics!r}"
        )
    for name in metrics:
        if name not in FIGURES:
            raise InvalidWindowError(
                f"there is no metric {name!r}: choose from {listed(sorted(FIGURES))}"
            )
    return {name: FIGURES[name] for name in metrics}


def _resolution(name: str) -> Resolution:
    found = RESOLUTIONS.get(name)
    if found is None:
        raise InvalidWindowError(f"resolution must be 'minute' or 'day', not {name!r}")
    return found


def _moment(name: str, value: datetime) -> int:
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise InvalidWindowError(
            f"{name} must be a datetime with a time zone, not {value!r}: datetime.now(UTC) has one"
        )
    return max(0, to_micros(value))
