"""Looks at counters: what is kept adds up to the totals, however the looks fall."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from leasehold.core.model.histogram import Measurements
from leasehold.core.model.span import (
    DAYS_KEPT,
    MINUTES_KEPT,
    SUMMED,
    WORKERS_KEPT,
    Measure,
    Span,
    all_in_all,
    as_one,
    filled,
    side_by_side,
)
from leasehold.core.rules.sampling import (
    KeptSpan,
    Resolution,
    end_minute,
    last_looks,
    since_last_look,
    spans_of,
    spans_of_all,
    summed_of_each,
    summed_up,
)
from leasehold.stores.tables.sampling import SPAN_COLUMNS

DAY = 24 * 60


class Shelf:
    """The least that keeps spans: dictionaries."""

    def __init__(self) -> None:
        self.now: dict[str, Span] = {}
        self.spans: dict[Resolution, dict[str, dict[int, Span]]] = defaultdict(
            lambda: defaultdict(dict)
        )
        self.minute = 0
        self.since: dict[str, int] = {}

    def open_minute(self) -> int:
        return self.minute

    def totals(self, queue: str | None) -> Mapping[str, Span]:
        return {name: span for name, span in self.now.items() if queue in (None, name)}

    def totals_of_all(self) -> Span:
        return as_one(self.now.values())

    def last_counts(self, queue: str | None) -> Mapping[str, Span]:
        return {name: each.with_measures(()) for name, each in last_looks(self, queue).items()}

    def last_look_of_all(self) -> Span:
        return as_one(each.with_measures(()) for each in last_looks(self, None).values())

    def available_since(self, queue: str | None) -> Mapping[str, int]:
        return {name: since for name, since in self.since.items() if queue in (None, name)}

    def kept(
        self, resolution: Resolution, queue: str | None, first: int
    ) -> Mapping[str, dict[int, Span]]:
        return {
            name: {number: span for number, span in spans.items() if number >= first}
            for name, spans in self.spans[resolution].items()
            if queue in (None, name)
        }

    def summed(
        self, resolution: Resolution, first: int, measures: Collection[int]
    ) -> Mapping[str, Span]:
        return summed_up(self.kept(resolution, None, first), measures)

    def keep(self, spans: Sequence[KeptSpan]) -> None:
        for resolution, queue, number, span in spans:
            self.spans[resolution][queue][number] = span

    def measure_anew(self, minute: int) -> None:
        self.minute = minute
        self.now = {
            name: msgspec.structs.replace(span, measures={}) for name, span in self.now.items()
        }

    def forget(self, resolution: Resolution, before: int) -> None:
        for spans in self.spans[resolution].values():
            for number in [each for each in spans if each < before]:
                del spans[number]

    def forget_workers(self, kept: int) -> None:
        assert kept == WORKERS_KEPT

    def submit(self, queue: str, jobs: int) -> None:
        known = self.now.get(queue, Span())
        self.now[queue] = msgspec.structs.replace(
            known, submitted=known.submitted + jobs, pending=known.pending + jobs
        )

    def lease(self, queue: str) -> None:
        known = self.now.get(queue, Span())
        if known.pending:
            self.now[queue] = msgspec.structs.replace(
                known,
                leased=known.leased + 1,
                pending=known.pending - 1,
                measures={
                    Measure.WAIT_MEDIUM: known.waits.plus(Measurements(5, {3: 1})),
                },
            )


Script = list[tuple[str, int, bool, int]]
"""What happens to queues: so many submits, perhaps a lease, then so many minutes pass."""


def scripts(queues: str) -> st.SearchStrategy[Script]:
    return st.lists(
        st.tuples(st.sampled_from(queues), st.integers(0, 3), st.booleans(), st.integers(0, 700)),
        max_size=30,
    )


def played(script: Script) -> Shelf:
    shelf = Shelf()
    for queue, jobs, leases, minutes in script:
        shelf.submit(queue, jobs)
        if leases:
            shelf.lease(queue)
        if minutes:
            end_minute(shelf, shelf.minute + minutes)
    return shelf


@given(scripts("ab"))
def test_minutes_and_days_add_up_to_the_totals(script: Script) -> None:
    shelf = played(script)
    for queue, total in shelf.now.items():
        for resolution, longest in ((Resolution.MINUTE, MINUTES_KEPT), (Resolution.DAY, 100)):
            [found] = spans_of(shelf, queue, resolution, 0).values()
            first = shelf.minute - longest if resolution is Resolution.MINUTE else 0
            if first > 0:
                continue  # Some were forgotten.
            spans = found.spans.values()
            assert sum(span.submitted for span in spans) == total.submitted
            assert sum(span.waits.buckets.get(3, 0) for span in spans) == total.leased
            assert sum(span.waits.micros for span in spans) == 5 * total.leased
            assert found.pending == total.pending


def test_what_is_too_old_is_forgotten() -> None:
    shelf = Shelf()
    shelf.submit("a", 1)
    end_minute(shelf, MINUTES_KEPT)
    assert list(shelf.spans[Resolution.MINUTE]["a"]) == [0]
    end_minute(shelf, MINUTES_KEPT + 1)
    assert not shelf.spans[Resolution.MINUTE]["a"]
    assert list(shelf.spans[Resolution.DAY]["a"]) == [0]
    end_minute(shelf, DAY * (DAYS_KEPT + 1))
    assert not shelf.spans[Resolution.DAY]["a"]


def test_a_minute_in_which_nothing_happened_is_not_kept() -> None:
    shelf = Shelf()
    shelf.submit("a", 2)
    end_minute(shelf, 1)
    end_minute(shelf, 2)
    assert list(shelf.spans[Resolution.MINUTE]["a"]) == [0]
    assert not since_last_look(shelf, "a")["a"].happened
    assert since_last_look(shelf, "nobody") == {}


@given(scripts("abc"), st.integers(0, 3000))
def test_all_queues_together_are_kept_as_their_sum(script: Script, first: int) -> None:
    shelf = played(script)
    for resolution in (Resolution.MINUTE, Resolution.DAY):
        last = max(first, shelf.minute // (1 if resolution is Resolution.MINUTE else DAY))
        alone = spans_of(shelf, None, resolution, first).values()
        together = spans_of_all(shelf, resolution, first)
        assert all_in_all([together], first) == all_in_all(alone, first)
        for one, several in zip(
            filled(together, first, last), side_by_side(alone, first, last), strict=True
        ):
            # How deep the deepest was while nothing happened is not kept.
            assert one.happened == several.happened
            assert msgspec.structs.replace(one, deepest=several.deepest) == several
            assert one.deepest == several.deepest or not one.happened


@given(scripts("abc"), st.integers(0, 3000))
def test_each_queue_added_up_is_the_sum_of_its_minutes(script: Script, first: int) -> None:
    shelf = played(script)
    alone = spans_of(shelf, None, Resolution.MINUTE, first)
    for measures in ((), tuple(Measure)):
        assert summed_of_each(shelf, first, shelf.totals(None), measures) == {
            queue: all_in_all([spans], first).with_measures(measures)
            for queue, spans in alone.items()
        }


def test_spans_are_read_in_the_order_of_their_columns() -> None:
    assert Span.__struct_fields__ == SPAN_COLUMNS
    assert SPAN_COLUMNS[: len(SUMMED)] == SUMMED
