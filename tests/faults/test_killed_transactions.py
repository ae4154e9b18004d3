"""Processes killed and stopped in their transactions: effects are there exactly once."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from leasehold import NewJob, Status, TaskQueue
from leasehold.core.model.status import Event
from leasehold.env import SYSTEM
from leasehold.stores.sqlite import SQLiteStore
from leasehold.testing.conformance.base import assert_history_replays
from support.effort import drawn
from support.faulty_worker import PATIENCE_SECONDS, News
from support.killing import kill_again_and_again
from support.transaction_children import ADD_ROW, MAKE_ROWS
from support.zygote import Zygote, zygote

pytestmark = pytest.mark.faults

PROCESSES = 3
STEPS_BETWEEN_KILLS_MAX = 8
SHORT_LEASE = {"lease_seconds": 2.0, "heartbeat_interval": 0.5, "sweep_interval": 0.5}
LOOK_SECONDS = 0.002


class Scene:
    """A store with an application's table, and processes that work on both."""

    def __init__(self, folder: Path, processes: Zygote, news: News) -> None:
        self.path = str(folder / "jobs.db")
        self.processes = processes
        self.news = news
        self.queue = TaskQueue(self.path, num_workers=0)
        assert isinstance(self.queue.store, SQLiteStore)
        self.store = self.queue.store
        self.connection = self.queue.connect()
        self.connection.execute(MAKE_ROWS)

    def worker(self, task: str, **options: Any) -> int:
        return self.processes.spawn(
            "support.transaction_children:work", self.path, task, self.news.path, options
        )

    def rows(self) -> Counter[str]:
        return Counter(row[0] for row in self.connection.execute("SELECT id FROM app_row"))

    def completed(self) -> int:
        return self.queue.get_queue_stats()["completed"]

    def job_ids(self) -> set[str]:
        return {job.id for job in self.queue.search()}


@pytest.fixture
def scene(folder: Path) -> Iterator[Scene]:
    news = News(folder / "news")
    with zygote("support.transaction_children") as processes:
        scene = Scene(folder, processes, news)
        yield scene
        processes.kill_all()
        assert scene.store.check() == []
        scene.connection.close()
        scene.queue.shutdown()
    news.close()


def until(condition: Callable[[], object]) -> None:
    """Look again and again, for what nobody tells of."""
    pause = threading.Condition()
    end = SYSTEM.clock.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert SYSTEM.clock.monotonic() < end, "it does not come"
        with pause:
            pause.wait(LOOK_SECONDS)


def kill_between_steps(
    scene: Scene,
    start: Callable[[], int],
    steps: Callable[[], int],
    kills: int,
    random: Random,
    feed: Callable[[], object] = lambda: None,
) -> None:
    """Kill when some more steps were made; `feed` gives enough to do until the next kill."""

    def pause() -> None:
        wanted = steps() + random.randint(1, STEPS_BETWEEN_KILLS_MAX)
        feed()
        until(lambda: steps() >= wanted)

    kill_again_and_again(scene.processes, [start] * PROCESSES, random, kills=kills, pause=pause)


def run_jobs_under_fire(scene: Scene, task: str, kills: int, seed: int) -> list[str]:
    names: list[str] = []

    def feed() -> None:
        new = [f"job-{len(names) + number}" for number in range(STEPS_BETWEEN_KILLS_MAX)]
        names.extend(new)
        scene.queue.submit_many(
            [NewJob(task, (scene.path,), job_id=name, max_retries=10_000) for name in new]
        )

    kill_between_steps(
        scene, lambda: scene.worker(task), scene.completed, kills, Random(seed), feed
    )
    for job in scene.queue.wait(names, PATIENCE_SECONDS):
        assert job.status is Status.COMPLETED
    return names


def assert_exactly_once(scene: Scene, names: list[str]) -> None:
    assert scene.rows() == Counter(names), "an effect is missing, or there twice"


@pytest.mark.parametrize(
    ("task", "kills", "seed"), [("write", drawn(120), 51), ("write in process", 8, 53)]
)
def test_effects_are_exactly_once(scene: Scene, task: str, kills: int, seed: int) -> None:
    names = run_jobs_under_fire(scene, task, kills, seed)
    assert_exactly_once(scene, names)
    versions = dict(scene.connection.execute("SELECT id, version FROM app_row").fetchall())
    recovered = 0
    for name in names:
        job = scene.queue.get(name)
        assert versions[name] == job.lease_version, "another lease wrote it than completed it"
        assert_history_replays(scene.store, job)
        recovered += job.attempts - 1
    # The kills have hit.
    assert recovered >= kills // 4


