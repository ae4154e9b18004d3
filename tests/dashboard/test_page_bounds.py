"""No page reads more because there are more jobs: the steps of SQLite's machine are counted.

Each page is made on a store of few jobs and on one of twenty times as many, with the same queues,
tasks, workers and failures.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from starlette.datastructures import QueryParams

from leasehold.core.model.budget import batched
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete, Fail, JobError
from leasehold.dashboard import visit
from leasehold.dashboard.pages import jobs
from leasehold.dashboard.routes import PAGES
from leasehold.dashboard.visit import Desk, Visit
from leasehold.env import Env, ManualClock
from leasehold.service.api import Api
from leasehold.service.caller import ANYBODY
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.reading import read
from leasehold.stores.tables import job_reading
from support.metering import steps_on

FEW, MANY = 300, 6000
QUEUES = ("a", "b", "c")
DEAD = 20
MORE_STEPS: Final = 5000
"""Deeper trees, longer lists of what happened in a minute."""
LOOKS: Final = (
    *((path, "") for path, name, *_ in PAGES if name),
    ("", "over=24h"),
    ("queue", "name=a"),
    ("queue-rules", "name=a"),
    ("jobs", "q=status:pending"),
    ("jobs", "q=status:completed"),
    ("jobs", "q=status:dead"),
    ("jobs", "q=queue:a"),
    ("jobs", "q=queue:nowhere"),
    ("jobs", "q=error:odd"),
    # Nothing fits: what would have to be read is bounded.
    ("jobs", "q=nowhere"),
    ("jobs", "q=priority:99"),
    ("jobs", "q=meta.tenant:nobody"),
    ("jobs", "q=ended<-100d"),
    ("job", "id=first"),
    ("dead-letters", "queue=a"),
)


def filled(path: Path, jobs: int) -> SQLiteStore:
    """A store with so many jobs: a third completed, some dead, the others pending."""
    store = SQLiteStore(path, env=Env(clock=ManualClock()), durability="normal")
    store.submit([Draft(id="first", task="t", queue="a")])
    drafts = [Draft(id=f"job-{n}", task="t", queue=QUEUES[n % 3]) for n in range(jobs)]
    for batch in batched(drafts, 1000):
        store.submit(list(batch))
    ended = 0
    while ended < jobs // 3:
        leases = store.exchange(request=LeaseRequest(worker="w", queues=QUEUES, limit=100)).leases
        ends = [
            Fail(JobError("Odd", "no"), retryable=False) if ended + n < DEAD else Complete()
            for n in range(len(leases))
        ]
        store.exchange(
            [Settlement(x.job_id, x.version, end) for x, end in zip(leases, ends, strict=True)]
        )
        ended += len(leases)
    return store


@pytest.fixture(scope="module")
def desks(tmp_path_factory: pytest.TempPathFactory) -> list[Desk]:
    folder = tmp_path_factory.mktemp("bounds")
    return [
        Desk(Api(filled(folder / f"{size}.db", size), env=Env(clock=ManualClock()), insecure=True))
        for size in (FEW, MANY)
    ]


def steps(desk: Desk, path: str, query: str) -> int:
    """How many steps the reads of a page take."""
    [view] = [view for known, _, _, view, _ in PAGES if known == path]
    visit = Visit(ANYBODY, QueryParams(query))
    store = desk.store
    assert isinstance(store, SQLiteStore)
    with store._database.read() as db:
        reader = db
    return steps_on(reader, lambda: view(desk, visit))


@pytest.mark.parametrize(("path", "query"), LOOKS)
def test_a_page_reads_no_more_of_more_jobs(
    desks: list[Desk], path: str, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "FEW", 50)
    monkeypatch.setattr(job_reading, "FEW", 50)
    monkeypatch.setattr(jobs, "READ_MAX", 200)
    monkeypatch.setattr(visit, "TASK_JOBS_READ", 20)
    few, many = (steps(desk, path, query) for desk in desks)
    assert many <= 1.2 * few + MORE_STEPS
    # Or nothing was counted at all.
    assert few > 0
