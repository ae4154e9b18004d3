"""Workers that are killed, stopped or busy: the dead are replaced, the living are not robbed."""

from __future__ import annotations

import fcntl
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from leasehold import NewJob, TaskQueue
from leasehold.core.model.status import Event, Status
from leasehold.env import SYSTEM, Env, ManualClock
from leasehold.stores.sqlite import SQLiteStore
from leasehold.testing.conformance.base import assert_history_replays
from support.faulty_worker import PATIENCE_SECONDS, News
from support.readable import is_readable
from support.zygote import Zygote, zygote

pytestmark = pytest.mark.faults

LONG_LEASE_SECONDS = 300.0
LOOK_SECONDS = 0.005
SHORT_LEASE = {"lease_seconds": 2.0, "heartbeat_interval": 0.5, "sweep_interval": 0.5}


class Scene:
    """A store, processes that work on it, and news from them."""

    def __init__(self, folder: Path, processes: Zygote, news: News) -> None:
        self.path = str(folder / "jobs.db")
        self.processes = processes
        self.news = news
        self.queue = TaskQueue(self.path, num_workers=0)
        assert isinstance(self.queue.store, SQLiteStore)
        self.store = self.queue.store

    def worker(self, **options: Any) -> int:
        return self.processes.spawn(
            "support.faulty_worker:work", self.path, self.news.path, options
        )

    def submit(self, task: str, name: str, *args: Any, **options: Any) -> None:
        self.queue.submit_many(
            [NewJob(task, args or (self.news.path, name), job_id=name, max_retries=50, **options)]
        )

    def events(self, name: str) -> Counter[Event]:
        return Counter(event.event for event in self.store.history(name))

    def assert_completed_once(self, name: str, version: int) -> None:
        job = self.queue.wait(name, PATIENCE_SECONDS)
        assert (job.status, job.lease_version) == (Status.COMPLETED, version), job
        assert self.events(name)[Event.COMPLETED] == 1
        assert_history_replays(self.store, job)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    news = News(tmp_path / "news")
    with zygote("support.faulty_worker") as processes:
        scene = Scene(tmp_path, processes, news)
        yield scene
        processes.kill_all()
        assert scene.store.check() == []
        scene.queue.shutdown()
    news.close()


def stop(pid: int) -> None:
    """SIGSTOP, and wait until the process stands still."""
    os.kill(pid, signal.SIGSTOP)
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        pass


