"""The event loop that async tasks share: theirs to use, not theirs to end.

Any task on it may exit, stop it, or fork. An exit or a stop ends `run_forever`, and the loop simply
continues where it was: asyncio keeps its pending steps. Only a closed or broken loop is abandoned.
In a forked copy it never runs again: the copy would run the steps of other jobs, and change the
selector that it shares with the parent.
"""

from __future__ import annotations

import asyncio
import os
import selectors
import sys
import weakref
from collections.abc import Callable
from typing import Final

from leasehold.forking import at_fork
from leasehold.worker.copies import here, leave_copy
from leasehold.worker.describe import describe_briefly, guarded
from leasehold.worker.safelog import safe_logger

logger = safe_logger("leasehold.worker")


class SharedLoop(asyncio.SelectorEventLoop):
    """An event loop that outlives the tasks on it."""

    def __init__(self) -> None:
        self._home = os.getpid()
        # Made here, not by a policy, which the application may replace at any time.
        super().__init__(_HomeSelector())
        _loops.add(self)

    def turn(self, is_wanted: Callable[[], bool]) -> None:
        """Run while wanted, whatever its tasks do; returns early if it cannot continue."""
        told = False
        while is_wanted() and not self.is_closed():
            try:
                self.run_forever()
                how = "was stopped by one of its tasks"
            except (SystemExit, KeyboardInterrupt) as error:
                how = f"was left by a task with {describe_briefly(error)}"
            except BaseException:
                self._leave_if_copy()
                # Not raised by a task, whose errors asyncio keeps: the loop itself is broken.
                logger.exception("the event loop of async tasks stopped unexpectedly")
                return
            self._leave_if_copy()
            if is_wanted() and not told:
                told = True  # Once only: a task may do so at every step.
                logger.error("the event loop of async tasks %s; it continues", how)

    def reset(self) -> None:
        """Undo settings that one task made for all: the task factory and the exception handler."""
        if self.get_task_factory() is not None:
            self.set_task_factory(None)
        if self.get_exception_handler() is not None:
            self.set_exception_handler(None)

    def forget_what_is_due(self) -> None:
        """Called in a forked copy: run no further steps, not even those already due."""
        # asyncio takes as many steps from here as it has counted before, and finds none.
        due = getattr(self, "_ready", None)
        if due is not None:
            due.clear()

    def _leave_if_copy(self) -> None:
        if os.getpid() != self._home:
            _leave_copy_of_loop()


class _HomeSelector(selectors.DefaultSelector):
    """Waits for events only in the process that made it."""

    def __init__(self) -> None:
        super().__init__()
        self._home = here()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if here() != self._home:
            _leave_copy_of_loop()
        return super().select(timeout)


def _leave_copy_of_loop() -> None:
    text = (
        f"leasehold: process {os.getpid()} was forked in an async task and ends here, as it went "
        "back to the event loop: a copy cannot await anything\n"
    )
    guarded(lambda: sys.stderr.write(text), None)
    leave_copy(SystemExit(1))


_loops: Final[weakref.WeakSet[SharedLoop]] = weakref.WeakSet()


def _forget_in_copy() -> None:
    for loop in list(_loops):
        loop.forget_what_is_due()


at_fork(after_in_child=_forget_in_copy)
