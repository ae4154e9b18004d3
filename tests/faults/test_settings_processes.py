"""A worker process, started with everything as it comes, follows what another process sets."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from leasehold import TaskQueue
from leasehold.env import SYSTEM
from support.faulty_worker import PATIENCE_SECONDS, News
from support.zygote import Zygote, zygote

pytestmark = pytest.mark.faults


@pytest.fixture
def news(tmp_path: Path) -> Iterator[News]:
    news = News(tmp_path / "news")
    yield news
    news.close()


@pytest.fixture
def processes() -> Iterator[Zygote]:
    with zygote("support.faulty_worker") as processes:
        yield processes
        processes.kill_all()


def until_it_beats(queue: TaskQueue, times: int) -> None:
    """Wait for so many heartbeats of the one worker: minutes, if it beats as it does by default."""
    seen: set[datetime] = set()
    end = SYSTEM.clock.monotonic() + PATIENCE_SECONDS
    while len(seen) < times:
        seen.update(info.heartbeat_at for info in queue.workers())
        assert SYSTEM.clock.monotonic() < end, "the worker does not follow"


@pytest.mark.parametrize("slots", [1, 2], ids=["without a free slot", "with a free slot"])
def test_a_worker_follows_without_a_restart(
    tmp_path: Path, news: News, processes: Zygote, slots: int
) -> None:
    path = str(tmp_path / "jobs.db")
    with TaskQueue(path, num_workers=0) as queue:
        options = {"num_workers": slots}
        if slots == 1:
            # It is told nothing while it is full, and looks with its next heartbeat.
            options["heartbeat_interval"] = 1
        queue.settings.set("lease_seconds", "2m")
        processes.spawn("support.faulty_worker:work", path, news.path, options)
        queue.submit("hold", news.path, "one", job_id="one")
        news.wait_for("started", "one")
        job = queue.get("one")
        assert job.lease_acquired_at is not None
        assert job.lease_expires_at is not None
        assert job.lease_expires_at - job.lease_acquired_at == timedelta(minutes=2)
        if slots == 1:
            queue.settings.set("sweep_interval", "100ms")
            until_it_sweeps(queue)
        else:
            queue.settings.set("heartbeat_interval", "100ms")
            until_it_beats(queue, 20)


def until_it_sweeps(queue: TaskQueue) -> None:
    """Lose a job to nobody, again and again: each time a sweep of the worker takes it back."""
    queue.submit("unknown", queue="aside", job_id="lost", max_retries=50)
    end = SYSTEM.clock.monotonic() + PATIENCE_SECONDS
    for _ in range(5):
        lease = None
        while lease is None:
            # Straight from the store: this process does not sweep.
            lease = next(iter(_lease_aside(queue)), None)
            assert SYSTEM.clock.monotonic() < end, "the worker does not follow"


def _lease_aside(queue: TaskQueue) -> list[object]:
    request = queue.lease_request(1, "aside", "nobody", None, 0.05)
    return list(queue.store.exchange(request=request).leases)
