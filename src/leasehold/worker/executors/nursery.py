"""The nursery: a helper process that starts commands for the worker, and briefly outlives it.

Only a single-threaded process can safely act between fork and exec, where a command's life has to
be tied to its parent's. The worker has many threads, so it asks this process. Each command leads a
session, and so a process group, of its own. The rest of that group is killed when the command has
ended, and every group is killed when the worker is gone. The nursery notices that by the end of
their connection, or by its new parent (a process forked from the worker may keep the connection
open). If the nursery itself is killed, its commands die with it.

It is run as a plain script without site packages, so that it starts quickly: standard library only.
It speaks lines of JSON. The worker sends

    {"op": "start", "id": 1, "argv": [...], "env": {...}, "cwd": null, "stdin": null,
     "stdout": "/path/1.out", "stderr": "/path/1.err"}
    {"op": "signal", "id": 1, "signal": 15}

and receives `started` (with the pid), then `ended` (with the exit status, negative for a signal) or
`refused` (with the reason), or only the latter. It has no notion of time and decides nothing else.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import IO, Any

_PR_SET_PDEATHSIG = 1
_TEXT_LENGTH_MAX = 1000
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def ask_for_signal_at_parents_death(number: signal.Signals) -> None:
    """Have the kernel send this process a signal when the *thread* that started it ends (Linux).

    On other systems a process has to notice that its connection to its parent has ended.
    """
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)


def die_with(parent_pid: int) -> None:
    """Have the kernel kill this process when the thread that started it ends (Linux)."""
    ask_for_signal_at_parents_death(signal.SIGKILL)
    # The parent may have ended just before that took effect.
    if os.getppid() != parent_pid:
        os.kill(os.getpid(), signal.SIGKILL)


def kill_group(leader_pid: int, signal_number: int = signal.SIGKILL) -> None:
    """Send a signal to a process group, if it still exists."""
    # Some systems answer "not permitted" for a group that consists only of zombies.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader_pid, signal_number)


def leave_signals_to_the_worker() -> None:
    """Ignore Ctrl-C: the worker decides what happens to its children."""
    # The starting thread may have blocked signals, and a child inherits that.
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    # A handler, unlike SIG_IGN, is not inherited by the programs started from here.
    signal.signal(signal.SIGINT, _take_no_notice)


def _take_no_notice(_signal_number: int, _frame: object) -> None:
    """Do nothing: this handler only prevents a signal's default action."""


class Nursery:
    """Starts commands and watches over them."""

    def __init__(
        self, worker: socket.socket, worker_pid: int, inherited_fds: tuple[int, ...]
    ) -> None:
        self._worker = worker
        self._worker_pid = worker_pid
        self._inherited_fds = inherited_fds
        self._received = bytearray()
        self._commands: dict[int, subprocess.Popen[bytes]] = {}
        self._selector = selectors.DefaultSelector()
        self._pid = os.getpid()

    def serve(self) -> None:
        """Work until the worker is gone, then end every command."""
        signalled, wakeup = socket.socketpair()
        self._worker.settimeout(None)
        for end in (signalled, wakeup):
            end.setblocking(False)
        signal.set_wakeup_fd(wakeup.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _take_no_notice)
        ask_for_signal_at_parents_death(signal.SIGTERM)
        self._selector.register(self._worker, selectors.EVENT_READ, self._listen)
        self._selector.register(
            signalled, selectors.EVENT_READ, lambda: self._look_around(signalled)
        )
        try:
            while os.getppid() == self._worker_pid:
                for key, _ in self._selector.select():
                    act: Callable[[], None] = key.data
                    act()
        except (EOFError, ConnectionError):
            pass
        finally:
            # Their deaths still send signals when the socket that would be written to is closed.
            signal.set_wakeup_fd(-1)
            for command in self._commands.values():
                kill_group(command.pid)

    def _listen(self) -> None:
        data = self._worker.recv(1 << 16)
        if not data:
            raise EOFError
        self._received += data
        *lines, self._received = self._received.split(b"\n")
        for line in lines:
            request = json.loads(line)
            if request["op"] == "start":
                refusal = self._start(request)
                if refusal is not None:
                    self._say(refusal)
            elif request["id"] in self._commands:
                kill_group(self._commands[request["id"]].pid, request["signal"])

    def _start(self, request: dict[str, Any]) -> dict[str, Any] | None:
        number = request["id"]
        with contextlib.ExitStack() as files:
            try:
                stdout = files.enter_context(_private_file(request["stdout"]))
                stderr = files.enter_context(_private_file(request["stderr"]))
                stdin = files.enter_context(_stdin_of(request["stdin"]))
            except OSError as error:
                return _refusal(number, error, about="output")
            try:
                self._commands[number] = subprocess.Popen(  # noqa: S603 - the job asks for it.
                    request["argv"],
                    stdin=stdin,
                    stdout=stdout,
                    stderr=stderr,
                    cwd=request["cwd"],
                    env=request["env"],
                    pass_fds=self._inherited_fds,
                    start_new_session=True,
                    preexec_fn=lambda: self._announce(number),  # noqa: PLW1509 - one thread.
                )
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                return _refusal(number, error, about="command")
        return None

    def _announce(self, number: int) -> None:
        """In the forked process, before it becomes the command."""
        die_with(self._pid)
        # Sent from here, so that the worker knows which process to kill from the command's first
        # moment, even if the nursery dies right then.
        self._say({"type": "started", "id": number, "pid": os.getpid()})

    def _look_around(self, signalled: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError):
            signalled.recv(1 << 12)
        # Signals are coalesced: any number of commands may have ended.
        for number, command in list(self._commands.items()):
            status = _ended(command)
            if status is not None:
                del self._commands[number]
                self._say({"type": "ended", "id": number, "status": status})

    def _say(self, message: dict[str, Any]) -> None:
        self._worker.sendall(json.dumps(message).encode() + b"\n")


