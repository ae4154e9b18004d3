"""A process that makes and kills others: `python -m support.zygote`.

Hundreds of processes are killed in some tests. Each is forked from this one, which has imported
everything and opened nothing, so that it costs milliseconds and not the start of an interpreter.
Commands come in as JSON lines, and are answered by a line each:

    ["spawn", "module:function", [arguments]]   the pid of a new process that calls it
    ["kill", pid]                               how it ended: -9 if it had lived until now
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any


class Zygote:
    """The other end of the line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.alive: list[int] = []
        self.kills = 0

    def spawn(self, function: str, *arguments: Any) -> int:
        pid = self._ask("spawn", function, arguments)
        self.alive.append(pid)
        return pid

    def kill(self, pid: int) -> None:
        """kill -9, and wait for the end. Fails if the process had ended by itself."""
        self.alive.remove(pid)
        self.kills += 1
        how = self._ask("kill", pid)
        assert how == -signal.SIGKILL, f"process {pid} had ended by itself: {how}"

    def kill_all(self) -> None:
        for pid in list(self.alive):
            self.kill(pid)

    def _ask(self, *command: Any) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(command), file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())


@contextmanager
def zygote(
    *modules: str, pass_fds: tuple[int, ...] = (), within: Sequence[str] = ()
) -> Iterator[Zygote]:
    """A zygote with these modules imported; all that it made are gone in the end.

    It is started by the command `within`, if there is one.
    """
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    paths = [here, *filter(None, sys.path)]
    with subprocess.Popen(
        [*within, sys.executable, "-m", "support.zygote", *modules],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        pass_fds=pass_fds,
    ) as process:
        # It kills what is left when its input ends, which leaving this block brings about.
        yield Zygote(process)
    assert process.returncode == 0


def main() -> None:
    for module in sys.argv[1:]:
        importlib.import_module(module)
    alive: set[int] = set()
    try:
        for line in sys.stdin:
            match json.loads(line):
                case "spawn", function, arguments:
                    pid = os.fork()
                    if pid == 0:
                        _run(function, arguments)
                    alive.add(pid)
                    print(pid, flush=True)  # noqa: T201  # the answer
                case "kill", pid:
                    alive.discard(pid)
                    print(_killed(pid), flush=True)  # noqa: T201  # the answer
    finally:
        for pid in alive:
            _killed(pid)


def _killed(pid: int) -> int:
    os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _run(name: str, arguments: list[Any]) -> None:
    module, _, function = name.partition(":")
    code = 1
    try:
        getattr(importlib.import_module(module), function)(*arguments)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


if __name__ == "__main__":
    main()
