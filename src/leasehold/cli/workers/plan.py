"""What `worker start` was asked for, as it is handed on to the processes that do it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from leasehold.errors import StoreUnavailableError
from leasehold.urls import sqlite_path

READY: Final = b"r"
"""A process's message to its parent when it works."""
LEAVING: Final = b"l"
"""The message of a worker that ends on its own; one ended by a task, with any code, sends none."""
REFUSED: Final = os.EX_NOPERM
"""How a process ends whose token is good no more: another one would end the same way."""
AWAY: Final = os.EX_UNAVAILABLE
"""How a process ends that found the store's server away: another one, later, may find it."""
RECYCLED: Final = os.EX_TEMPFAIL
"""The exit code of a process that wants to be restarted."""
SLOTS: Final = 4
GRACE_SECONDS: Final = 30.0
METRICS_HOST: Final = "127.0.0.1"


class CrewPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How many worker processes, and how each of them works."""

    store_url: str
    count: int = 1
    slots: int = SLOTS
    queues: tuple[str, ...] | None = None
    """None leaves it to the application's queue and tasks."""
    tasks: tuple[str, ...] | None = None
    modules: tuple[str, ...] = ()
    """Where tasks are defined: `shop`, or the queue to run on: `shop:queue`."""
    executor: Literal["thread", "process"] = "thread"
    allow_commands: bool = False
    lease_seconds: float | Literal["auto"] | None = None
    grace_seconds: float = GRACE_SECONDS
    max_jobs: int | None = None
    max_memory_mb: float | None = None
    until_empty: bool = False
    quiet: bool = False
    log_format: Literal["plain", "json"] = "plain"
    utc: bool = False
    """Whether log lines have times in UTC, not in the local zone."""
    app_version: str | None = None
    """The version of the application's code, of which the first worker marks the deploy."""
    metrics_port: int | None = None
    """Where Prometheus may read the store's figures; 0 for any free port."""
    metrics_host: str = METRICS_HOST
    reload: bool = False
    """Whether workers restart when a Python file below the working directory changes."""
    log_path: str | None = None
    """Where a crew in the background writes; None in the foreground."""


def store_name(url: str) -> str:
    """A store as people and log lines name it: the whole path of a file, no password of a URL.

    >>> store_name("postgresql://app:secret@db/jobs?sslmode=require")
    'postgresql://db/jobs'
    >>> store_name("postgresql://app@db/jobs?redis=redis://:secret@cache/0")
    'postgresql://db/jobs'
    """
    path = sqlite_path(url)
    if path is not None:
        return os.path.realpath(path)
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('?')[0].rpartition('@')[2]}"


def workers_folder(store_url: str) -> str:
    """Where pid files and logs are kept: beside a store file, otherwise in the user's state folder.

    >>> workers_folder("/var/lib/app/jobs.db")
    '/var/lib/app/jobs.db-workers'
    """
    path = sqlite_path(store_url)
    if path is not None:
        # Links are resolved, so that all shells agree.
        return os.path.realpath(path) + "-workers"
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    digest = hashlib.sha256(store_url.encode()).hexdigest()[:16]
    return os.path.join(state, "leasehold", f"{digest}-workers")


def default_log(folder: str) -> str:
    """Where workers in the background write unless told otherwise."""
    return os.path.join(folder, "workers.log")


def make_folder(store_url: str) -> str:
    """Make the folder for pid files and logs if need be, for its owner only; answers its path."""
    path = workers_folder(store_url)
    try:
        if sqlite_path(store_url) is None:
            os.makedirs(os.path.dirname(path), exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
    except OSError as error:
        raise StoreUnavailableError(
            f"the pid files of workers cannot be written: {error.strerror} ({path})",
            is_transient=False,
        ) from error
    return path


def start_python(
    module: str, plan: CrewPlan, link_fd: int, *, output: int | None = None
) -> subprocess.Popen[bytes]:
    """Start one of our modules in a fresh interpreter and hand it the plan.

    It gets a session of its own, in which no Ctrl-C reaches it: its parent says when to stop. The
    plan goes through its standard input, since a store URL may hold a password and argument lists
    can be read by everybody.
    """
    # -P keeps modules of the working directory from taking the place of others.
    arguments: Sequence[str] = [sys.executable, "-P", "-m", module, str(link_fd)]
    process = subprocess.Popen(  # noqa: S603 - our own interpreter.
        arguments,
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=output,
        pass_fds=[link_fd],
        start_new_session=True,
    )
    assert process.stdin is not None
    # A process that dies at once is noticed by the end of its connection.
    with contextlib.suppress(BrokenPipeError), process.stdin as stdin:
        stdin.write(msgspec.json.encode(plan))
    return process


def read_plan() -> tuple[CrewPlan, int]:
    """The plan and the descriptor that `start_python` gave to this process."""
    link_fd = int(sys.argv[1])
    # What this process starts is none of the parent's business.
    os.set_inheritable(link_fd, False)
    with open(0, "rb", closefd=False) as stdin:
        plan = msgspec.json.decode(stdin.read(), type=CrewPlan)
    # There is no keyboard; programs that tasks start may read, and find nothing.
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return plan, link_fd
