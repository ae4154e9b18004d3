"""When the workers of a TaskQueue start automatically.

They start with its first use. They also start, a second after its first task was defined, in an
application that does not use the queue at first, so that jobs of an earlier run are picked up. That
applies only to the process that is the application. One that only imports it (a test run, a shell,
a database script) must not run its jobs.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Final

from leasehold.errors import LeaseholdError
from leasehold.forking import is_uwsgi_master
from leasehold.worker.executors.role import is_child_process
from leasehold.worker.modules import main_module
from leasehold.worker.safelog import safe_logger

logger = safe_logger("leasehold")

START_AFTER_SECONDS: Final = 1.0
"""The time allowed for the application to define its other tasks."""
VARIABLE: Final = "LEASEHOLD_AUTOSTART"
SERVERS: Final = frozenset(
    {"daphne", "granian", "gunicorn", "hypercorn", "mod_wsgi", "uvicorn", "uwsgi", "waitress"}
)
"""Programs that import an application in order to run it."""


class Autostart:
    """Starts the workers of one TaskQueue, once, shortly after its first task was defined."""

    def __init__(self, start: Callable[[], None], wanted: bool | None) -> None:
        self._start = start
        self._wanted = _of_environment() if _of_environment() is not None else wanted
        self._timer: threading.Timer | None = None
        self._is_put_off = False

    @property
    def is_off(self) -> bool:
        """Whether only `start()` and `with` start the workers."""
        return self._wanted is False

    @property
    def is_begun(self) -> bool:
        """Whether the workers start soon, or have started."""
        return self._timer is not None

    def begin(self, module: str) -> None:
        """Called when a task is defined in a module; only the first call counts."""
        if self.is_begun or _forbidden or is_child_process() or self.is_off:
            return
        if not self._wanted and not is_the_application(module):
            return
        if is_uwsgi_master():
            self.put_off()
            return
        self._begin()

    def _begin(self) -> None:
        self._timer = threading.Timer(START_AFTER_SECONDS, self._run)
        self._timer.name = "leasehold-start"
        self._timer.daemon = True
        self._timer.start()

    def put_off(self) -> None:
        """Start the workers in the serving processes of uWSGI, not here in its master."""
        self._is_put_off = True

    def begin_what_was_put_off(self) -> None:
        """Called when a process of uWSGI begins to serve."""
        if self._is_put_off and not is_uwsgi_master():
            self._is_put_off = False
            self._begin()

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _run(self) -> None:
        try:
            self._start()
        except LeaseholdError as error:
            # The next call on the queue raises it, too.
            logger.warning("the workers of this TaskQueue cannot start: %s", error)


def is_the_application(module: str) -> bool:
    """Whether this process was started to run the application to which a module belongs.

    It is if the module is the program that was started, or is in its package, or if a web server
    was started, which imports it to serve it.
    """
    program = main_module().partition(".")[0]
    if program in SERVERS:
        return True
    is_interactive = program == "__main__" or sys.flags.interactive
    return program == module.partition(".")[0] and not is_interactive and not _is_of_pool()


def _is_of_pool() -> bool:
    """Whether `multiprocessing` started this process, which imports modules only for their
    functions.
    """
    multiprocessing = sys.modules.get("multiprocessing.process")
    return multiprocessing is not None and multiprocessing.parent_process() is not None


def _of_environment() -> bool | None:
    said = os.environ.get(VARIABLE, "")
    if said in ("", "0", "1"):
        return None if not said else said == "1"
    raise ValueError(f"{VARIABLE} must be 1 or 0, not {said!r}")


_forbidden = False


def only_on_demand() -> None:
    """Called by a program that imports an application for a reason other than running it."""
    global _forbidden  # noqa: PLW0603 - it is a fact about the whole process.
    _forbidden = True
