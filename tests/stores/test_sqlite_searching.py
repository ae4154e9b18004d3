"""How SQLite finds jobs among many: which way it goes, and that each way finds the same."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations
from pathlib import Path

import pytest

from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete, Fail, JobError
from leasehold.core.model.queue_config import QueueConfig
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.env import Env, ManualClock
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.reading import read
from leasehold.stores.tables import job_reading

STATUSES = (Status.PENDING, Status.SCHEDULED, Status.RUNNING, Status.COMPLETED, Status.DEAD)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteStore]:
    """Jobs of each status in two queues, some of them parked behind a key."""
    opened = SQLiteStore(tmp_path / "jobs.db", env=Env(clock=ManualClock()))
    for queue in ("a", "b"):
        opened.create_queue(queue, QueueConfig(key_concurrency=1), actor="me")
        ends = (Complete(), Fail(JobError("Odd", queue), retryable=False), None)
        for number, outcome in enumerate(ends):
            opened.submit([Draft(id=f"{queue}-{number}", task="t", queue=queue)])
            [lease] = opened.exchange(request=LeaseRequest(worker="w", queues=(queue,))).leases
            if outcome is not None:
                opened.exchange([Settlement(lease.job_id, lease.version, outcome)])
        opened.submit(
            [
                Draft(id=f"{queue}-plain", task="t", queue=queue, metadata={"of": "x"}),
                Draft(id=f"{queue}-later", task="t", queue=queue, delay_seconds=60),
                *(Draft(id=f"{queue}-k{n}", task="t", queue=queue, limit_key="k") for n in (1, 2)),
            ]
        )
    yield opened
    opened.close()


@pytest.mark.parametrize("few", [0, job_reading.FEW])
def test_both_ways_find_what_fits(
    store: SQLiteStore, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = store.search(JobFilter(), limit=100).jobs
    monkeypatch.setattr(read, "FEW", few)
    asked = chain.from_iterable(combinations(STATUSES, number) for number in range(4))
    for statuses in asked:
        for queues in (None, ("a",), ("b", "nowhere"), ("nowhere",)):
            wanted = JobFilter(statuses=statuses, queues=queues)
            fitting = [job.id for job in jobs if wanted.matches(job)]
            assert [job.id for job in store.search(wanted, limit=100).jobs] == fitting


def test_errors_and_metadata_are_compared_with_few_jobs(store: SQLiteStore) -> None:
    assert [job.id for job in store.search(JobFilter(error_text="odd"), limit=9).jobs] == [
        "b-1", "a-1",
    ]  # fmt: skip
    assert len(store.search(JobFilter(error_text=""), limit=100).jobs) == 14
    found = store.search(JobFilter(metadata={"of": "x"}), limit=9).jobs
    assert [job.id for job in found] == ["b-plain", "a-plain"]


@pytest.mark.parametrize(
    "look",
    [
        lambda store: store.graph(["a-1"]),
        lambda store: store.search(JobFilter(error_text="odd"), limit=9),
        lambda store: store.search(JobFilter(statuses=(Status.DEAD,)), limit=9),
        lambda store: store.search(JobFilter(statuses=(Status.PENDING,), queues=("a",)), limit=9),
    ],
)
def test_few_jobs_are_found_without_a_look_at_all(store: SQLiteStore, look: object) -> None:
    asked: list[tuple[str, object]] = []
    assert callable(look)

    def note(_: object, sql: str, values: object) -> bool:
        asked.append((sql, values))
        return True

    with store._database.read() as db:
        db.exec_trace = note
    look(store)
    with store._database.read() as db:
        db.exec_trace = None
        for sql, values in asked:
            if not sql.lstrip().startswith(("SELECT", "WITH")):
                continue
            for row in db.execute(f"EXPLAIN QUERY PLAN {sql}", values):  # type: ignore[arg-type]
                line = str(row[3])
                assert line.split()[:2] not in (["SCAN", "job"], ["SCAN", "dependency"]), line
    assert any("FROM job" in sql or "linked" in sql for sql, _ in asked)
