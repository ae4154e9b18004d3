"""The log file of workers in the background: its end, and the lines that follow."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from leasehold.cli.logs import Tail
from leasehold.env import SYSTEM

LOOK_SECONDS: Final = 0.2


def last_lines(path: str, lines: int) -> list[str]:
    """The end of the file; nothing if there is none."""
    with suppress(FileNotFoundError), open(path, encoding="utf-8", errors="replace") as file:
        return [line.rstrip("\n") for line in deque(file, maxlen=lines)]
    return []


def followed(paths: Sequence[str]) -> Iterator[str]:
    """Lines as they are added to these files, for as long as somebody reads them."""
    tails = [Tail(path, "log") for path in paths]
    for tail in tails:
        deque(tail.new_lines(), maxlen=0)  # These were there before.
    pause = threading.Condition()
    while True:
        for tail in tails:
            for line in tail.new_lines():
                yield line.text
        with pause:
            SYSTEM.clock.wait(pause, LOOK_SECONDS)
