"""Clauses about the archive by end and run time: the jobs found, and their order."""

from __future__ import annotations

import itertools

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.archive import ArchiveSpan
from leasehold.core.model.outcome import Complete
from leasehold.core.model.search import JobFilter
from leasehold.env import ManualClock
from leasehold.errors import (
    InvalidFilterError,
)
from leasehold.testing.conformance.base import ConformanceBase, draft, lease_one, settle, submit
from leasehold.testing.conformance.cases import on_one_store
from leasehold.testing.conformance.retaining import EMERGENCY, clean


class ArchiveOrderClauses(ConformanceBase):
    """RET-16, RET-17."""

    @pytest.fixture
    def archived_runs(self, store: Store, clock: ManualClock) -> Store:
        """Jobs that ran for so many seconds, and one that never ran."""
        runs = {"a": 5.0, "b": 0.5, "c": 60.0, "d": 5.0, "e": 0.0}
        for name, seconds in runs.items():
            submit(store, draft(name, task="odd" if name in "ac" else "even"))
            lease = lease_one(store)
            clock.advance(seconds)
            settle(store, lease, Complete())
        submit(store, draft("never"))
        store.cancel(["never"], reason="", actor="me")
        clean(store, scope=EMERGENCY)
        return store

    @on_one_store(
        "span, names",
        [
            (ArchiveSpan(), ["never", "e", "d", "c", "b", "a"]),
            (ArchiveSpan(run_seconds_min=0), ["e", "d", "c", "b", "a"]),
            (ArchiveSpan(run_seconds_min=5), ["d", "c", "a"]),
            (ArchiveSpan(run_seconds_max=0.5), ["e", "b"]),
            (ArchiveSpan(run_seconds_min=0.5, run_seconds_max=5), ["d", "b", "a"]),
            (ArchiveSpan(run_seconds_min=61), []),
        ],
    )
    def test_ret_16_by_run_time(
        self, archived_runs: Store, span: ArchiveSpan, names: list[str]
    ) -> None:
        assert [
            job.id for job in archived_runs.search_archive(JobFilter(), span=span).jobs
        ] == names

    def test_ret_16_bad_bounds_are_refused(self) -> None:
        for bad in (-1.0, float("nan"), float("inf")):
            with pytest.raises(InvalidFilterError, match="run_seconds_min"):
                ArchiveSpan(run_seconds_min=bad)

    @on_one_store(
        "where, names",
        [
            (JobFilter(), ["c", "d", "a", "b", "e"]),
            (JobFilter(tasks=("even",)), ["d", "b", "e"]),
            (JobFilter(tasks=("even", "odd")), ["c", "d", "a", "b", "e"]),
            (JobFilter(ids=("a", "b", "never")), ["a", "b"]),
            (JobFilter(queues=("nowhere",)), []),
        ],
    )
    def test_ret_17_the_slowest_first(
        self, archived_runs: Store, where: JobFilter, names: list[str]
    ) -> None:
        found = archived_runs.search_archive(where, slowest_first=True)
        assert ([job.id for job in found.jobs], found.next_cursor) == (names, None)

    @on_one_store("slowest_first, tasks", itertools.product([False, True], [None, ("even",)]))
    def test_ret_17_page_by_page(
        self, archived_runs: Store, slowest_first: bool, tasks: tuple[str, ...] | None
    ) -> None:
        where = JobFilter(tasks=tasks)
        whole = archived_runs.search_archive(where, slowest_first=slowest_first).jobs
        found = []
        cursor = None
        while True:
            page = archived_runs.search_archive(
                where, slowest_first=slowest_first, limit=1, cursor=cursor
            )
            found += page.jobs
            cursor = page.next_cursor
            if cursor is None:
                break
        assert found == whole
