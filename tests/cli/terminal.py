"""A terminal, and a program on it: what a person sees and types."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyte

WAIT_SECONDS = 120
"""How long to wait for a screen at most: a busy machine takes its time to start a program."""
# The program must be in a session of its own, with this as its terminal, for Ctrl-C to reach it.
LAUNCH = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


class Terminal:
    """A program on a pseudo-terminal of this size."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        env: dict[str, str],
        columns: int = 80,
        lines: int = 24,
    ) -> None:
        self._ours, self._theirs = pty.openpty()
        self._resize(columns, lines)
        self.settings = termios.tcgetattr(self._theirs)
        self.screen: Any = pyte.Screen(columns, lines)
        self._stream: Any = pyte.ByteStream(self.screen)
        self.received = b""
        kept = {name: value for name, value in env.items() if name not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, *command],
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
            cwd=cwd,
            env={**kept, "TERM": "xterm-256color"},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)
        os.close(self._theirs)

    @property
    def text(self) -> str:
        """What is on the screen."""
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip()

    @property
    def is_as_before(self) -> bool:
        """Whether the terminal's settings are those it began with."""
        return termios.tcgetattr(self._theirs) == self.settings

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def see(self, *texts: str) -> str:
        """Wait until all of this is on the screen at once."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not all(text in self.text for text in texts):
            assert time.monotonic() < deadline, f"waited for {texts} and saw:\n{self.text}"
            assert self._receive() or self.process.poll() is None, f"it ended:\n{self.text}"
        return self.text

    def resize(self, columns: int, lines: int) -> None:
        self._resize(columns, lines)
        self.screen.resize(lines, columns)

    def end(self) -> int:
        """Wait for the end; the exit code."""
        deadline = time.monotonic() + WAIT_SECONDS
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"it did not end:\n{self.text}"
            self._receive()
        while self._receive(0):
            pass
        return self.process.returncode

    def _resize(self, columns: int, lines: int) -> None:
        size = struct.pack("HHHH", lines, columns, 0, 0)
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, size)

    def _receive(self, seconds: float = 0.1) -> bool:
        ready, _, _ = select.select([self._ours], [], [], seconds)
        if not ready:
            return False
        data = os.read(self._ours, 65536)
        self.received += data
        self._stream.feed(data)
        return bool(data)
