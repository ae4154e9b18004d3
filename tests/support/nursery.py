"""Commands of the command line, forked from a process that has imported everything.

Each is a process of its own, with its own folder, environment and streams; only the start of an
interpreter is saved, which takes ten times as long as most commands. `python -m support.nursery`
listens on a socket: a connection brings a command and its streams, is told its process id, and how
it ended.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

REQUEST_BYTES_MAX = 1 << 20
USED = (
    "click._textwrap",
    "grpc_health.v1.health",
    "leasehold.dashboard.app",
    "leasehold.service.grpc.server",
    "leasehold.service.server",
    "leasehold.stores.memory",
    "leasehold.stores.postgres",
    "leasehold.stores.remote",
    "leasehold.stores.sqlite",
    "leasehold.worker.supervisor",
    "leasehold.worker.worker",
    "rich.console",
    "rich.table",
)
"""What commands import when they come to it."""


PROGRAM = """#!{python} -IS
import json, os, socket, sys
line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
line.connect({address!r})
request = json.dumps([sys.argv, os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(line, [request], [0, 1, 2])
line.recv(64)
os._exit(int(line.recv(64)) & 0xFF)
"""


class Nursery:
    """The other end of the socket."""

    def __init__(self, address: str) -> None:
        self._address = address

    def start(
        self,
        arguments: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        streams: Sequence[int],
    ) -> Command:
        """Start `leasehold` with these arguments; descriptors for its input and what it writes."""
        line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        line.connect(self._address)
        given = [["leasehold", *arguments], os.fspath(folder), dict(environment)]
        request = json.dumps(given).encode()
        socket.send_fds(line, [request], list(streams))
        return Command(line, int(line.recv(64)))

    def install(self, place: Path) -> None:
        """Write a program `queuectl` there, for shells: it passes on what it is started with."""
        place.mkdir()
        program = place / "queuectl"
        program.write_text(PROGRAM.format(python=sys.executable, address=self._address))
        program.chmod(0o755)

    def run(
        self,
        arguments: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        stdin: str,
        timeout: float,
    ) -> tuple[int, str, str]:
        """Run `leasehold` with these arguments; the exit code, and what it wrote."""
        with (
            tempfile.TemporaryFile("w+") as given,
            tempfile.TemporaryFile("w+") as out,
            tempfile.TemporaryFile("w+") as err,
        ):
            given.write(stdin)
            given.seek(0)
            streams = [given.fileno(), out.fileno(), err.fileno()]
            command = self.start(arguments, folder, environment, streams)
            try:
                code = command.wait(timeout)
            except TimeoutError:
                command.send_signal(signal.SIGKILL)
                command.wait(timeout)
                raise subprocess.TimeoutExpired(list(arguments), timeout) from None
            return code, _written(out), _written(err)


class Command:
    """A command that was started; it answers as a process of `subprocess` does."""

    def __init__(self, line: socket.socket, pid: int) -> None:
        self._line = line
        self.pid = pid
        self.returncode: int | None = None

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def wait(self, timeout: float) -> int:
        """How it ended; raises TimeoutError if it does not in this time."""
        if self.returncode is None:
            self._line.settimeout(timeout)
            self.returncode = int(self._line.recv(64))
            self._line.close()
        return self.returncode


def _written(stream: IO[str]) -> str:
    stream.seek(0)
    return stream.read()


@contextmanager
def nursery() -> Iterator[Nursery]:
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with tempfile.TemporaryDirectory(prefix="nursery-") as folder:
        address = os.path.join(folder, "socket")
        with subprocess.Popen(
            [sys.executable, "-m", "support.nursery", address],
            # The commands are those of the code under test, also where it is not installed.
            env={**os.environ, "PYTHONPATH": os.pathsep.join([here, *sys.path])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            try:
                yield Nursery(address)
            finally:
                process.kill()


# -- inside the nursery ------------------------------------------------------------------------


def main() -> None:
    package = importlib.import_module("leasehold.cli")
    for module in pkgutil.walk_packages(package.__path__, "leasehold.cli."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for name in USED:
        # Of what is not installed the command itself will tell.
        with suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()
    # Whoever tends a command ends by itself, and is not waited for.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
        door.bind(sys.argv[1])
        door.listen(64)
        print(flush=True)  # noqa: T201  # it can be called now
        while True:
            line, _ = door.accept()
            if os.fork() == 0:
                door.close()
                _tend(line)
                os._exit(0)
            line.close()


def _tend(line: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    request, streams, _, _ = socket.recv_fds(line, REQUEST_BYTES_MAX, 3)
    arguments, folder, environment = json.loads(request)
    pid = os.fork()
    if pid == 0:
        line.close()
        _become(arguments, folder, environment, streams)
    line.send(str(pid).encode())
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with suppress(OSError):
        line.send(str(code).encode())


def _become(
    arguments: list[str], folder: str, environment: dict[str, str], streams: list[int]
) -> None:
    """Be a process that was started with these; what Python does at its end is done, too."""
    code = 1
    try:
        for number, given in enumerate(streams):
            os.dup2(given, number)
            os.close(given)
        sys.stdin = open(0)  # noqa: SIM115  # for as long as the process lives
        sys.stdout = open(1, "w")  # noqa: SIM115
        sys.stderr = open(2, "w", buffering=1)  # noqa: SIM115
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        time.tzset()
        tempfile.tempdir = None
        sys.path[0] = folder
        sys.argv = arguments
        from leasehold.cli.main import main

        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(BaseException):
            threading._shutdown()  # type: ignore[attr-defined]
            atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        os._exit(code & 0xFF)


if __name__ == "__main__":
    main()
