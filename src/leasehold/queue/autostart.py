"""Workers of an application that submits nothing: they start soon after its tasks are defined.

Jobs that an earlier run left behind are picked up so, without a word from the application. The
moment between is for its other tasks to be defined.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from leasehold.errors import LeaseholdError
from leasehold.worker.executors.role import is_child_process
from leasehold.worker.safelog import safe_logger

logger = safe_logger("leasehold")

START_AFTER_SECONDS: Final = 1.0


class Autostart:
    """Starts the workers of one TaskQueue, once, a moment after it was told of a task."""

    def __init__(self, start: Callable[[], None]) -> None:
        self._start = start
        self._timer: threading.Timer | None = None

    def begin(self) -> None:
        """Said when a task is defined; the first time counts."""
        if self._timer is not None or _forbidden or is_child_process():
            return
        self._timer = threading.Timer(START_AFTER_SECONDS, self._run)
        self._timer.name = "leasehold-start"
        self._timer.daemon = True
        self._timer.start()

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _run(self) -> None:
        try:
            self._start()
        except LeaseholdError as error:
            # Whoever uses the queue next hears of it, too.
            logger.warning("the workers of this TaskQueue cannot start: %s", error)


_forbidden = False


def only_on_demand() -> None:
    """Said by a program that imports an application for another reason than to be it."""
    global _forbidden  # noqa: PLW0603 - it is a fact about the whole process.
    _forbidden = True
