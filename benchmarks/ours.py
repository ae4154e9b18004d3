"""Leasehold itself, used the way its users do: a TaskQueue, its worker, its tasks."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path

from benchmarks import tasks
from leasehold import NewJob, Status, TaskQueue
from leasehold.connect import connect
from leasehold.core.contract.store import Store
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.retention import Scope
from leasehold.env import SYSTEM
from leasehold.stores.memory import MemoryStore
from leasehold.stores.sqlite.disk.connection import open_writer
from leasehold.stores.sqlite.disk.files import Durability, StoreFiles
from leasehold.worker.pruner import Pruner

SLOTS = 8


def producer(path: str, durability: Durability) -> TaskQueue:
    return TaskQueue(path, num_workers=0, durability=durability)


def submit_one_by_one(path: str, durability: Durability, jobs: int, threads: int = 1) -> float:
    """Jobs per second, each acknowledged before its thread submits the next."""
    with producer(path, durability) as queue:
        queue.submit(tasks.noop)

        def submit() -> None:
            for _ in range(jobs // threads):
                queue.submit(tasks.noop)

        return jobs / _timed(lambda: _in_threads(submit, threads))


def submit_on_one_loop(path: str, durability: Durability, jobs: int, at_once: int) -> float:
    """Jobs per second of so many coroutines on one event loop, each awaiting its own submits."""
    with producer(path, durability) as queue:
        noop = queue.task(tasks.noop)

        async def submit() -> None:
            for _ in range(jobs // at_once):
                await noop.asubmit()

        async def all_of_them() -> float:
            await noop.asubmit()
            started = time.perf_counter()
            await asyncio.gather(*(submit() for _ in range(at_once)))
            return time.perf_counter() - started

        return jobs / asyncio.run(all_of_them())


def submit_many(path: str, durability: Durability, jobs: int) -> float:
    """Jobs per second, 10,000 to a call."""
    with producer(path, durability) as queue:
        queue.submit(tasks.noop)
        seconds = 0.0
        for _ in range(jobs // 10_000):
            batch = [NewJob(tasks.noop) for _ in range(10_000)]
            seconds += _timed(partial(queue.submit_many, batch))
        return jobs / seconds


def fill(path: str, durability: Durability, jobs: int) -> None:
    with producer(path, durability) as queue:
        for first in range(0, jobs, 10_000):
            queue.submit_many([NewJob(tasks.noop)] * min(10_000, jobs - first))


def metrics_millis(path: str, durability: Durability, samples: int) -> float:
    """How long it takes to ask for a queue's metrics."""
    with producer(path, durability) as queue:
        return statistics.median(1000 * _timed(queue.metrics) for _ in range(samples))


def fill_finished(path: str, jobs: int) -> None:
    """A store with so many completed jobs, written in bulk: running them would take all day."""
    producer(path, "full").shutdown()
    db = open_writer(StoreFiles.at(path).database, "normal")
    db.execute(
        "INSERT INTO lane (queue, task, completed, total_submitted, total_completed) "
        "VALUES ('default', 'benchmarks.tasks:noop', ?1, ?1, ?1)",
        (jobs,),
    )
    numbers = "WITH RECURSIVE n(i) AS (VALUES (?1) UNION ALL SELECT i + 1 FROM n WHERE i < ?2) "
    chunk = 250_000
    for first in range(1, jobs + 1, chunk):
        span = (first, min(first + chunk - 1, jobs))
        db.execute("BEGIN IMMEDIATE")
        db.execute(
            numbers + "INSERT INTO job SELECT i, printf('0190f4a2-0000-7000-8000-%012d', i),"
            " 1, 50, 2, i, 3, 4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,"
            ' \'{"args":[],"kwargs":{}}\', NULL FROM n',
            span,
        )
        db.execute(
            numbers + "INSERT INTO attempt SELECT i, 1, 1, 'bench', i, i, 4, 5, 1, 2, 3,"
            " NULL, NULL, NULL, NULL, NULL, NULL, NULL, 300000000 FROM n",
            span,
        )
        db.execute(
            numbers + "INSERT INTO finished SELECT i, 5, i, i, i, 1, 1, 3, 'null', NULL,"
            " NULL FROM n",
            span,
        )
        db.execute("COMMIT")
    db.execute("UPDATE store_state SET next_seq = ?", (jobs + 1,))
    db.pragma("wal_checkpoint(TRUNCATE)")
    db.close()


