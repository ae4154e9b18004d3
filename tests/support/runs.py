"""Runs to give to an executor, and what becomes of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from leasehold.codec import CallCodec
from leasehold.core.model.job import COMMAND_TASK
from leasehold.core.model.joblog import LogLine
from leasehold.core.model.lease import Lease
from leasehold.core.model.outcome import Complete, Fail, Outcome
from leasehold.worker.context import JobContext
from leasehold.worker.run import Host, Run
from leasehold.worker.task import ExecutorKind, TaskDefinition

PATIENCE_SECONDS = 60.0
"""How long a test waits for what must come; only a broken build ever waits that long."""


class WatchedRun:
    """A run whose end, reports and number of endings a test can wait for and look at."""

    def __init__(
        self,
        task: TaskDefinition,
        payload: bytes,
        *,
        codec: str = "json",
        job_id: str = "job-1",
        version: int = 1,
        attempt: int = 1,
        timeout_seconds: float | None = None,
    ) -> None:
        self.holds_lease = True
        self.lease = Lease(
            job_id=job_id,
            version=version,
            worker="worker-1",
            queue="default",
            task=task.name,
            payload=payload,
            codec=codec,
            priority=50,
            attempt=attempt,
            allowance=4,
            acquired_at=datetime(2030, 1, 1, tzinfo=UTC),
            expires_at=datetime(2030, 1, 1, 0, 5, tzinfo=UTC),
            lease_seconds=300.0,
            timeout_seconds=timeout_seconds,
        )
        self.reports: list[Any] = []
        self._changed = threading.Condition()
        self._endings = 0
        host = Host(
            self._on_change,
            lambda _: self.holds_lease,
            lambda lease, pid: JobContext(lease, self, pid=pid),
        )
        self.run = Run(self.lease, task, host)

    @property
    def context(self) -> JobContext:
        return self.run.context

    # -- the context's sink --------------------------------------------------------------------

    def progress(self, _lease: Lease, document: bytes) -> None:
        self._report(msgspec.json.decode(document))

    def log(self, _lease: Lease, line: LogLine) -> None:
        self._report(line.text)

    def _report(self, report: Any) -> None:
        with self._changed:
            self.reports.append(report)
            self._changed.notify_all()

    def _on_change(self, run: Run) -> None:
        with self._changed:
            self._endings += run.ended
            self._changed.notify_all()

    # -- what a test asks ----------------------------------------------------------------------

    def report(self, index: int = 0) -> Any:
        """A report of the task, by its place; waits for it."""
        self.wait_until(lambda: len(self.reports) > index)
        return self.reports[index]

    def outcome(self) -> Outcome:
        """How it ended; waits for that."""
        self.wait_until(lambda: self._endings > 0)
        assert self._endings == 1
        assert self.run.outcome is not None
        return self.run.outcome

    def result(self) -> Any:
        """The decoded result; waits for it, and fails unless there is one."""
        outcome = self.outcome()
        assert isinstance(outcome, Complete), outcome
        assert outcome.result is not None
        return msgspec.json.decode(outcome.result)

    def failure(self) -> Fail:
        """The failure; waits for it, and fails unless it is one."""
        outcome = self.outcome()
        assert isinstance(outcome, Fail), outcome
        return outcome

    def wait_until(self, condition: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, PATIENCE_SECONDS), "it never happened"


def call_run(
    func: Callable[..., Any],
    *args: Any,
    executor: ExecutorKind = "process",
    job_id: str = "job-1",
    version: int = 1,
    attempt: int = 1,
    timeout_seconds: float | None = None,
) -> WatchedRun:
    """A run that calls a function."""
    codec = CallCodec(func)
    task = TaskDefinition(f"{func.__module__}:{func.__qualname__}", func, codec, executor)
    payload = codec.encode_call(args, {})
    return WatchedRun(
        task,
        payload,
        job_id=job_id,
        version=version,
        attempt=attempt,
        timeout_seconds=timeout_seconds,
    )


def _no_code() -> None:
    """A command has no code of its own."""


def command_run(
    document: Any, *, codec: str = "json", job_id: str = "job-1", version: int = 1, attempt: int = 1
) -> WatchedRun:
    """A run of the task `command`, from its payload as a document or as raw bytes."""
    payload = document if isinstance(document, bytes) else msgspec.json.encode(document)
    task = TaskDefinition(COMMAND_TASK, _no_code, CallCodec(_no_code), "command")
    return WatchedRun(task, payload, codec=codec, job_id=job_id, version=version, attempt=attempt)
