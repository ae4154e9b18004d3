"""The measurements of one queue since the last sample, and the spans kept of earlier ones."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from leasehold.core.model.histogram import BOUNDS, Measurements
from leasehold.core.model.span import Span, as_one
from leasehold.core.rules.sampling import ALL_QUEUES, KeptSpan, Resolution, last_looks, summed_up

if TYPE_CHECKING:
    from leasehold.stores.memory.state import State


class RecentDurations:
    """Durations since the last sample."""

    __slots__ = ("_buckets", "micros")

    def __init__(self) -> None:
        # A list is faster to count in than a dictionary, and every job counts twice.
        self._buckets = [0] * (len(BOUNDS) + 1)
        self.micros = 0

    def add(self, micros: int) -> None:
        self._buckets[bisect_right(BOUNDS, micros)] += 1
        self.micros += micros

    def count(self, bucket: int) -> None:
        """Count an event that has no duration."""
        self._buckets[bucket] += 1

    def measurements(self) -> Measurements:
        buckets = {bucket: jobs for bucket, jobs in enumerate(self._buckets) if jobs}
        return Measurements(self.micros, buckets)


class Meter:
    """The figures of one queue, by minute and by day; rules.sampling decides."""

    __slots__ = ("kept", "measures")

    def __init__(self) -> None:
        self.kept: dict[Resolution, dict[int, Span]] = defaultdict(dict)
        """Kept spans by number, oldest first."""
        self.measure_anew()

    def measure_anew(self) -> None:
        self.measures: defaultdict[int, RecentDurations] = defaultdict(RecentDurations)
        """Measurements since the last sample, by `Measure`."""

    def totals(self, counted: Mapping[str, int], pending: int) -> Span:
        """The lifetime counts, with the measurements since the last sample."""
        measures = {int(each): found.measurements() for each, found in self.measures.items()}
        return Span(**counted, pending=pending, measures=measures)


class SpanShelf:
    """The meters of all queues, for core.rules.sampling."""

    def __init__(self, state: State) -> None:
        self._state = state

    def open_minute(self) -> int:
        return self._state.open_minute

    def totals(self, queue: str | None) -> Mapping[str, Span]:
        return {name: each.totals_ever() for name, each in self._state.chosen(queue).items()}

    def totals_of_all(self) -> Span:
        return as_one(self.totals(None).values())

    def last_counts(self, queue: str | None) -> Mapping[str, Span]:
        return {name: each.with_measures(()) for name, each in last_looks(self, queue).items()}

    def last_look_of_all(self) -> Span:
        looks = (each.meter.kept[Resolution.EVER] for each in self._state.chosen(None).values())
        return as_one(spans[0].with_measures(()) for spans in looks if 0 in spans)

    def available_since(self, queue: str | None) -> Mapping[str, int]:
        chosen = self._state.chosen(queue).items()
        found = ((name, each.lanes.oldest_available_at()) for name, each in chosen)
        return {name: since for name, since in found if since is not None}

    def kept(
        self, resolution: Resolution, queue: str | None, first: int
    ) -> Mapping[str, dict[int, Span]]:
        return {
            name: {
                number: span for number, span in meter.kept[resolution].items() if number >= first
            }
            for name, meter in self._meters().items()
            if queue in (None, name)
        }

    def summed(
        self, resolution: Resolution, first: int, measures: Collection[int]
    ) -> Mapping[str, Span]:
        return summed_up(self.kept(resolution, None, first), measures)

    def keep(self, spans: Sequence[KeptSpan]) -> None:
        meters = self._meters()
        for resolution, queue, number, span in spans:
            meters[queue].kept[resolution][number] = span

    def measure_anew(self, minute: int) -> None:
        self._state.open_minute = minute
        for queue in self._state.queues.values():
            queue.meter.measure_anew()

    def forget(self, resolution: Resolution, before: int) -> None:
        for meter in self._meters().values():
            spans = meter.kept[resolution]
            while spans and (oldest := next(iter(spans))) < before:
                del spans[oldest]

    def forget_workers(self, kept: int) -> None:
        self._state.worked.forget(kept)

    def _meters(self) -> dict[str, Meter]:
        of_queues = {name: each.meter for name, each in self._state.queues.items()}
        return {ALL_QUEUES: self._state.meter_of_all, **of_queues}
