"""The worker's end of the nursery: ask it to start commands, hear how they end, restart it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from leasehold.worker.executors import nursery
from leasehold.worker.executors.helper import HelperProcess, describe_status
from leasehold.worker.executors.nursery import kill_group
from leasehold.worker.safelog import safe_logger

logger = safe_logger("leasehold.worker")

_KILL_SECONDS_MAX = 5.0


class CommandStarted(msgspec.Struct, frozen=True, tag="started"):
    """The command is running."""

    id: int
    pid: int


class CommandRefused(msgspec.Struct, frozen=True, tag="refused"):
    """The command could not be started."""

    id: int
    about: Literal["output", "command"]
    """What failed: the files for its output, or the command itself."""
    errno: int | None
    reason: str
    file: str | None


class CommandEnded(msgspec.Struct, frozen=True, tag="ended"):
    """The command has ended, and its process group with it."""

    id: int
    status: int


class Lost(msgspec.Struct, frozen=True):
    """The nursery died, and the command with it."""

    reason: str


Reply = CommandStarted | CommandRefused | CommandEnded | Lost
_FromNursery = CommandStarted | CommandRefused | CommandEnded
_decoder = msgspec.json.Decoder[_FromNursery](_FromNursery)


class CommandTicket:
    """One command that the nursery was asked to start."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.pid: int | None = None
        self.over = False
        self._replies: asyncio.Queue[Reply] = asyncio.Queue()

    def tell(self, reply: Reply) -> None:
        if isinstance(reply, CommandStarted):
            self.pid = reply.pid
        else:
            self.over = True
        self._replies.put_nowait(reply)

    async def reply(self) -> Reply:
        """The next message: possibly CommandStarted, then one of the others."""
        return await self._replies.get()


class NurseryLink:
    """Keeps one nursery running. All methods are called on one event loop."""

    def __init__(self, lock_fd: int | None) -> None:
        self._lock_fd = lock_fd
        self._starting = asyncio.Lock()
        self._process: HelperProcess | None = None
        self._listening: asyncio.Task[None] | None = None
        self._tickets: dict[int, CommandTicket] = {}
        self._numbers = 0

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def ensure_running(self) -> None:
        """Start the nursery unless it is running."""
        async with self._starting:
            if self._process is None or self._process.lost:
                await self.close()
                self._process = await HelperProcess.start(self._arguments, lock_fd=self._lock_fd)
                self._listening = asyncio.create_task(self._listen(self._process))

    def start(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str | None,
        stdin: str | None,
        output: tuple[str, str],
    ) -> CommandTicket:
        """Start a command; the ticket receives what happens to it."""
        self._numbers += 1
        ticket = self._tickets[self._numbers] = CommandTicket(self._numbers)
        if self._process is None or self._listening is None or self._listening.done():
            self._forget(ticket, Lost("the helper process that runs commands died"))
            return ticket
        self._send(
            {
                "op": "start",
                "id": ticket.number,
                "argv": list(argv),
                "env": dict(env),
                "cwd": cwd,
                "stdin": stdin,
                "stdout": output[0],
                "stderr": output[1],
            }
        )
        return ticket

    def send_signal(self, ticket: CommandTicket, number: signal.Signals) -> None:
        """Send a signal to the command's whole process group, if it is still running."""
        if not ticket.over:
            self._send({"op": "signal", "id": ticket.number, "signal": int(number)})

    async def kill(self, ticket: CommandTicket) -> None:
        """Kill a command, and return when it is dead."""
        self.send_signal(ticket, signal.SIGKILL)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_KILL_SECONDS_MAX):
                while not ticket.over:
                    await ticket.reply()
        if not ticket.over:
            # The nursery itself is stuck; its commands die with it.
            await self.close()

    async def close(self) -> None:
        """End the nursery, and with it every command that still runs."""
        if self._process is not None:
            await self._process.end()
        if self._listening is not None:
            await self._listening
        self._process = self._listening = None

    def _arguments(self, connection_fd: int) -> list[str]:
        # As a script, isolated and without site packages: it needs none, and starts faster.
        numbers = [connection_fd, os.getpid()] + ([] if self._lock_fd is None else [self._lock_fd])
        return [sys.executable, "-I", "-S", nursery.__file__, *map(str, numbers)]

    def _send(self, request: dict[str, Any]) -> None:
        if self._process is not None:
            # The standard library's encoder keeps variables that are not valid text, which an
            # environment may contain.
            self._process.writer.write(json.dumps(request).encode() + b"\n")

    async def _listen(self, process: HelperProcess) -> None:
        try:
            while line := await process.reader.readline():
                self._heed(_decoder.decode(line))
        except ConnectionError:
            pass
        except (ValueError, msgspec.DecodeError):
            # A message that cannot be decoded may have been the end of any command: start again.
            logger.exception(
                "the helper process that runs commands sent an invalid message; it is replaced"
            )
        status = await process.end()
        for ticket in list(self._tickets.values()):
            # The kernel kills a command together with the nursery, but not its own children.
            if ticket.pid is not None:
                kill_group(ticket.pid)
            text = f"the helper process that runs commands died ({describe_status(status)})"
            self._forget(ticket, Lost(text))

    def _heed(self, reply: CommandStarted | CommandRefused | CommandEnded) -> None:
        ticket = self._tickets.get(reply.id)
        if ticket is None or (isinstance(reply, CommandStarted) and ticket.pid is not None):
            raise ValueError(f"a reply for an unknown command: {reply}")
        if isinstance(reply, CommandStarted):
            ticket.tell(reply)
        else:
            self._forget(ticket, reply)

    def _forget(self, ticket: CommandTicket, reply: Reply) -> None:
        del self._tickets[ticket.number]
        ticket.tell(reply)
