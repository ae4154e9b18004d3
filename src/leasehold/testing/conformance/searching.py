"""Clauses about searches that leave out what is heavy."""

from __future__ import annotations

from itertools import combinations
from typing import Any, Final

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.job import Job
from leasehold.core.model.outcome import Complete
from leasehold.core.model.plain_data import LEFT_OUT
from leasehold.core.model.search import HeavyField, JobFilter, lightened
from leasehold.env import ManualClock
from leasehold.errors import InvalidJobError, PayloadError
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
    """SEA-2 and SEA-4."""

    @pytest.fixture
    def filled(self, store: Store) -> Store:
        """A store with a completed job and a pending one."""
        submit(store, draft("a", payload=b'{"word":"heavy"}', metadata={"tenant": "acme"}))
        settle(store, lease_one(store), Complete(b'{"size":3}'))
        submit(store, draft("b", payload=b'{"word":"light"}'))
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
        with pytest.raises(InvalidJobError, match="payload, result and metadata, not 'id'"):
            find(filled, without=("payload", "id"))

    @on_one_store("cursor", NO_CURSORS)
    def test_sea_4_what_is_no_cursor_is_refused(self, filled: Store, cursor: str) -> None:
        with pytest.raises(InvalidJobError, match="cursor"):
            filled.search(JobFilter(), cursor=cursor)