def test_effects_that_are_not_in_the_transaction_are_found_out(scene: Scene) -> None:
    names = run_jobs_under_fire(scene, "write carelessly", 30, 54)
    with pytest.raises(AssertionError, match="there twice"):
        assert_exactly_once(scene, names)


def produce_under_fire(scene: Scene, *, together: bool, kills: int, seed: int) -> None:
    random = Random(seed)

    def start() -> int:
        seed = random.randrange(2**32)
        function = "support.transaction_children:produce"
        return scene.processes.spawn(function, scene.path, f"p{seed}", seed, together)

    def steps() -> int:
        return scene.queue.get_queue_stats()["total_submitted"]

    kill_between_steps(scene, start, steps, kills, random)
    scene.processes.kill_all()


def assert_order_and_job(scene: Scene) -> None:
    orders = scene.rows()
    assert set(orders) == scene.job_ids(), "an order without its job, or a job without its order"
    assert set(orders.values()) == {1}


@pytest.mark.parametrize("seed", [61, 62][: drawn(2)])
def test_there_is_an_order_if_and_only_if_there_is_its_job(scene: Scene, seed: int) -> None:
    produce_under_fire(scene, together=True, kills=drawn(80), seed=seed)
    assert_order_and_job(scene)
    assert len(scene.rows()) >= 80


def test_orders_that_do_not_share_the_transaction_are_found_out(scene: Scene) -> None:
    produce_under_fire(scene, together=False, kills=30, seed=63)
    with pytest.raises(AssertionError, match="an order without its job"):
        assert_order_and_job(scene)


def test_a_worker_stopped_past_its_lease_writes_nothing(scene: Scene) -> None:
    scene.queue.submit_many(
        [NewJob("hold and write", (scene.news.path, "job"), job_id="job", max_retries=9)]
    )
    stale = scene.worker("hold and write", **SHORT_LEASE)
    assert scene.news.wait_for("started", "job") == (stale, 1)
    os.kill(stale, signal.SIGSTOP)
    other = scene.worker("hold and write", **SHORT_LEASE)
    assert scene.news.wait_for("started", "job") == (other, 2)
    # It wakes up with its gate open, and opens its transaction while another one holds the job.
    scene.news.open_gate("job", 1)
    os.kill(stale, signal.SIGCONT)
    assert scene.news.wait_for("lost", "job") == (stale, 1)
    assert scene.rows() == Counter()
    scene.news.open_gate("job", 2)
    assert scene.queue.get_result("job", PATIENCE_SECONDS) == 2
    rows = scene.connection.execute("SELECT id, version FROM app_row").fetchall()
    assert rows == [("job", 2)]


def test_applications_and_workers_take_turns(scene: Scene) -> None:
    rounds = drawn(40, one_in=2)
    for _ in range(2):
        scene.worker("write")
    names = ["one", "two", "by-hand"]
    for name in names:
        scene.processes.spawn(
            "support.transaction_children:take_turns",
            scene.path,
            name,
            scene.news.path,
            rounds,
            name == "by-hand",
        )
    for name in names:
        scene.news.wait_for("done", name)  # Nobody failed, and nobody was starved.
    orders = [f"{name}-{number}" for name in names for number in range(rounds)]
    jobs = orders + [f"{order}-alone" for order in orders]
    for job in scene.queue.wait(jobs, PATIENCE_SECONDS):
        assert (job.status, job.attempts) == (Status.COMPLETED, 1)
    # One row per order, and one for each job that ran.
    assert scene.rows() == Counter(orders) + Counter(jobs)


def test_a_killed_application_leaves_nothing_and_blocks_nobody(scene: Scene) -> None:
    holder = scene.processes.spawn(
        "support.transaction_children:produce", scene.path, "holder", 1, True
    )
    until(scene.job_ids)
    scene.processes.kill(holder)
    with scene.connection.transaction():
        scene.connection.execute(ADD_ROW, ("after", 0))
        scene.queue.submit("ship", job_id="after", connection=scene.connection)
    assert_order_and_job(scene)
    history = scene.queue.history("after")
    assert [event.event for event in history] == [Event.CREATED]
