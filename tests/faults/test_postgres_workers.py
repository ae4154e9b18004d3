"""Worker processes on a PostgreSQL store, killed at any moment; a ledger outside of it judges."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from leasehold import NewJob, Status, TaskQueue
from leasehold.core.model.status import Event
from leasehold.testing.conformance.base import assert_history_replays
from support.effort import drawn
from support.faulty_worker import PATIENCE_SECONDS, News
from support.killing import kill_again_and_again
from support.servers import needs_psycopg
from support.zygote import zygote

needs_psycopg()

pytestmark = pytest.mark.faults

WORKERS = 3
KILLS = drawn(15)
JOBS_PER_KILL = 40


class Ledger:
    """What the workers wrote down: job, version and process of each run."""

    def __init__(self, path: Path) -> None:
        path.touch()
        self.path = path

    def runs(self) -> list[tuple[str, int]]:
        lines = (line.split() for line in self.path.read_text().splitlines())
        return [(job_id, int(version)) for job_id, version, _ in lines]


@pytest.mark.parametrize("seed", [41])
def test_every_acknowledged_job_runs_and_ends_once(url: str, tmp_path: Path, seed: int) -> None:
    random, ledger = Random(seed), Ledger(tmp_path / "ledger")
    acknowledged: list[str] = []
    with TaskQueue(url, num_workers=0) as queue, zygote("support.noting_worker") as processes:

        def start() -> int:
            return processes.spawn("support.noting_worker:work", url, str(ledger.path))

        def feed() -> None:
            named = [f"job-{len(acknowledged) + n}" for n in range(JOBS_PER_KILL)]
            queue.submit_many([NewJob("note", job_id=each, max_retries=50) for each in named])
            acknowledged.extend(named)
            # Some of them have run, others are about to.
            queue.wait(random.choice(named), PATIENCE_SECONDS)

        starts = [start] * WORKERS
        kill_again_and_again(processes, starts, random, kills=KILLS, pause=feed)
        for job_id in acknowledged:
            assert queue.wait(job_id, PATIENCE_SECONDS).status is Status.COMPLETED
        processes.kill_all()
        runs = ledger.runs()
        assert {job_id for job_id, _ in runs} == set(acknowledged)
        assert set(Counter(runs).values()) == {1}, "a fencing token ran twice"
        for job_id in acknowledged:
            job = queue.get(job_id)
            assert_history_replays(queue.store, job)
            events = Counter(event.event for event in queue.history(job_id))
            assert events[Event.COMPLETED] == 1
            assert events[Event.LEASED] >= sum(ran == job_id for ran, _ in runs)
        assert queue.check() == []


def test_jobs_of_killed_workers_run_again_although_their_leases_are_long(
    url: str, tmp_path: Path
) -> None:
    news = News(tmp_path / "news")
    with TaskQueue(url, num_workers=0) as queue, zygote("support.faulty_worker") as processes:
        work: tuple[Any, ...] = ("support.faulty_worker:work", url, news.path, {})
        queue.submit_many([NewJob("hold", (news.path, "held"), job_id="held", max_retries=50)])
        versions: list[int] = []
        for _ in range(3):
            holder = processes.spawn(*work)
            pid, version = news.wait_for("started", "held")
            # Only the proof of its death can explain that another one runs it: the lease is long.
            assert pid == holder
            versions.append(version)
            processes.kill(holder)
        last = processes.spawn(*work)
        _, version = news.wait_for("started", "held")
        assert versions == sorted(set(versions))
        assert version > versions[-1]
        news.open_gate("held", version)
        assert queue.wait("held", PATIENCE_SECONDS).status is Status.COMPLETED
        assert queue.get_result("held") == last
        lost = queue.attempts("held")[:-1]
        assert all(each.error is not None and "died" in each.error.message for each in lost)
        processes.kill_all()
    news.close()
