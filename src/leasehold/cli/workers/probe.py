"""A look at the application before its workers start: `python -m leasehold.cli.workers.probe`.

In a process of its own, since importing a module runs anybody's code: it may open stores, start
threads, or exit, and the parent of the workers must have nothing of that.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

import msgspec

from leasehold.cli.exits import Exit
from leasehold.cli.workers.application import (
    check_same_store,
    code_for,
    queues_in,
    reason_to_wait,
    store_of,
)
from leasehold.cli.workers.plan import AWAY, CrewPlan, read_plan, start_python, store_name
from leasehold.connect import connect
from leasehold.env import SYSTEM
from leasehold.errors import LeaseholdError
from leasehold.queue.autostart import only_on_demand
from leasehold.queue.facade import TaskQueue
from leasehold.worker.joblines import logger
from leasehold.worker.loglines import log_to_stderr

PAUSE_SECONDS_FIRST: Final = 0.5
PAUSE_SECONDS_MAX: Final = 5.0


class ProbeError(Exception):
    """The application cannot be served; the probe has said why on standard error."""

    def __init__(self, code: int) -> None:
        super().__init__(f"exit code {code}")
        self.code = code


class _TerminatedError(KeyboardInterrupt):
    """A SIGTERM. Nothing swallows a Ctrl-C, nor what extends it."""


def is_needed(plan: CrewPlan) -> bool:
    """Whether there is something to look at: modules, or a database server that may be away."""
    return bool(plan.modules) or _is_database(plan.store_url)


def with_store_of_application(plan: CrewPlan, *, store_is_given: bool) -> CrewPlan:
    """The plan, with the store of the application's own queue unless one was given.

    While the store's server is away, wait, and look again. Raises ProbeError if the modules cannot
    be imported, or are about another store; a SIGTERM meanwhile leaves this process.
    """
    use_given = store_is_given or not plan.modules
    asked = msgspec.structs.replace(plan, store_url=plan.store_url if use_given else "")
    told, pause_seconds = "", PAUSE_SECONDS_FIRST
    with _leaving_on_sigterm():
        while True:
            code, answer = _probed(asked)
            if code == Exit.OK:
                return msgspec.structs.replace(plan, store_url=answer or plan.store_url)
            if code != AWAY:
                raise ProbeError(code if code > 0 else Exit.FAILURE)
            if answer != told:
                logger.warning("the worker cannot start yet, and waits for the store: %s", answer)
                told = answer
            SYSTEM.clock.pause(pause_seconds)
            pause_seconds = min(2 * pause_seconds, PAUSE_SECONDS_MAX)


def _probed(plan: CrewPlan) -> tuple[int, str]:
    """The exit code of a probe, and what it wrote: a store, or what it waits for.

    A fresh process for every try, since a module that was imported halfway may not be importable
    a second time.
    """
    ours, theirs = os.pipe()
    process = start_python("leasehold.cli.workers.probe", plan, theirs)
    os.close(theirs)
    try:
        with open(ours, "rb") as answer:
            text = answer.read().decode()
        return process.wait(), text
    except BaseException:  # It has a session of its own: no Ctrl-C reaches it.
        process.kill()
        process.wait()
        raise


@contextmanager
def _leaving_on_sigterm() -> Iterator[None]:
    """Let SIGTERM end the wait as it ends a worker, also in a container's first process."""

    def leave(_number: int, _frame: FrameType | None) -> None:
        raise _TerminatedError

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    except _TerminatedError:
        raise SystemExit(Exit.OK) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def main() -> None:
    """Look at the application, and write the store of its queue for the parent, if it has one."""
    try:
        _look()
    except (KeyboardInterrupt, BrokenPipeError):
        # Ctrl-C reaches parent and probe together, and a parent that was stopped reads no answer.
        sys.exit(Exit.INTERRUPTED)


def _look() -> None:
    plan, link_fd = read_plan()
    log_to_stderr(quiet=False, utc=plan.utc)
    only_on_demand()
    sys.path.insert(0, os.getcwd())
    try:
        queues = queues_in(plan.modules)
        url = plan.store_url
        if url:
            check_same_store(queues, url)
        else:
            url = store_of(queues) or ""
        _check_server(url, queues)
    except LeaseholdError as error:
        reason = reason_to_wait(error)
        if reason is None:
            sys.exit(code_for(error))
        _answer(link_fd, reason)
        sys.exit(AWAY)
    _answer(link_fd, url)
    for queue in queues.values():
        queue.shutdown()


def _check_server(url: str, queues: dict[str, TaskQueue]) -> None:
    """Open the store on a server, unless a queue has it open already.

    A service is not asked: a store behind one opens without it, and its worker waits by itself.
    """
    opened = {store_name(queue.url) for queue in queues.values() if queue.url}
    if _is_database(url) and store_name(url) not in opened:
        connect(url).close()


def _is_database(url: str) -> bool:
    return url.startswith(("postgresql://", "postgres://"))


def _answer(link_fd: int, text: str) -> None:
    with open(link_fd, "wb") as answer:
        answer.write(text.encode())


if __name__ == "__main__":
    main()