def drain(path: str, durability: Durability, jobs: int, store: Store | None = None) -> float:
    """Jobs per second from the worker's start until so many are completed and durable.

    The worker's modules are imported before, as they are in any worker process.
    """
    import_module("leasehold.worker.worker")
    place, level = (path, durability) if store is None else (store, None)
    queue = TaskQueue(place, num_workers=SLOTS, durability=level, import_tasks=["benchmarks"])
    before = queue.get_queue_stats()["total_completed"]

    def work() -> None:
        queue.start()
        _until_completed(queue, before + jobs)

    seconds = _timed(work)
    queue.shutdown()
    return jobs / seconds


def filled_drain(path: str, durability: Durability, jobs: int) -> float:
    """Drain a store into which so many jobs were put first."""
    fill(path, durability, jobs)
    return drain(path, durability, jobs)


def pruned_drain(path: str, durability: Durability, jobs: int) -> tuple[float, float]:
    """Drain a store into which so many jobs were put first, while the same process cleans it up.

    Jobs drained per second, and old jobs pruned per second meanwhile.
    """
    fill(path, durability, jobs)
    store = connect(path, durability=durability)
    pruner = Pruner(store, actor="bench")
    thread = threading.Thread(target=pruner.prune_once, args=(Scope(force=True),))
    before = store.stats().cleaned
    thread.start()
    _until(lambda: store.stats().cleaned > before)
    first, started = store.stats().cleaned, time.perf_counter()
    rate = drain(path, durability, jobs, store)
    pruned = (store.stats().cleaned - first) / (time.perf_counter() - started)
    assert thread.is_alive(), "the clean-up was over before the drain: give it more old jobs"
    pruner.stop()
    thread.join()
    store.close()
    return rate, pruned


def _until_completed(queue: TaskQueue, total: int) -> None:
    while queue.get_queue_stats()["total_completed"] < total:
        time.sleep(0.01)


@contextmanager
def worker_process(path: str, durability: Durability) -> Iterator[subprocess.Popen[bytes]]:
    """A worker in another process, ready for work when this is entered."""
    child = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.worker", path, durability], stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    child.stdout.readline()
    try:
        yield child
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait(60)
        child.stdout.close()


def idle_cpu(path: str, durability: Durability, seconds: float) -> float:
    """Per cent of one core that an idle worker process takes."""
    with worker_process(path, durability) as child:
        time.sleep(1)
        before = _cpu_seconds(child.pid)
        time.sleep(seconds)
        return 100 * (_cpu_seconds(child.pid) - before) / seconds


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def recovery(path: str, durability: Durability) -> float:
    """Seconds from kill -9 of a worker until its job runs again in another, default settings."""
    starts = Path(path + ".starts")
    with producer(path, durability) as queue, worker_process(path, durability) as first:
        job = queue.submit(tasks.hold, str(starts), 60)
        _until(lambda: starts.exists() and starts.read_text().endswith("\n"))
        with worker_process(path, durability):
            # Workers look for the dead once a second: be killed at any point of that second.
            time.sleep(random.uniform(0, 1))
            killed = time.time()
            first.kill()
            _until(lambda: len(starts.read_text().splitlines()) == 2)
            again = float(starts.read_text().splitlines()[1])
            assert queue.get_status(job) is Status.RUNNING
            queue.cancel(job, "the benchmark is over")
            return again - killed


def _until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.002)


def memory_exchanges(_: str, jobs: int) -> float:
    """Jobs per second as a worker does it: each call settles one job and leases the next."""
    store = MemoryStore(capacity=jobs + 1)
    request = LeaseRequest(worker="bench")

    def work() -> None:
        settlements: list[Settlement] = []
        for _ in range(jobs):
            store.submit([Draft(id=SYSTEM.new_id(), task="noop")])
            [lease] = store.exchange(settlements, request).leases
            settlements = [Settlement(lease.job_id, lease.version, Complete(b"null"))]
        store.exchange(settlements)

    return jobs / _timed(work)


def memory_life_cycle(_: str, jobs: int, batch: int) -> float:
    """Jobs per second through submit, lease and complete on the memory store, in one thread."""
    store = MemoryStore(capacity=jobs + 1)
    request = LeaseRequest(worker="bench", limit=batch)

    def work() -> None:
        for _ in range(0, jobs, batch):
            store.submit([Draft(id=SYSTEM.new_id(), task="noop") for _ in range(batch)])
            leases = store.exchange((), request).leases
            store.exchange([Settlement(x.job_id, x.version, Complete(b"null")) for x in leases])

    return jobs / _timed(work)


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _in_threads(work: Callable[[], None], threads: int) -> None:
    if threads == 1:
        return work()
    running = [threading.Thread(target=work) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return None
