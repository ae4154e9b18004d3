"""The worker's handle on one child process: start it, and talk to it in typed messages."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence

from leasehold.worker.describe import guarded
from leasehold.worker.executors.helper import HelperProcess
from leasehold.worker.executors.wire import (
    HEADER_BYTES,
    ChildReady,
    ChildSetup,
    FromChild,
    ToChild,
    body_bytes,
    from_child,
    to_frame,
)
from leasehold.worker.loglines import line_style


class ChildProcess(HelperProcess):
    """A child interpreter that runs tasks."""

    @classmethod
    async def start_for(cls, module: str, lock_fd: int | None) -> ChildProcess:
        """Start a child that has tried to import `module`; raises ConnectionError if it dies."""
        # A task may have left this process in a folder that no longer exists.
        folder = guarded(os.getcwd, "/nonexistent")
        sys_path = [entry or folder for entry in sys.path]
        # The child must find Leasehold before it can be told where to find modules.
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys_path)}
        child = await cls.start(_arguments, env=env, lock_fd=lock_fd)
        try:
            python_path = os.environ.get("PYTHONPATH")
            child.send(ChildSetup(sys_path, python_path, module, line_style()))
            assert isinstance(await child.receive(), ChildReady)
        except BaseException:
            await child.end()
            raise
        return child

    def send(self, message: ToChild) -> None:
        self.send_frame(to_frame(message))

    def send_frame(self, frame: bytes) -> None:
        self.writer.write(frame)

    async def receive(self) -> FromChild:
        """The child's next message; raises ConnectionError if it is dead or sends nonsense."""
        try:
            header = await self.reader.readexactly(HEADER_BYTES)
            return from_child(await self.reader.readexactly(body_bytes(header)))
        except asyncio.IncompleteReadError as error:
            raise ConnectionError("it closed its connection") from error


def _arguments(connection_fd: int) -> Sequence[str]:
    # -P keeps modules in the working directory from shadowing others.
    module = "leasehold.worker.executors.child"
    return [sys.executable, "-P", "-m", module, str(connection_fd), str(os.getpid())]