def may_write(store: SQLiteStore) -> bool:
    """Whether nobody holds the lock under which processes write in turn."""
    with open(store._database.files.write_lock, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def until(condition: Callable[[], object]) -> None:
    """Look again and again, for what nobody tells of."""
    end = SYSTEM.clock.monotonic() + PATIENCE_SECONDS
    pause = threading.Event()
    while not condition():
        assert SYSTEM.clock.monotonic() < end, "it does not come"
        pause.wait(LOOK_SECONDS)


@pytest.mark.parametrize("seed", [31])
def test_jobs_of_killed_workers_run_again_although_their_leases_are_long(
    scene: Scene, seed: int
) -> None:
    random = Random(seed)
    names = ["one", "two", "three"]
    for name in names:
        scene.submit("hold", name)
    for _ in range(3):
        scene.worker()  # all settings as they come: a lease of 300 seconds
    holders = {name: scene.news.wait_for("started", name) for name in names}
    kills = 10
    for kill in range(kills):
        victim, _ = random.choice(sorted(holders.values()))
        scene.processes.kill(victim)
        # A worker that starts looks for the dead at once, and those that run look soon.
        if kill % 2:
            scene.worker()
        for name, (pid, version) in holders.items():
            if pid == victim:
                # Only the proof of its death can explain that another one runs it already.
                holders[name] = scene.news.wait_for("started", name)
                assert holders[name][1] == version + 1
        if kill % 2 == 0:
            scene.worker()
    for name, (_, version) in holders.items():
        scene.news.open_gate(name, version)
        scene.assert_completed_once(name, version)
        assert scene.events(name)[Event.RECOVERED] == version - 1
        for attempt in scene.store.attempts(name)[:-1]:
            assert attempt.error is not None
            assert "died" in attempt.error.message
    assert sum(version - 1 for _, version in holders.values()) >= kills


def test_a_worker_stopped_past_its_lease_begins_nothing_that_it_had_leased_ahead(
    scene: Scene, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger"
    ledger.touch()
    ahead = [f"note-{number}" for number in range(5)]
    scene.submit("hold", "first", priority=100)
    for name in ahead:
        scene.submit("note", name, str(ledger))
    stale = scene.processes.spawn(
        "support.faulty_worker:work_ahead",
        scene.path,
        scene.news.path,
        {"num_workers": 1, **SHORT_LEASE},
        len(ahead),
    )
    assert scene.news.wait_for("started", "first") == (stale, 1)
    stop(stale)
    while not may_write(scene.store):
        # Stopped while it renews, it would keep everybody else from writing too.
        os.kill(stale, signal.SIGCONT)
        stop(stale)
    assert [scene.queue.get(name).status for name in ahead] == [Status.RUNNING] * len(ahead)
    other = scene.worker(**SHORT_LEASE)
    for name in ahead:
        scene.queue.wait(name, PATIENCE_SECONDS)
    # Its thread is free as soon as it goes on, with five jobs in line that others have done.
    scene.news.open_gate("first", 1)
    os.kill(stale, signal.SIGCONT)
    refused = {Event.ABANDONED, Event.VERSION_MISMATCH}
    for name in ahead:
        until(lambda name=name: scene.events(name).keys() & refused)  # type: ignore[misc]
    begun = [line.split() for line in ledger.read_text().splitlines()]
    assert sorted(begun) == [[name, "2", str(other)] for name in ahead]


def test_a_worker_stopped_past_its_lease_is_fenced(scene: Scene) -> None:
    scene.submit("hold", "job")
    stale = scene.worker(**SHORT_LEASE)
    assert scene.news.wait_for("started", "job") == (stale, 1)
    stop(stale)
    other = scene.worker(**SHORT_LEASE)
    assert scene.news.wait_for("started", "job") == (other, 2)
    # It wakes up with its work done, and wants to say so.
    scene.news.open_gate("job", 1)
    os.kill(stale, signal.SIGCONT)
    assert scene.news.wait_for("lost", "job") == (stale, 1)
    # Its own clock tells it already, so that it does not even try; or else the store refuses it.
    until(lambda: scene.events("job").keys() & {Event.ABANDONED, Event.VERSION_MISMATCH})
    job = scene.store.get("job")
    assert job is not None
    assert (job.status, job.result, job.lease_version) == (Status.RUNNING, None, 2)
    scene.news.open_gate("job", 2)
    scene.assert_completed_once("job", 2)
    assert scene.queue.get_result("job") == other


def test_a_consumer_stopped_past_its_lease_is_refused_by_the_store(scene: Scene) -> None:
    """One who builds a worker of their own, without heartbeats or a look at the clock."""
    scene.submit("hold", "job")
    function = "support.faulty_worker:consume"
    stale = scene.processes.spawn(function, scene.path, scene.news.path, 1.0)
    assert scene.news.wait_for("started", "job") == (stale, 1)
    stop(stale)
    other = scene.worker(**SHORT_LEASE)
    assert scene.news.wait_for("started", "job") == (other, 2)
    scene.news.open_gate("job", 1)
    os.kill(stale, signal.SIGCONT)
    assert scene.news.wait_for("LeaseConflictError", "job") == (stale, 1)
    [refused] = [e for e in scene.store.history("job") if e.event is Event.VERSION_MISMATCH]
    assert refused.lease_version == 1
    job = scene.store.get("job")
    assert job is not None
    assert (job.status, job.result, job.lease_version) == (Status.RUNNING, None, 2)
    scene.news.open_gate("job", 2)
    scene.assert_completed_once("job", 2)
    assert scene.queue.get_result("job") == other


def test_a_worker_that_is_merely_stopped_is_not_robbed(scene: Scene) -> None:
    scene.submit("hold", "job")
    holder = scene.worker(lease_seconds=LONG_LEASE_SECONDS)
    assert scene.news.wait_for("started", "job") == (holder, 1)
    stop(holder)
    # Another worker comes, and sweeps when it starts; so do we, as often as we like.
    other = scene.worker(sweep_interval=0.1)
    scene.submit("hold", "another")
    assert scene.news.wait_for("started", "another") == (other, 1)
    scene.news.open_gate("another", 1)
    scene.assert_completed_once("another", 1)
    for _ in range(20):
        assert scene.store.dead_workers() == set()
        report = scene.store.recover()
        assert (report.expired_found, report.recovered) == (0, 0)
    os.kill(holder, signal.SIGCONT)
    scene.news.open_gate("job", 1)
    scene.assert_completed_once("job", 1)


def test_a_busy_worker_keeps_its_lease(scene: Scene, tmp_path: Path) -> None:
    """A task that keeps the interpreter busy does not starve heartbeats."""
    scene.submit("spin", "busy", str(tmp_path / "end"))
    for _ in range(2):
        scene.worker(lease_seconds=30.0, heartbeat_interval=0.2, sweep_interval=0.2, num_workers=1)

    def expires_at() -> datetime | None:
        job = scene.store.get("busy")
        assert job is not None
        return job.lease_expires_at

    for _ in range(5):
        before = expires_at()
        until(lambda before=before: expires_at() != before)  # type: ignore[misc]
    (tmp_path / "end").touch()
    scene.assert_completed_once("busy", 1)
    assert scene.events("busy")[Event.RECOVERED] == 0


def test_a_process_dies_with_its_worker_and_its_job_runs_again(scene: Scene) -> None:
    scene.submit("hold in process", "job")
    worker = scene.worker()
    child, version = scene.news.wait_for("started", "job")
    assert child != worker
    assert version == 1
    alive = os.pidfd_open(child)
    scene.processes.kill(worker)
    assert is_readable(alive, PATIENCE_SECONDS), "the child outlives its worker"
    os.close(alive)
    scene.worker()
    _, version = scene.news.wait_for("started", "job")
    scene.news.open_gate("job", version)
    scene.assert_completed_once("job", 2)


def test_a_command_dies_with_its_worker_and_its_job_runs_again(
    scene: Scene, tmp_path: Path
) -> None:
    name = "support.faulty_worker:work_on_commands"
    command = f"printf 'started\\tcommand\\t%s\\t0\\n' $$ > '{scene.news.path}'; sleep 1000"
    [job] = scene.queue.submit_many(
        [NewJob("command", document={"shell": command}, max_retries=50)]
    )
    worker = scene.processes.spawn(name, scene.path, str(tmp_path / "output"))
    shell, _ = scene.news.wait_for("started", "command")
    alive = os.pidfd_open(shell)
    scene.processes.kill(worker)
    assert is_readable(alive, PATIENCE_SECONDS), "the command outlives its worker"
    os.close(alive)
    scene.processes.spawn(name, scene.path, str(tmp_path / "output"))
    again, _ = scene.news.wait_for("started", "command")
    assert again != shell
    assert scene.events(job.id)[Event.RECOVERED] == 1


def test_a_stray_process_delays_recovery_until_the_lease_ends(scene: Scene) -> None:
    scene.submit("stray", "job", lease_seconds=LONG_LEASE_SECONDS)
    worker = scene.worker()
    stray, _ = scene.news.wait_for("stray", "job")
    try:
        scene.news.wait_for("started", "job")
        scene.processes.kill(worker)
        # What is left of the worker may still be working on the job, for all that can be proved.
        assert scene.store.dead_workers() == set()
        assert scene.store.recover().recovered == 0
        later = ManualClock(SYSTEM.now() + timedelta(seconds=LONG_LEASE_SECONDS + 1))
        in_the_future = SQLiteStore(scene.path, env=Env(clock=later))
        assert in_the_future.recover().recovered == 1
        in_the_future.close()
    finally:
        os.kill(stray, signal.SIGKILL)
    job = scene.store.get("job")
    assert job is not None
    assert job.status is Status.PENDING
