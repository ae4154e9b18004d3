"""PostgreSQL: a bounded search compares the texts of few jobs at a time, and goes on on request."""

from __future__ import annotations

import pytest

from leasehold.connect import connect
from leasehold.core.contract.looking import looking
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Fail, JobError
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from support.servers import needs_psycopg

needs_psycopg()

from leasehold.stores.postgres.reading import read  # noqa: E402  # needs psycopg

DEAD = 9
ODD = JobFilter(statuses=(Status.DEAD,), error_text="odd")


def test_dead_letters_are_compared_part_by_part(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "COMPARED_AT_ONCE", 2)
    monkeypatch.setattr(read, "COMPARED_MAX", 4)
    store = connect(url)
    store.submit([Draft(id=f"job-{n}", task="t", max_retries=0) for n in range(DEAD)])
    leases = store.exchange(request=LeaseRequest(worker="w", limit=DEAD)).leases
    for lease in leases:
        word = "odd" if lease.job_id in ("job-0", "job-6") else "even"
        end = Fail(JobError("Refused", word), retryable=False)
        store.exchange([Settlement(lease.job_id, lease.version, end)])
    found, cursor, parts = [], None, 0
    while True:
        page = looking(store).search(ODD, limit=1, cursor=cursor, read_max=1000)
        found += [job.id for job in page.jobs]
        parts += 1
        cursor = page.next_cursor
        if cursor is None:
            break
    assert found == ["job-6", "job-0"]
    assert parts > 2
    part = looking(store).count(ODD, read_max=1000)
    assert (part.jobs, part.is_exact) == (1, False)
    # Who does not ask for a bound is told all.
    assert [job.id for job in store.search(ODD).jobs] == ["job-6", "job-0"]
    assert store.count(ODD).jobs == 2
    store.close()
