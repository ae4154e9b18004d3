"""The executors of one worker, one per kind, each made when the first job needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final

from leasehold.codec import CallCodec
from leasehold.core.model.job import COMMAND_TASK
from leasehold.env import SYSTEM, Env
from leasehold.errors import UnknownTaskError
from leasehold.worker.executors.aio import AsyncExecutor
from leasehold.worker.executors.base import Executor
from leasehold.worker.executors.threads import ThreadExecutor
from leasehold.worker.run import Run
from leasehold.worker.task import ExecutorKind, TaskDefinition

KILLING: Final[frozenset[ExecutorKind]] = frozenset({"process", "command"})
"""The kinds whose stopped runs really end, so that waiting for the end pays."""


@dataclass(frozen=True, slots=True)
class Setup:
    """The worker's data for making an executor."""

    worker_id: str
    slots: int
    env: Env = field(default=SYSTEM)
    output_dir: str | None = None
    """Where the output of commands is kept."""
    lock_fd: int | None = None
    """Child processes inherit this lock: it is free only when worker and children are dead."""


ExecutorMaker = Callable[[Setup], Executor]


def _make_threads(setup: Setup) -> Executor:
    return ThreadExecutor(setup.slots, env=setup.env, name=setup.worker_id)


def _make_async(setup: Setup) -> Executor:
    return AsyncExecutor(env=setup.env, name=setup.worker_id)


def _make_processes(setup: Setup) -> Executor:
    # Imported when the first job needs it, as most workers never do.
    from leasehold.worker.executors.processes import ProcessExecutor

    return ProcessExecutor(setup.slots, env=setup.env, lock_fd=setup.lock_fd)


def _make_commands(setup: Setup) -> Executor:
    from leasehold.worker.executors.command import CommandExecutor

    assert setup.output_dir is not None, "the worker asks for it when commands are allowed"
    return CommandExecutor(
        setup.slots, env=setup.env, output_dir=setup.output_dir, lock_fd=setup.lock_fd
    )


def _no_function() -> None:
    """Stands in for a task's code: a command has its code in its payload."""


COMMAND: Final = TaskDefinition(COMMAND_TASK, _no_function, CallCodec(_no_function), "command")

MAKERS: Final[Mapping[ExecutorKind, ExecutorMaker]] = {
    "thread": _make_threads,
    "async": _make_async,
    "process": _make_processes,
    "command": _make_commands,
}


class Team:
    """Sends every run to the executor of its task's kind. Used by one thread only."""

    def __init__(self, makers: Mapping[ExecutorKind, ExecutorMaker], setup: Setup) -> None:
        self._makers = makers
        self._setup = setup
        self._executors: dict[ExecutorKind, Executor] = {}

    def starter(self, task: TaskDefinition) -> Callable[[Run], None]:
        """The function that starts runs of this task.

        Raises UnknownTaskError if this worker has no executor of its kind.
        """
        kind = task.executor
        executor = self._executors.get(kind)
        if executor is None:
            maker = self._makers.get(kind)
            if maker is None:
                raise UnknownTaskError(
                    f"task {task.name!r} needs a {kind} executor, and this worker has none"
                )
            executor = self._executors[kind] = maker(self._setup)
        return executor.start

    def stop(self, run: Run) -> None:
        if not run.claimed:  # A run that is completing its job right now ends on its own.
            self._executors[run.task.executor].stop(run)

    def take_back(self, kinds: Iterable[ExecutorKind] | None = None) -> list[Run]:
        """Withdraw runs that have not begun, from executors of these kinds or from all."""
        wanted = self._executors if kinds is None else kinds
        return [
            run
            for kind in wanted
            if kind in self._executors
            for run in self._executors[kind].take_back()
        ]

    def give_up(self, run: Run) -> bool:
        """Replace the slot of code that does not stop, if possible; the code keeps running,
        ignored.
        """
        executor = self._executors[run.task.executor]
        if isinstance(executor, ThreadExecutor):
            executor.replace(run)
        return run.task.executor not in KILLING

    def close(self) -> None:
        with ExitStack() as closing:
            # Each is closed, even if closing another one fails.
            for executor in self._executors.values():
                closing.callback(executor.close)
