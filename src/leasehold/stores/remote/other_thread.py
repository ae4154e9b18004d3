"""Calls of the main thread, carried out by another one.

Signal handlers run in the main thread, between any two instructions in Python. gRPC's library has
such instructions where it holds its own locks: if a handler raises there, as that of Ctrl-C does, a
lock is never released, and every later call waits for it. In another thread no handler ever runs.
The main thread only waits for the answer; if it is interrupted, the call comes to its own end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from leasehold.interrupts import SHIELD

T = TypeVar("T")

_Answers = SimpleQueue[tuple[Any, BaseException | None]]

IDLE_MAX: Final = 2
"""How many idle threads are kept: one is usual, more are left after interrupts."""


class _Hand:
    """A thread that carries out one call after the other."""

    def __init__(self, idle: list[_Hand]) -> None:
        self._idle = idle
        self._calls: SimpleQueue[tuple[Callable[[], Any], _Answers] | None] = SimpleQueue()
        threading.Thread(target=self._work, name="leasehold-grpc-calls", daemon=True).start()

    def carry_out(self, call: Callable[[], Any], answers: _Answers) -> None:
        self._calls.put((call, answers))

    def stop(self) -> None:
        self._calls.put(None)

    def _work(self) -> None:
        while (task := self._calls.get()) is not None:
            call, answers = task
            answer: Any = None
            error: BaseException | None = None
            try:
                answer = call()
            except BaseException as raised:  # noqa: BLE001  # it is raised in the main thread
                error = raised
            if len(self._idle) >= IDLE_MAX:
                answers.put((answer, error))
                return
            # First, so that the next call finds it.
            self._idle.append(self)
            answers.put((answer, error))
            del task, call, answers, answer, error


class OtherThread:
    """Where the main thread's calls are carried out; those of other threads are as they are."""

    def __init__(self) -> None:
        self._idle: list[_Hand] = []

    def run(self, call: Callable[[], T]) -> T:
        """The answer of a call, or its error."""
        if threading.current_thread() is not threading.main_thread():
            return call()
        answers: _Answers = SimpleQueue()
        with SHIELD:
            hand = self._idle.pop() if self._idle else _Hand(self._idle)
            hand.carry_out(call, answers)
        answer, error = answers.get()
        if error is not None:
            raise error
        return answer  # type: ignore[no-any-return]

    def close(self) -> None:
        """Let idle threads end."""
        while self._idle:
            self._idle.pop().stop()
