"""One queue's figures over time: what each minute and day brought, in bounded memory.

Totals grow for ever; the first call of a new minute keeps what they grew by since the last look.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from leasehold.core.histogram import BOUNDS, Histogram, bucket_of
from leasehold.core.span import COUNTED, DAY_MICROS, DAYS_KEPT, MINUTE_MICROS, MINUTES_KEPT, Span

MINUTES_PER_DAY: Final = DAY_MICROS // MINUTE_MICROS


class Measured:
    """How long things took since the last look."""

    __slots__ = ("_buckets", "micros")

    def __init__(self) -> None:
        # A list is faster to count in than a dictionary, and every job counts twice.
        self._buckets = [0] * (len(BOUNDS) + 1)
        self.micros = 0

    def add(self, micros: int) -> None:
        self._buckets[bucket_of(micros)] += 1
        self.micros += micros

    def histogram(self) -> Histogram:
        return {bucket: jobs for bucket, jobs in enumerate(self._buckets) if jobs}


class Figures:
    """What one queue did, minute by minute and day by day."""

    __slots__ = ("_leased", "_pending", "_totals", "days", "minutes", "runs", "waits")

    def __init__(self) -> None:
        self.waits = Measured()
        self.runs = Measured()
        self.minutes: OrderedDict[int, Span] = OrderedDict()
        """Those in which anything happened, by number, oldest first."""
        self.days: OrderedDict[int, Span] = OrderedDict()
        self._leased = 0
        self._totals: Mapping[str, int] = dict.fromkeys(COUNTED, 0)
        self._pending = 0

    @property
    def leased(self) -> int:
        """How many leases there ever were."""
        return self._leased + sum(self.waits.histogram().values())

    def since_last_look(self, totals: Mapping[str, int], pending: int) -> Span:
        """What happened since, given the totals and the depth now."""
        return Span(
            **{name: totals[name] - self._totals[name] for name in COUNTED},
            wait_micros=self.waits.micros,
            run_micros=self.runs.micros,
            pending_before=self._pending,
            pending=pending,
            deepest=max(self._pending, pending),
            waits=self.waits.histogram(),
            runs=self.runs.histogram(),
        )

    def end_minute(self, minute: int, totals: Mapping[str, int], pending: int) -> None:
        """Keep what happened in this minute, and look anew from here on."""
        span = self.since_last_look(totals, pending)
        if not span.happened:
            return
        day = minute // MINUTES_PER_DAY
        earlier = self.days.get(day)
        self.minutes[minute] = span
        self.days[day] = span if earlier is None else earlier.then(span)
        self._leased = totals["leased"]
        self._totals = totals
        self._pending = pending
        self.waits = Measured()
        self.runs = Measured()

    def forget_before(self, minute: int) -> None:
        """Drop what is too old to be asked for, given the minute it is now."""
        _drop_before(self.minutes, minute - MINUTES_KEPT)
        _drop_before(self.days, minute // MINUTES_PER_DAY - DAYS_KEPT)


def _drop_before(spans: OrderedDict[int, Span], first: int) -> None:
    while spans and next(iter(spans)) < first:
        spans.popitem(last=False)
