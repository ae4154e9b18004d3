"""A queue made before the process forks, as prefork servers do: it works in every child."""

from __future__ import annotations

import asyncio
import ctypes
import multiprocessing
import os
import signal
import threading
from multiprocessing.connection import Connection
from pathlib import Path

from leasehold import Status, TaskQueue
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.errors import StoreLostError

FORK = multiprocessing.get_context("fork")
SERVERS = 4
REQUESTS = 10


def complete_everything(queue: TaskQueue, worker: str) -> None:
    while leases := queue.store.exchange((), LeaseRequest(worker=worker, limit=5)).leases:
        queue.store.exchange(
            [Settlement(lease.job_id, lease.version, Complete(b'"done"')) for lease in leases]
        )


def serve(queue: TaskQueue, name: str, news: Connection) -> None:
    """Submit with each request, wait for some of the results, and tell what was acknowledged."""
    handles = [queue.submit("task", name, number) for number in range(REQUESTS)]
    complete_everything(queue, name)
    assert handles[-1].result(20) == "done"
    news.send([handle.id for handle in handles])
    queue.shutdown()


def test_a_queue_made_before_a_fork_works_in_every_child(tmp_path: Path) -> None:
    queue = TaskQueue(tmp_path / "jobs.db", num_workers=0)
    # The parent has used all of it: connections, the thread that wakes, the one that waits.
    first = queue.submit("task", "parent", 0)
    complete_everything(queue, "parent")
    assert first.result(20) == "done"
    acknowledged = [first.id]
    servers = []
    for number in range(SERVERS):
        receiver, sender = FORK.Pipe(duplex=False)
        server = FORK.Process(target=serve, args=(queue, f"server-{number}", sender))
        server.start()
        sender.close()
        servers.append((server, receiver))
        acknowledged.append(queue.submit("task", "parent", number + 1).id)
    for server, receiver in servers:
        acknowledged += receiver.recv()
        server.join()
        assert server.exitcode == 0
    complete_everything(queue, "parent")
    assert queue.wait(acknowledged, 20)
    assert len(set(acknowledged)) == 1 + SERVERS + SERVERS * REQUESTS
    assert queue.get_queue_stats()["completed"] == len(acknowledged)
    assert queue.check() == []
    queue.shutdown()


def test_every_part_of_the_queue_begins_anew_in_a_child(tmp_path: Path) -> None:
    """Whoever leases waits, and awaitable calls are carried, without the parent's threads."""
    queue = TaskQueue(tmp_path / "jobs.db", num_workers=0)
    asyncio.run(queue.asubmit("task", queue="other"))  # The parent has used its bridge.
    locked, unlock = threading.Event(), threading.Event()

    def keep_the_lock() -> None:
        with queue.ready._condition:
            locked.set()
            unlock.wait(20)

    assert queue.lease(wait=0) is None  # It listens.
    keeper = threading.Thread(target=keep_the_lock)
    keeper.start()
    assert locked.wait(20)
    server = FORK.Process(target=lease_and_await, args=(queue,))
    server.start()
    unlock.set()
    keeper.join()
    server.join()
    assert server.exitcode == 0
    queue.shutdown()


def lease_and_await(queue: TaskQueue) -> None:
    signal.alarm(20)  # It ends badly rather than never.
    queue.ready.wait(queue.ready.count, 0.01)
    handle = asyncio.run(queue.asubmit("task"))
    lease = queue.lease(wait=20)
    assert lease is not None
    assert lease.job_id == handle.id
    queue.ack(lease, "done")
    assert asyncio.run(queue.await_end(handle, 20)).status is Status.COMPLETED
    queue.shutdown()


def test_nobody_waits_for_a_thread_that_a_fork_in_c_left_behind(tmp_path: Path) -> None:
    queue = TaskQueue(tmp_path / "jobs.db", num_workers=0)
    handle = queue.submit("task")
    complete_everything(queue, "parent")
    assert handle.result(20) == "done"
    child = ctypes.PyDLL(None).fork()
    if child == 0:
        code = 1
        try:
            handle.wait()
        except StoreLostError:
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    queue.shutdown()
