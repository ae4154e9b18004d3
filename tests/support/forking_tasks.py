"""Tasks for child processes that fork, or leave something behind that speaks out of turn."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
import time

from leasehold.core.model.joblog import LogLine
from leasehold.core.model.outcome import Complete
from leasehold.env import SYSTEM
from leasehold.worker.context import current_job
from leasehold.worker.executors.wire import CodeEnded, LeaseKey, Logged, to_frame

_told: list[str] = []
_asked = threading.Event()


def end_like(ending: str) -> str:
    if ending == "exit":
        sys.exit(3)
    if ending == "raise":
        raise ValueError("from the copy")
    return "copy"


def fork_and_linger(ending: str) -> str:
    if os.fork():
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        return "parent"
    time.sleep(0.05)
    return end_like(ending)


async def fork_async(ending: str) -> str:
    copy = os.fork()
    if not copy:
        return end_like(ending)
    _, status = os.waitpid(copy, 0)  # noqa: ASYNC222 - the copy has to end without the loop.
    await asyncio.to_thread(time.sleep, 0.01)  # The loop still hears of other threads.
    return f"parent of a copy that ended with {os.waitstatus_to_exitcode(status)}"


def decline() -> None:
    time.sleep(0.1)
    raise RuntimeError("card declined")


def name_itself() -> str:
    time.sleep(0.02)
    return current_job().job_id


def pid() -> int:
    return os.getpid()


def _connection() -> socket.socket:
    """The connection to the worker, as whoever looks for it finds it."""
    for fd in range(3, 256):
        try:
            found = socket.socket(fileno=os.dup(fd))
        except OSError:
            continue
        if found.family == socket.AF_UNIX:
            return found
    raise AssertionError("there is no connection to the worker")


def forge_an_end(seconds: float) -> int:
    """Say, now or when the next job runs, that another lease of that job has completed."""
    connection = _connection()

    def send() -> None:
        time.sleep(seconds)
        about = LeaseKey("job-2", version=7)
        connection.sendall(to_frame(Logged(about, LogLine(SYSTEM.now(), "forged"))))
        connection.sendall(to_frame(CodeEnded(about, Complete(b'"forged"'))))

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    if not seconds:
        thread.join()
    return os.getpid()


def leave_a_thread_that_asks() -> str:
    ctx = current_job()

    def ask() -> None:
        time.sleep(0.05)
        try:
            ctx.fetch_dependency_results()
        except Exception as error:
            _told.append(str(error))
        _asked.set()

    threading.Thread(target=ask, daemon=True).start()
    return "left"


def hear_what_the_thread_was_told() -> str:
    assert _asked.wait(20)
    return _told[0]


def let_the_copy_report() -> str:
    ours, theirs = os.pipe()
    copy = os.fork()
    if copy:
        os.close(theirs)
        os.waitpid(copy, 0)
        return os.read(ours, 10_000).decode()
    try:
        current_job().log("from the copy")
    except Exception as error:
        os.write(theirs, str(error).encode())
    return "copy"
