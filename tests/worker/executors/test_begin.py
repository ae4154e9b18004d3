"""No executor begins code whose lease has run out while it waited for its turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leasehold.core.model.outcome import Release
from leasehold.env import SYSTEM
from leasehold.worker.executors.aio import AsyncExecutor
from leasehold.worker.executors.base import Executor
from leasehold.worker.executors.command import CommandExecutor
from leasehold.worker.executors.processes import ProcessExecutor
from leasehold.worker.executors.threads import ThreadExecutor
from leasehold.worker.task import ExecutorKind
from support import begin_tasks
from support.runs import WatchedRun, call_run, command_run


class Subject:
    """An executor of one kind, and runs for it that leave a file behind."""

    def __init__(self, kind: ExecutorKind, executor: Executor, folder: Path) -> None:
        self.kind = kind
        self.executor = executor
        self._folder = folder

    def run(self, name: str) -> WatchedRun:
        path = str(self._folder / name)
        if self.kind == "command":
            return command_run({"argv": ["touch", path]}, job_id=name)
        func = begin_tasks.touch_async if self.kind == "async" else begin_tasks.touch
        return call_run(func, path, executor=self.kind, job_id=name)

    def has_run(self, name: str) -> bool:
        return (self._folder / name).exists()


MAKERS: dict[ExecutorKind, Callable[[Path], Executor]] = {
    "thread": lambda _: ThreadExecutor(1),
    "async": lambda _: AsyncExecutor(),
    "process": lambda _: ProcessExecutor(1, env=SYSTEM),
    "command": lambda folder: CommandExecutor(1, env=SYSTEM, output_dir=str(folder / "output")),
}


@pytest.fixture(params=MAKERS)
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Subject]:
    executor = MAKERS[request.param](tmp_path)
    yield Subject(request.param, executor, tmp_path)
    executor.close()


def test_a_job_whose_lease_ran_out_is_handed_back_unbegun(subject: Subject) -> None:
    late = subject.run("late")
    late.holds_lease = False
    subject.executor.start(late.run)
    outcome = late.outcome()
    assert isinstance(outcome, Release)
    assert "lease ran out" in outcome.reason
    assert late.run.started is None
    assert not subject.has_run("late")
    # The slot is free, and what is still held begins.
    held = subject.run("held")
    subject.executor.start(held.run)
    held.outcome()
    assert subject.has_run("held")
