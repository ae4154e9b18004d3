"""Keys, one at a time, as they are pressed; and a terminal that is left as it was found."""

from __future__ import annotations

import os
import re
import select
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

KEYS_AT_ONCE: Final = 64
_SEQUENCE: Final = re.compile(rb"\x1b[\[O][0-9;]*([A-Za-z~])|(.)", re.DOTALL)
_ARROWS: Final = {b"A": "up", b"B": "down"}

ReadKeys = Callable[[float], list[str]]
"""Waits up to this many seconds for keys; returns the pressed ones, or none."""


def parse(data: bytes) -> list[str]:
    r"""The keys that these bytes stand for; arrows by name, other sequences left out.

    >>> parse(b"j\x1b[A\x1bOB \x1b[5~q")
    ['j', 'up', 'down', ' ', 'q']
    """
    keys = []
    for found in _SEQUENCE.finditer(data):
        if found[2] is not None:
            keys.append(found[2].decode("latin-1"))
        elif found[1] in _ARROWS:
            keys.append(_ARROWS[found[1]])
    return keys


@contextmanager
def pressed_keys() -> Iterator[ReadKeys]:
    """Read keys without Enter and without echo. Ctrl-C works as usual.

    A polite end from outside (SIGTERM, SIGHUP) leaves by an exception as well, so that the code
    that has changed the terminal can restore it. Ctrl-Z could not restore it: it does nothing.
    """
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    handlers = {
        signal.SIGTERM: signal.signal(signal.SIGTERM, _leave),
        signal.SIGHUP: signal.signal(signal.SIGHUP, _leave),
        signal.SIGTSTP: signal.signal(signal.SIGTSTP, signal.SIG_IGN),
    }

    def read(seconds: float) -> list[str]:
        ready, _, _ = select.select([descriptor], [], [], seconds)
        if not ready:
            return []
        data = os.read(descriptor, KEYS_AT_ONCE)
        return parse(data) if data else ["q"]  # The terminal is gone.

    try:
        tty.setcbreak(descriptor)
        yield read
    finally:
        termios.tcsetattr(descriptor, termios.TCSAFLUSH, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _leave(number: int, _: object) -> None:
    sys.exit(128 + number)
