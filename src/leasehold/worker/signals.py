"""Signals: what SIGTERM and SIGINT mean to a worker in the foreground."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

SIGNAL_SECONDS: Final = 1.0
"""How often the main thread wakes up to handle signals. The kernel may deliver one to any thread,
as after a stopped process continues, and only the main thread acts on it.
"""


@contextmanager
def heeded(stop: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Make each of these signals call `stop` with its number, in this process and in this block."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Only the main thread may handle signals.
        return
    own = os.getpid()

    def handle(signal_number: int, _frame: FrameType | None) -> None:
        if os.getpid() != own:
            # A process forked by a task inherits this handler; it ends as any other process would.
            signal.signal(signal_number, signal.SIG_DFL)
            os.kill(os.getpid(), signal_number)
            return
        stop(signal.Signals(signal_number))

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
