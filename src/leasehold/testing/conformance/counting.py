"""Clauses about totals: of the jobs that fit a filter, and of a worker's leases."""

from __future__ import annotations

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.outcome import Complete
from leasehold.core.model.records import CURRENT_JOBS_MAX, CurrentJob, WorkerInfo
from leasehold.core.model.search import Count, JobFilter
from leasehold.core.model.status import Status
from leasehold.env import ManualClock
from leasehold.errors import (
    InvalidFilterError,
)
from leasehold.testing.conformance.base import (
    ConformanceBase,
    draft,
    get,
    lease_all,
    lease_one,
    settle,
    submit,
)
from leasehold.testing.conformance.cases import on_one_store


class CountingClauses(ConformanceBase):
    """SEA-3, WRK-4."""

    @pytest.fixture
    def counted(self, store: Store) -> Store:
        submit(store, *(draft(f"mail-{n}", queue="mail", limit_key="acme") for n in range(4)))
        submit(
            store,
            *(draft(f"video-{n}", queue="video", task="other", parent_id="w") for n in range(3)),
        )
        settle(store, lease_one(store, queues=("mail",)), Complete())
        return store

    @on_one_store(
        "where, jobs",
        [
            (JobFilter(), 7),
            (JobFilter(queues=("mail",)), 4),
            (JobFilter(queues=("mail", "video", "mail")), 7),
            (JobFilter(queues=("nowhere",)), 0),
            (JobFilter(statuses=(Status.PENDING, Status.PENDING)), 6),
            (JobFilter(statuses=()), 0),
            (JobFilter(queues=("mail",), statuses=(Status.COMPLETED,)), 1),
            (JobFilter(tasks=("other",)), 3),
            (JobFilter(limit_key="acme"), 4),
            (JobFilter(limit_key="nobody"), 0),
            (JobFilter(has_parent=True), 3),
            (JobFilter(has_parent=True, queues=("mail",)), 0),
            (JobFilter(ids=("mail-1", "video-1", "none")), 2),
        ],
    )
    def test_sea_3_it_is_what_a_search_finds(
        self, counted: Store, where: JobFilter, jobs: int
    ) -> None:
        assert counted.count(where) == Count(jobs)
        assert len(counted.search(where).jobs) == jobs

    def test_sea_3_beyond_the_bound_it_says_so(self, counted: Store) -> None:
        where = JobFilter(limit_key="acme")
        assert counted.count(where, counted_max=4) == Count(4)
        assert counted.count(where, counted_max=3) == Count(3, is_exact=False)
        for lanes, jobs in (
            (JobFilter(queues=("mail",)), 4),
            (JobFilter(tasks=("other",)), 3),
            (JobFilter(tasks=("other",), statuses=(Status.PENDING,), queues=("video",)), 3),
        ):
            assert counted.count(lanes, counted_max=1) == Count(jobs), "exact at any number"
            assert counted.count(lanes, counted_max=1, read_max=1) == Count(jobs)
        for bad in (0, 10_001):
            with pytest.raises(InvalidFilterError, match="from 1 to 10,000"):
                counted.count(where, counted_max=bad)

    def test_wrk_4_a_worker_names_its_jobs(self, store: Store, clock: ManualClock) -> None:
        for name in ("busy", "idle"):
            register(store, name)
        submit(store, draft("first", queue="mail"), draft("second", task="other"))
        lease_one(store, worker="busy", queues=("mail",))
        clock.advance(5)
        lease_one(store, worker="busy")
        busy, idle = sorted(store.workers(), key=lambda each: each.id)
        jobs = [get(store, name) for name in ("first", "second")]
        assert busy.jobs == tuple(
            CurrentJob(
                id=job.id, queue=job.queue, task=job.task, attempts=1,
                leased_at=job.lease_acquired_at, lease_expires_at=job.lease_expires_at,
            )
            for job in jobs
            if job.lease_acquired_at is not None and job.lease_expires_at is not None
        )  # fmt: skip
        assert (busy.running, idle.running, idle.jobs) == (2, 0, ())

    def test_wrk_4_of_many_it_names_the_first(self, store: Store, clock: ManualClock) -> None:
        register(store, "busy")
        submit(store, *(draft(f"{n:03}") for n in range(CURRENT_JOBS_MAX + 5)))
        lease_one(store, worker="busy")
        clock.advance(1)
        lease_all(store, worker="busy", limit=CURRENT_JOBS_MAX + 4)
        (busy,) = store.workers()
        assert busy.running == CURRENT_JOBS_MAX + 5
        assert [job.id for job in busy.jobs] == [f"{n:03}" for n in range(CURRENT_JOBS_MAX)]


def register(store: Store, name: str) -> None:
    now = store.now()
    store.register_worker(
        WorkerInfo(
            id=name, host="here", pid=1, queues=("default", "mail"), slots=500, started_at=now,
            heartbeat_at=now,
        )
    )  # fmt: skip
