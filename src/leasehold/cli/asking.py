"""A question on the terminal, which Ctrl-C always answers at once."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

YES: Final = ("y", "yes")


def is_agreed(question: str) -> bool:
    """Whether somebody says yes; anything else is no. Raises KeyboardInterrupt for Ctrl-C.

    The end of the input, Ctrl-D, is an interruption too: there will be no answer.
    """
    sys.stderr.write(f"{question} [y/N]: ")
    sys.stderr.flush()
    with _signals_as_input() as signals:
        select.select([sys.stdin, signals], [], [])
    # A terminal has a whole line ready by now, so this does not wait.
    line = sys.stdin.readline()
    if not line:
        raise KeyboardInterrupt
    return line.strip().lower() in YES


@contextmanager
def _signals_as_input() -> Iterator[int]:
    """A descriptor that can be read once a signal has come.

    A signal that comes just before a blocking read would be noticed only after it.
    """
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    before = signal.set_wakeup_fd(theirs, warn_on_full_buffer=False)
    try:
        yield ours
    finally:
        signal.set_wakeup_fd(before)
        os.close(ours)
        os.close(theirs)
