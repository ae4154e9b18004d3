"""kill -9 of processes that prune: a job is in the store or in the archive, never in neither."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from leasehold.core.model.search import JobFilter
from leasehold.stores.sqlite import SQLiteStore
from support.acknowledged import Acknowledged
from support.effort import drawn
from support.killing import under_fire

pytestmark = pytest.mark.faults

PROCESSES = 3
KILLS = drawn(120)


def test_a_pruned_job_is_archived_or_still_there(folder: Path, acknowledged: Acknowledged) -> None:
    path, told, random = folder / "jobs.db", acknowledged, Random(17)
    functions = ["support.pruning_children:submit_and_prune"] * PROCESSES
    under_fire(path, told, random, functions, kills=KILLS)
    store = SQLiteStore(path)
    assert store.check() == []
    archived: list[str] = []
    cursor: str | None = None
    while True:
        page = store.search_archive(JobFilter(), limit=1000, cursor=cursor)
        archived += [job.id for job in page.jobs]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert len(archived) == len(set(archived)) == store.stats().cleaned
    gone = set(archived)
    for job_id in told.submitted:
        live = store.get(job_id) is not None
        assert live != (job_id in gone), f"job {job_id}: live {live}, archived {job_id in gone}"
    # The processes got somewhere between the kills, and were killed half-way.
    assert len(archived) > KILLS
    assert any(record.ended_at is None and record.pruned for record in store.cleanups(1000))
    store.close()
