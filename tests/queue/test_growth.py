"""A queue that only grows is told, on every store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold import TaskQueue
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.records import WorkerInfo
from leasehold.env import Env, ManualClock
from leasehold.observe.findings import Finding
from leasehold.queue import growth
from leasehold.queue.health import findings_of

MINUTE = 60.0


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def still(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock
) -> Iterator[TaskQueue]:
    if request.param == "postgres":
        url = request.getfixturevalue("schemas").lend()
    else:
        url = "memory://" if request.param == "memory" else str(tmp_path / "jobs.db")
    with TaskQueue(url, num_workers=0, env=Env(clock)) as queue:
        yield queue
    if request.param == "postgres":
        request.getfixturevalue("schemas").take_back(url)


class Mill:
    """A queue to which jobs come, and a worker that takes some of them."""

    def __init__(self, queue: TaskQueue, clock: ManualClock, name: str = "mail") -> None:
        self.queue, self.store, self.clock, self.name = queue, queue.store, clock, name
        self.count = 0

    def minute(self, come: int, leave: int) -> None:
        """A minute in which so many jobs come, and so many are run."""
        self.step(come, leave)
        self.clock.advance(MINUTE)

    def step(self, come: int, leave: int) -> None:
        now = self.store.now()
        self.store.register_worker(
            WorkerInfo(
                id="w", host="h", pid=1, queues=(self.name, "other"), slots=1, started_at=now,
                heartbeat_at=now,
            )
        )  # fmt: skip
        numbers = range(self.count, self.count + come)
        self.count += come
        jobs = [Draft(id=f"{self.name}-{n}", task="t", queue=self.name) for n in numbers]
        if jobs:
            self.store.submit(jobs)
        if leave:
            request = LeaseRequest(worker="w", queues=(self.name,), limit=leave)
            leases = self.store.exchange(request=request).leases
            self.store.exchange([Settlement(x.job_id, x.version, Complete()) for x in leases])

    def told(self) -> Finding:
        [finding] = [
            each
            for each in findings_of(self.queue)
            if each.check == "growing" and each.queue == self.name
        ]
        return finding


@pytest.fixture
def mill(still: TaskQueue, clock: ManualClock) -> Mill:
    return Mill(still, clock)


def test_a_queue_that_grew_in_each_third_of_a_quarter_of_an_hour_is_told(mill: Mill) -> None:
    for _ in range(9):
        mill.minute(30, 10)
        assert mill.told().level == "ok"
    for _ in range(8):
        mill.minute(30, 10)
    told = mill.told()
    assert told.level == "warning"
    assert told.found == "from 60 to 340 pending in 15 minutes: 420 came, 140 were leased"
    assert "queuectl stats mail" in told.advice
    # As soon as the workers keep up with it, it is not told any more, however deep it is.
    for _ in range(6):
        mill.minute(10, 10)
    assert mill.told().level == "ok"


def test_a_burst_and_a_queue_that_keeps_up_are_no_alert(mill: Mill) -> None:
    mill.minute(1000, 0)
    for minute in range(20):
        # A little more and a little less, as in any queue.
        mill.minute(52 if minute % 2 else 50, 50)
        assert mill.told().level == "ok"


def test_a_paused_queue_is_left_to_who_paused_it(mill: Mill) -> None:
    for _ in range(17):
        mill.minute(30, 10)
    assert mill.told().level == "warning"
    mill.queue.pause_queue("mail")
    assert mill.told().level == "ok"


def test_only_queues_that_grow_are_read_once_more(
    mill: Mill, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Mill(mill.queue, mill.clock, "other")
    for _ in range(17):
        other.step(60, 10)
        mill.minute(30, 10)
    mill.queue.submit("t", queue="idle")
    assert (mill.told().level, other.told().level) == ("warning", "warning")
    monkeypatch.setattr(growth, "LOOKED_AT", 1)
    # The one that grew most is looked at; the other is not judged by its latest minutes alone.
    assert (mill.told().level, other.told().level) == ("ok", "warning")
