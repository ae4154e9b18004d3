"""A helper process of the worker and the connection to it, killed, reaped and freed together."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Sequence
from typing import Self

from leasehold.worker.executors.nursery import kill_group

_REAP_INTERVAL_SECONDS = 0.002
_LINGER_SECONDS = 1.0


class HelperProcess:
    """A process and the worker's end of the connection to it, on the event loop that made it."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._process = process
        self.reader = reader
        self.writer = writer
        self._dead = False
        self._pidfd: int | None = None
        if hasattr(os, "pidfd_open"):
            # The connection alone does not show its death: a process forked from it may keep it
            # open.
            self._pidfd = os.pidfd_open(process.pid)
            asyncio.get_running_loop().add_reader(self._pidfd, self._on_death)

    @classmethod
    async def start(
        cls,
        arguments: Callable[[int], Sequence[str]],
        *,
        env: dict[str, str] | None = None,
        lock_fd: int | None,
    ) -> Self:
        """Start a program in a session of its own, in which no Ctrl-C reaches it.

        `arguments` makes the argument list from the descriptor of the program's end of the
        connection.
        """
        ours, theirs = socket.socketpair()
        # The application may have set a default timeout, which would make both non-blocking; and
        # the other process inherits the mode of its descriptor.
        theirs.settimeout(None)
        try:
            with theirs:
                # It returns once the program is loaded, which takes about a millisecond.
                process = subprocess.Popen(  # noqa: ASYNC220, S603 - our own interpreter, too.
                    arguments(theirs.fileno()),
                    stdin=subprocess.DEVNULL,
                    env=env,
                    pass_fds=[theirs.fileno()] + ([] if lock_fd is None else [lock_fd]),
                    start_new_session=True,
                )
        except OSError:
            ours.close()
            raise
        try:
            # With an existing socket this waits only for the event loop's next round.
            reader, writer = await asyncio.open_unix_connection(sock=ours)
        except BaseException:
            # The executor was closed in that moment and does not know of the process yet.
            kill_group(process.pid)
            process.wait()
            ours.close()
            raise
        return cls(process, reader, writer)

    @property
    def lost(self) -> bool:
        """Whether it is dead or has closed the connection."""
        return self._dead or self.reader.at_eof()

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        """Kill it and every process of its process group."""
        # Once it is reaped, its pid may belong to another process.
        if self._process.returncode is None:
            kill_group(self._process.pid)

    async def end(self) -> int:
        """Kill and reap it, and free its resources; returns its status as `subprocess` does."""
        self.kill()
        self._forget_pidfd()
        self.writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()
        while (status := self._process.poll()) is None:  # noqa: ASYNC110 - it dies at once.
            await asyncio.sleep(_REAP_INTERVAL_SECONDS)
        self._dead = True
        return status

    def _on_death(self) -> None:
        self._dead = True
        self._forget_pidfd()
        self.kill()
        # Its last messages are still read, but a process that left its group may never hang up.
        asyncio.get_running_loop().call_later(_LINGER_SECONDS, self.writer.transport.abort)

    def _forget_pidfd(self) -> None:
        if self._pidfd is not None:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None


def describe_status(status: int) -> str:
    """An exit status in words.

    >>> describe_status(3), describe_status(-9)
    ('exit code 3', 'killed by SIGKILL')
    """
    if status >= 0:
        return f"exit code {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"