def _refusal(number: int, error: Exception, *, about: str) -> dict[str, Any]:
    answer = {"type": "refused", "id": number, "about": about, "errno": None, "file": None}
    reason = str(error)
    if isinstance(error, OSError):
        reason = error.strerror or reason
        answer |= {"errno": error.errno, "file": str(error.filename or "")[:_TEXT_LENGTH_MAX]}
    return answer | {"reason": reason[:_TEXT_LENGTH_MAX]}


def _ended(command: subprocess.Popen[bytes]) -> int | None:
    """The exit status of an ended command, with its whole group killed; None while it runs."""
    if hasattr(os, "waitid"):
        # Do not reap it yet: until the leader is reaped, the group's number cannot be reused.
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        if os.waitid(os.P_PID, command.pid, flags) is None:
            return None
    elif command.poll() is None:
        return None
    kill_group(command.pid)
    return command.wait()


def _private_file(path: str) -> IO[bytes]:
    folder = os.path.dirname(path)
    # One by one, as the mode applies only to the last directory that is made.
    for needed in (os.path.dirname(folder), folder):
        os.makedirs(needed, mode=0o700, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    return os.fdopen(os.open(path, flags, 0o600), "wb", buffering=0)


def _stdin_of(text: str | None) -> IO[bytes]:
    if text is None:
        return open(os.devnull, "rb")
    # An unnamed file rather than a pipe, so that no thread has to feed it.
    import tempfile

    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it.
    file.write(text.encode("utf-8", "surrogateescape"))
    file.seek(0)
    return file


def _out_of_the_way(fd: int) -> int:
    # Shell scripts use small descriptor numbers for their own files (`exec 3> log`), which would
    # silently close the worker's lock.
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100)
    os.close(fd)
    return moved


def main() -> None:
    """Serve the worker at the other end of a socket; its descriptor and pid are arguments."""
    worker_fd, worker_pid, *inherited_fds = map(int, sys.argv[1:])
    leave_signals_to_the_worker()
    # A service manager may send these to every process at once, while the worker may want to
    # continue.
    signal.signal(signal.SIGTERM, _take_no_notice)
    signal.signal(signal.SIGHUP, _take_no_notice)
    os.set_inheritable(worker_fd, False)
    inherited = tuple(_out_of_the_way(fd) for fd in inherited_fds)
    Nursery(socket.socket(fileno=worker_fd), worker_pid, inherited).serve()


if __name__ == "__main__":
    main()
