"""Task names typed by people: a mistyped one is reported before its job is stored."""

from __future__ import annotations

import os
import sys

from leasehold.queue.facade import TaskQueue
from leasehold.queue.misnamed import NameCheck


class TypedTaskNames:
    """Checks names of tasks against the live workers, and the modules in this folder.

    Workers import modules from the folder in which they were started, which is usually this one.
    """

    def __init__(self, queue: TaskQueue) -> None:
        self._check = NameCheck([os.getcwd(), *sys.path])
        workers = queue.store.workers()
        self._served = frozenset(name for worker in workers for name in worker.tasks)
        queue.registry.known_elsewhere = self._served
        self._seen: set[str] = set()

    def check(self, name: str) -> None:
        """Raise UnknownTaskError for a task that no worker knows and its module does not have."""
        if name not in self._served and name not in self._seen:
            self._check.check(name, self._served)
            self._seen.add(name)
