"""A part of a worker that does its work in a thread of its own."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod


class OwnThread(ABC):
    """The common part of heartbeat, sweep and pruner: a thread that is started, waits, and is
    stopped.

    A subclass implements in `_run` what the thread does until `_stopping`; it waits on
    `_condition`, which `stop` notifies.
    """

    def __init__(self, name: str) -> None:
        self._thread_name = name
        self._condition = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stopping = False

    def start(self) -> None:
        """Start a thread that runs until `stop`."""
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=self._thread_name, daemon=True)
        self._thread.start()

    def stop(self, wait: bool = True, timeout: float | None = None) -> bool:
        """End the thread, after any call to the store that it is in.

        With `wait`, return when it has ended, or after `timeout` seconds. True if it has ended.
        """
        with self._condition:
            self._stopping = True
            self._condition.notify_all()
        thread = self._thread
        if thread is None or thread is threading.current_thread():
            return thread is None
        if wait:
            thread.join(timeout)
        return not thread.is_alive()

    @property
    def is_running(self) -> bool:
        """Whether its thread is at work."""
        return self._thread is not None and self._thread.is_alive()

    @abstractmethod
    def _run(self) -> None:
        """The work of the thread."""
