"""Tasks for child processes: they must stand in a module that a child can import."""

from __future__ import annotations

import contextlib
import ctypes
import locale
import os
import resource
import signal
import subprocess
import sys
import threading
from typing import Any

from leasehold.codec import CallCodec
from leasehold.core.model.outcome import Cancel, Retry, Snooze
from leasehold.errors import PermanentError
from leasehold.worker.context import current_job
from leasehold.worker.executors.role import is_child_process
from leasehold.worker.task import TaskDefinition


def add(one: int, two: int) -> int:
    return one + two


async def add_async(one: int, two: int) -> int:
    return one + two + (0 if current_job().job_id else 1000)


def pid() -> int:
    return os.getpid()


def parent() -> int:
    return os.getppid()


def echo(value: Any) -> Any:
    return value


def facts() -> list[Any]:
    job = current_job()
    return [job.job_id, job.fencing_token, job.attempt, is_child_process()]


def surroundings() -> list[str | None]:
    return [os.environ.get("PYTHONPATH"), os.getcwd()]


def open_files() -> list[str]:
    files = []
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            files.append(os.readlink(f"/proc/self/fd/{fd}"))
    return files


def report() -> str:
    job = current_job()
    job.progress(1, 2, "half")
    job.log("a line with ünïcode")
    job.progress(2, 2)
    job.attach({"seen": [1, 2]})
    return "done"


def report_from_thread() -> None:
    log = current_job().log
    thread = threading.Thread(target=log, args=("from another thread",))
    thread.start()
    thread.join()


class Unpicklable(Exception):  # noqa: N818 - it is one, and says so.
    def __init__(self) -> None:
        super().__init__("cannot travel")
        self.lock = threading.Lock()


def fail(kind: str) -> None:
    errors = {
        "unpicklable": Unpicklable(),
        "value": ValueError("bad value"),
        "permanent": PermanentError("never"),
        "exit": SystemExit(3),
        "interrupt": KeyboardInterrupt(),
    }
    raise errors[kind]


def control(kind: str) -> Any:
    return {"snooze": Snooze(60, "later"), "retry": Retry(5), "cancel": Cancel("sold out")}[kind]


def unencodable() -> object:
    return object()


def log_too_much(length: int) -> None:
    current_job().log("x" * length)


def shout(text: str) -> None:
    print(text)  # noqa: T201 - the test reads it.
    print(text, file=sys.stderr)  # noqa: T201


def crash(how: str) -> None:
    if how == "exit":
        os._exit(7)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    ctypes.string_at(0)


def crash_and_leave_a_holder_of_the_connection() -> None:
    # The forked process keeps its copy of the connection open, outside the child's own group.
    moved_out, told = os.pipe()
    holder = os.fork()
    if holder == 0:
        os.setsid()
        os.write(told, b"!")
        signal.pause()
    os.read(moved_out, 1)
    current_job().log(str(holder))
    os._exit(7)


def interrupt_self() -> str:
    os.kill(os.getpid(), signal.SIGINT)
    return "still here"


def process_state() -> dict[str, Any]:
    """What all jobs of one process share, as far as the next one would feel it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return {
        "pid": os.getpid(),
        "folder": os.getcwd(),
        "mask": mask,
        "handlers": [str(signal.getsignal(n)) for n in (signal.SIGTERM, signal.SIGALRM)],
        "timer": signal.getitimer(signal.ITIMER_REAL),
        "blocked": sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, ()))),
        "recursion": sys.getrecursionlimit(),
        "tracing": sys.gettrace() is not None,
        "printing": print("well", flush=True),  # noqa: T201
        "environment": dict(os.environ),
        "path": sys.path,
        "missing": sorted({"json", "support.child_tasks", "leasehold"} - sys.modules.keys()),
        "locale": locale.setlocale(locale.LC_ALL),
        "files": resource.getrlimit(resource.RLIMIT_NOFILE),
    }


def change_process_state() -> int:
    os.chdir("/")
    os.umask(0o777)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, lambda *_: sys.exit("too late"))
    signal.setitimer(signal.ITIMER_REAL, 30.0)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    sys.setrecursionlimit(500)
    sys.settrace(lambda *_: None)
    sys.stdout.close()
    os.environ.clear()
    os.environ["LC_ALL"] = "xx_YY.nonsense"
    sys.path.clear()
    sys.modules.clear()
    locale.setlocale(locale.LC_ALL, "C")
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    return os.getpid()


def add_an_audit_hook() -> int:
    sys.addaudithook(lambda *_: None)
    return os.getpid()


def be_nicer() -> int:
    os.nice(1)
    return os.getpid()


def become_somebody_else() -> int:
    """Needs root, as does the next one."""
    os.setgid(65534)
    os.setuid(65534)
    return os.getpid()


def move_to_another_root() -> int:
    os.chroot("/tmp")
    return os.getpid()


def spin() -> None:
    current_job().log(str(os.getpid()))
    while True:
        pass


def spin_beside_a_subprocess(fifo: str) -> None:
    subprocess.Popen(["/bin/sh", "-c", f"exec 3>'{fifo}'; sleep 1000"])
    # Opening it waits until the subprocess has opened its end.
    current_job().log("begun")
    while True:
        pass


def heed() -> str:
    job = current_job()
    job.log("begun")
    job.wait(1000)
    job.log(f"{job.cancelled} {job.cancel_reason}")
    return "cleaned up"


def wait_for_file_end(fifo: str) -> str:
    current_job().log("begun")
    with open(fifo) as file:
        return file.read()


class Decorated:
    """What a decorated function leaves in its module."""

    def __init__(self, definition: TaskDefinition) -> None:
        self.definition = definition


def _decorated(text: str) -> str:
    raise KeyError(text)


_decorated.__qualname__ = _decorated.__name__ = "decorated"
decorated = Decorated(
    TaskDefinition(
        "named", _decorated, CallCodec(_decorated), "process", permanent=(), retryable=(KeyError,)
    )
)


def bare() -> None:
    """A function that is not decorated where it stands."""


def shadowed() -> None:
    """A function whose name stands for something else by now."""


original_of_shadowed = shadowed
shadowed = add  # type: ignore[assignment]
