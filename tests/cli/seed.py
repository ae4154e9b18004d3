"""Jobs to look at, put into a shell's store by the API."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from io import StringIO

from cli.conftest import Done, Shell
from leasehold import TaskQueue
from leasehold.cli.main import run

HOSTILE = "\x1b[2J\x1b]0;owned\x07\u202egnp.exe\r\x9b31m"
HARMFUL = ("\x1b", "\x07", "\r", "\u202e", "\x9b")
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ")
_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00")
_AGE = re.compile(r"(?<= )\d{1,2}s(?= )")


@contextmanager
def store_of(shell: Shell) -> Iterator[TaskQueue]:
    """The shell's store, through the API."""
    queue = TaskQueue(shell.folder / "leasehold.db", num_workers=0)
    try:
        yield queue
    finally:
        queue.shutdown()


def run_here(shell: Shell, *arguments: str) -> Done:
    """Run a command without a process of its own: for one of many variants of the same thing."""
    with (
        chdir(shell.folder),
        redirect_stdout(StringIO()) as out,
        redirect_stderr(StringIO()) as err,
    ):
        code = run(arguments)
    return Done(code, out.getvalue(), err.getvalue())


def kill(queue: TaskQueue, name: str = "default", error: str = "no such picture") -> None:
    """Let the next job of a queue become a dead letter."""
    lease = queue.lease(name, worker="consumer")
    assert lease is not None
    queue.nack(lease, error, requeue=False)


def golden(text: str) -> str:
    """A table without what is different each time: moments, and the blanks at the end of lines."""
    frozen = _AGE.sub("0s", _TIME.sub("YYYY-MM-DD HH:MM:SSZ", _ISO.sub("ISO-TIME", text)))
    return "\n".join(line.rstrip() for line in frozen.splitlines()).strip("\n")


def assert_harmless(text: str) -> None:
    """Whatever a terminal could stumble over has been spelled out."""
    assert not [char for char in HARMFUL if char in text], text
