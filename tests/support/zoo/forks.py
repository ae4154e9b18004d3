"""Tasks that fork. The parent looks how the copy ends, and returns only if that is right."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from leasehold.worker.context import current_job
from support.zoo.members import EVERYWHERE, hostile

SECONDS = 20.0


def _expect(copy: int, status: int) -> None:
    """Wait for a copy and see that it ended like this; kill it if it does not end."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        pid, wait_status = os.waitpid(copy, os.WNOHANG)
        if pid:
            assert os.waitstatus_to_exitcode(wait_status) == status
            return
        time.sleep(0.002)
    os.kill(copy, signal.SIGKILL)
    os.waitpid(copy, 0)
    raise AssertionError("the copy did not end")


@hostile(*EVERYWHERE, ends="completes", because="the copy returns as the task does")
def copy_returns() -> str:
    copy = os.fork()
    if copy:
        _expect(copy, 0)
        return "parent"
    return "copy"


@hostile(*EVERYWHERE, ends="completes", because="the copy returns and is not waited for")
def copy_returns_unheeded() -> str:
    return "parent" if os.fork() else "copy"


@hostile(*EVERYWHERE, ends="completes", because="ten copies return")
def many_copies_return() -> str:
    copies = []
    for _ in range(10):
        copy = os.fork()
        if not copy:
            return "copy"
        copies.append(copy)
    for copy in copies:
        _expect(copy, 0)
    return "parent"


@hostile(*EVERYWHERE, ends="completes", because="the copy raises")
def copy_raises() -> None:
    copy = os.fork()
    if not copy:
        raise ValueError("from the copy")
    _expect(copy, 1)


@hostile(*EVERYWHERE, ends="completes", because="the copy exits by sys.exit")
def copy_exits() -> None:
    copy = os.fork()
    if not copy:
        sys.exit(3)
    _expect(copy, 3)


@hostile(*EVERYWHERE, ends="completes", because="the copy exits with words")
def copy_exits_with_text() -> None:
    copy = os.fork()
    if not copy:
        sys.exit("enough")
    _expect(copy, 1)


@hostile(*EVERYWHERE, ends="completes", because="the copy ends by os._exit")
def copy_exits_hard() -> None:
    copy = os.fork()
    if not copy:
        os._exit(4)
    _expect(copy, 4)


@hostile(*EVERYWHERE, ends="completes", because="the copy becomes another program")
def copy_execs() -> None:
    copy = os.fork()
    if not copy:
        os.execv("/bin/true", ["/bin/true"])
    _expect(copy, 0)


@hostile(*EVERYWHERE, ends="completes", because="the copy is killed")
def copy_is_killed() -> None:
    copy = os.fork()
    if not copy:
        os.kill(os.getpid(), signal.SIGKILL)
    _expect(copy, -signal.SIGKILL)


@hostile(*EVERYWHERE, ends="completes", because="the copy is asked to end, and has our handlers")
def copy_is_terminated() -> None:
    copy = os.fork()
    if not copy:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(SECONDS)
    _expect(copy, -signal.SIGTERM)


@hostile(*EVERYWHERE, ends="completes", because="the copy forks, and both return")
def copy_forks_again() -> str:
    copy = os.fork()
    if copy:
        _expect(copy, 0)
        return "parent"
    grandchild = os.fork()
    if grandchild:
        _expect(grandchild, 0)
    return "copy"


@hostile(*EVERYWHERE, ends="completes", because="the copy reports on the job")
def copy_reports() -> None:
    def report() -> None:
        current_job().progress(1, 2)

    def log() -> None:
        current_job().log("from the copy")

    for speak in (report, log):
        copy = os.fork()
        if not copy:
            _try(speak)
        _expect(copy, 42)


@hostile("thread", "process", ends="completes", because="the copy opens the job's transaction")
def copy_opens_a_transaction() -> None:
    def begin() -> None:
        with current_job().transaction():
            pass

    copy = os.fork()
    if not copy:
        _try(begin)
    _expect(copy, 42)


def _try(speak: Callable[[], None]) -> None:
    try:
        speak()
    except Exception as error:
        os._exit(42 if "forked" in str(error) else 1)
    os._exit(0)


@hostile("thread", "process", ends="completes", because="it forks inside its own transaction")
def copy_inside_a_transaction() -> str:
    with current_job().transaction():
        copy = os.fork()
        if copy:
            _expect(copy, 0)
    return "parent" if copy else "copy"


@hostile("thread", "process", ends="completes", because="the copy raises inside the transaction")
def copy_raises_inside_a_transaction() -> None:
    with current_job().transaction():
        copy = os.fork()
        if not copy:
            raise ValueError("from the copy")
        _expect(copy, 1)


@hostile(*EVERYWHERE, ends="completes", because="it leaves a daemon behind, made in two forks")
def leave_a_daemon() -> None:
    copy = os.fork()
    if copy:
        _expect(copy, 0)
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    time.sleep(0.2)


def _work_of_a_process() -> None:
    with suppress(OSError):
        os.getcwd()


@hostile("thread", "process", ends="completes", because="multiprocessing forks for it")
def fork_by_multiprocessing() -> None:
    process = multiprocessing.get_context("fork").Process(target=_work_of_a_process)
    process.start()
    process.join(SECONDS)
    assert process.exitcode == 0


@hostile("thread", "process", ends="completes", because="a subprocess runs Python before it begins")
def fork_by_subprocess() -> None:
    subprocess.run(["/bin/true"], preexec_fn=_work_of_a_process, check=True)


@hostile(*EVERYWHERE, ends="fails", because="both copies raise")
def both_raise() -> None:
    os.fork()
    raise RuntimeError("card declined")


class _ForksWhenShown(Exception):  # noqa: N818
    def __str__(self) -> str:
        copy = os.fork()
        if copy:
            _expect(copy, 0)
        return "shown"


@hostile(*EVERYWHERE, ends="fails", because="its error forks when it is shown")
def error_forks() -> None:
    raise _ForksWhenShown
