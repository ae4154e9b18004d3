"""How many jobs a task has is known without a look at any job, and so is that it has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.connect import connect
from leasehold.core.contract.store import Store
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.stores.tables.job_reading import TableJobs
from support.servers import needs_psycopg


def _filled(url: str) -> Store:
    store = connect(url)
    tasks = [("a", "mail"), ("a", "mail"), ("a", "till"), ("b", "mail")]
    store.submit([Draft(id=f"job-{n}", task=t, queue=q) for n, (t, q) in enumerate(tasks)])
    [lease] = store.exchange(request=LeaseRequest(worker="w", queues=("till",))).leases
    store.exchange([Settlement(lease.job_id, lease.version, Complete())])
    return store


def _check_counts(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise AssertionError("jobs were counted one by one")

    monkeypatch.setattr(TableJobs, "_count", refuse)
    for where, jobs in (
        (JobFilter(tasks=("a",)), 3),
        (JobFilter(tasks=("a", "b", "nobody")), 4),
        (JobFilter(tasks=("a",), queues=("mail",)), 2),
        (JobFilter(tasks=("a",), statuses=(Status.COMPLETED,)), 1),
        (JobFilter(tasks=("a",), statuses=()), 0),
        (JobFilter(tasks=("nobody",)), 0),
        (JobFilter(tasks=()), 0),
    ):
        assert store.count(where).jobs == len(store.search(where).jobs) == jobs, where


def test_sqlite_counts_the_jobs_of_a_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = _filled(str(tmp_path / "store.db"))
    _check_counts(store, monkeypatch)
    store.close()


def test_postgres_counts_the_jobs_of_a_task(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = _filled(url)
    _check_counts(store, monkeypatch)
    store.close()


def test_postgres_looks_at_no_job_for_a_task_without_any(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_psycopg()
    from leasehold.stores.postgres.reading import read

    store = _filled(url)
    monkeypatch.setattr(read, "NUMBERS", "SELECT seq FROM nowhere")
    assert store.search(JobFilter(tasks=("nobody",))).jobs == []
    store.close()
