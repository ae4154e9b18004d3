"""An application with workers of its own that forks: `python -m support.forked_application`.

Its arguments are a store, a folder and what the forked child does. It ends with 0 if the child
ended as it should, and soon, and the parent's workers went on as if nothing had happened.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from pathlib import Path

from leasehold import Status, TaskQueue
from leasehold.env import SYSTEM
from leasehold.stores.sqlite import SQLiteStore

SECONDS = 20.0
"""Less than an application gives its running jobs when it shuts down."""


def main() -> None:
    url, folder, what = sys.argv[1:]
    queue = TaskQueue(url, num_workers=4)
    begun, go = threading.Event(), threading.Event()

    @queue.task(name="hold")
    def hold() -> str:
        begun.set()
        assert go.wait(SECONDS)
        return "held"

    job = hold.submit()
    assert begun.wait(SECONDS)
    # Threads that the child will not have: one that waits, and one with the queue's own lock.
    threading.Thread(target=job.wait, daemon=True).start()
    locked, unlock = threading.Event(), threading.Event()

    def keep_the_lock() -> None:
        with queue._lock:
            locked.set()
            unlock.wait(SECONDS)

    threading.Thread(target=keep_the_lock, daemon=True).start()
    assert locked.wait(SECONDS)
    child = _fork(queue, what)
    assert _status(child) == 0
    unlock.set()
    workers = {worker.id for worker in queue.workers()}
    assert len(workers) == 1
    if isinstance(queue.store, SQLiteStore):
        assert not workers & queue.store.dead_workers(), "the child has freed the worker's lock"
    assert queue.get(job).status is Status.RUNNING
    go.set()
    assert job.result(SECONDS) == "held"
    assert queue.get(job).attempts == 1
    assert os.listdir(folder) == ["child"]
    queue.shutdown()


def _fork(queue: TaskQueue, what: str) -> int:
    folder = Path(sys.argv[2])
    if what == "multiprocessing":
        process = multiprocessing.get_context("fork").Process(target=_in_child, args=(folder,))
        process.start()
        assert process.pid is not None
        return process.pid
    child = os.fork()
    if child:
        return child
    _in_child(folder)
    if what == "shut down":
        queue.shutdown()
        queue.shutdown()
    elif what == "use":
        # Its own copy of a memory store; no worker comes to life for it. In a file the parent's
        # workers may have met the job already.
        queue.submit("nobody", 1)
        assert len(list(queue.search(task="nobody"))) == 1
    elif what == "leave the block":
        queue.__exit__(None, None, None)
    # One thread may be there without any worker: whoever waits for the write lock has it wait.
    others = {thread.name for thread in threading.enumerate()} - {"leasehold-write-lock"}
    assert others == {threading.current_thread().name}
    sys.exit(0)  # By way of the exit handlers, of which the queue has set one.


def _in_child(folder: Path) -> None:
    (folder / "child").write_text(str(os.getpid()))


def _status(child: int) -> int:
    """How it ended; it is killed, and the test fails, if that takes too long."""
    clock = SYSTEM.clock
    end = clock.monotonic() + SECONDS
    news = threading.Condition()
    while clock.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        with news:
            news.wait(0.01)
    os.kill(child, 9)
    raise AssertionError("the forked child does not end")


if __name__ == "__main__":
    main()
