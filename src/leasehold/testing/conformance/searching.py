"""Clauses about searches that leave out heavy fields, and that do not read everything."""

from __future__ import annotations

from itertools import combinations
from typing import Any, Final

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.job import Job
from leasehold.core.model.outcome import Complete
from leasehold.core.model.plain_data import LEFT_OUT
from leasehold.core.model.search import HeavyField, JobFilter, lightened
from leasehold.core.model.status import Status
from leasehold.env import ManualClock
from leasehold.errors import (
    InvalidCursorError,
    InvalidFilterError,
    PayloadError,
)
from leasehold.testing.conformance.base import (
    NO_CURSORS,
    ConformanceBase,
    draft,
    get,
    lease_one,
    settle,
    submit,
)
from leasehold.testing.conformance.cases import on_one_store

HEAVY: Final[tuple[HeavyField, ...]] = ("payload", "result", "metadata")


def find(store: Store, **options: Any) -> list[Job]:
    return store.search(JobFilter(), **options).jobs


class SearchingClauses(ConformanceBase):
    """SEA-2, SEA-4, SEA-5, SEA-6."""

    @pytest.fixture
    def filled(self, store: Store) -> Store:
        """A store with a completed job and a pending one."""
        submit(store, draft("a", payload=b'{"word":"heavy"}', metadata={"tenant": "acme"}))
        settle(store, lease_one(store), Complete(b'{"size":3}'))
        submit(store, draft("b", payload=b'{"word":"light"}'))
        return store

    @pytest.fixture
    def haystack(self, store: Store) -> Store:
        """Sixty jobs, of which one in ten has something to be found by."""
        submit(
            store,
            *(
                draft(
                    f"job-{n}",
                    queue="rare" if n == 3 else "default",
                    payload=b'"needle"' if n % 10 == 5 else b'"hay"',
                    priority=80 if n % 10 == 6 else 50,
                    limit_key="acme" if n % 10 == 7 else None,
                    metadata={"tenant": "acme" if n % 10 == 8 else "other"},
                )
                for n in range(60)
            ),
        )
        return store

    @on_one_store("without", [each for size in range(4) for each in combinations(HEAVY, size)])
    def test_sea_2_what_is_left_out_is_empty_and_the_rest_is_there(
        self, filled: Store, without: tuple[HeavyField, ...]
    ) -> None:
        found = find(filled, without=without)
        assert found == [lightened(get(filled, each), without) for each in "ba"]

    def test_sea_2_a_result_that_is_too_old_is_gone_left_out_or_not(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit(store, draft("a", result_ttl_seconds=10))
        settle(store, lease_one(store), Complete(b'{"size":3}'))
        clock.advance(11)
        whole = get(store, "a")
        assert (whole.result_data, whole.result_expired) == (None, True)
        assert find(store, without=("result",)) == [whole]

    def test_sea_2_nobody_takes_it_for_the_real_thing(self, filled: Store) -> None:
        pending, completed = find(filled, without=HEAVY)
        assert (completed.payload_data, completed.codec) == (b"", LEFT_OUT)
        assert (completed.result_data, completed.result_codec) == (b"", LEFT_OUT)
        assert completed.metadata is None
        for what in ("payload", "result"):
            with pytest.raises(PayloadError, match="left out"):
                getattr(completed, what)
        # A job without a result has none, left out or not.
        assert pending.result is None

    def test_sea_2_filters_count_all_the_same(self, filled: Store) -> None:
        by_text = filled.search(JobFilter(text="heavy"), without=HEAVY)
        by_metadata = filled.search(JobFilter(metadata={"tenant": "acme"}), without=HEAVY)
        assert [job.id for job in by_text.jobs] == ["a"]
        assert [job.id for job in by_metadata.jobs] == ["a"]

    def test_sea_2_other_fields_cannot_be_left_out(self, filled: Store) -> None:
        with pytest.raises(InvalidFilterError, match="payload, result and metadata, not 'id'"):
            find(filled, without=("payload", "id"))

    @on_one_store("cursor", NO_CURSORS)
    def test_sea_4_what_is_no_cursor_is_refused(self, filled: Store, cursor: str) -> None:
        with pytest.raises(InvalidCursorError, match="cursor"):
            filled.search(JobFilter(), cursor=cursor)

    @pytest.mark.parametrize(
        "where",
        [
            JobFilter(text="needle"),
            JobFilter(metadata={"tenant": "acme"}),
            JobFilter(priority_min=70, queues=("default",)),
            JobFilter(limit_key="acme", statuses=tuple(Status)),
            JobFilter(),
            JobFilter(ids=("job-3", "job-40")),
            JobFilter(queues=("rare",)),
        ],
    )
    def test_sea_5_what_is_not_read_at_once_is_read_on(
        self, haystack: Store, where: JobFilter
    ) -> None:
        found: list[str] = []
        cursor = None
        for _ in range(60):
            page = haystack.search(where, limit=7, cursor=cursor, read_max=5)
            assert len(page.jobs) <= 7
            found += [job.id for job in page.jobs]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert cursor is None
        assert found == [job.id for job in haystack.search(where).jobs]

    def test_sea_5_a_search_that_finds_nothing_does_not_read_everything(
        self, haystack: Store
    ) -> None:
        page = haystack.search(JobFilter(text="nowhere"), read_max=5)
        assert (page.jobs, page.next_cursor is None) == ([], False)
        assert haystack.search(JobFilter(text="nowhere"), read_max=1000).next_cursor is None

    def test_sea_5_what_an_index_leads_to_is_found_however_old_it_is(self, haystack: Store) -> None:
        where = JobFilter(ids=("job-3",))
        assert [job.id for job in haystack.search(where, read_max=1).jobs] == ["job-3"]

    def test_sea_5_of_other_queues_ten_times_as_many_are_passed_over(self, haystack: Store) -> None:
        where = JobFilter(queues=("rare",))
        assert [job.id for job in haystack.search(where, read_max=6).jobs] == ["job-3"]
        assert haystack.search(where, read_max=6).next_cursor is None

    def test_sea_6_a_count_says_when_it_did_not_read_all(self, haystack: Store) -> None:
        where = JobFilter(limit_key="acme")
        whole = haystack.count(where)
        part = haystack.count(where, read_max=20)
        assert whole.is_exact
        assert not part.is_exact
        assert 0 < part.jobs < whole.jobs
        assert haystack.count(where, read_max=1000) == whole

    def test_sea_5_it_reads_something(self, haystack: Store) -> None:
        for read in (haystack.search, haystack.count):
            with pytest.raises(InvalidFilterError, match="not 0"):
                read(JobFilter(text="a"), read_max=0)
