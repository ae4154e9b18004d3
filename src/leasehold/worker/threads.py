"""A part of a worker that does its work in a thread of its own."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod


class OwnThread(ABC):
    """What heartbeat, sweep and pruner share: a thread that is started, waits, and is told to stop.

    A subclass says in `_run` what the thread does until `_stopping`, and lets it wait on
    `_condition`, which `stop` notifies.
    """

    def __init__(self, name: str) -> None:
        self._thread_name = name
        self._condition = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stopping = False

    def start(self) -> None:
        """Begin, in a thread of its own, and go on until `stop`."""
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=self._thread_name, daemon=True)
        self._thread.start()

    def stop(self, wait: bool = True, timeout: float | None = None) -> bool:
        """End the thread, after the call to the store that it may be in.

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
