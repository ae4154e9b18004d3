"""A store that can be told to fail, and a registry that takes plain functions."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any

from leasehold.codec import CallCodec
from leasehold.core.model.job import Draft, Job
from leasehold.core.model.lease import (
    Exchange,
    LeaseRequest,
    Renewal,
    Renewed,
    Settlement,
    SweepReport,
)
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.env import SYSTEM, Env
from leasehold.errors import LeaseLostError, StoreUnavailableError
from leasehold.stores.memory import MemoryStore
from leasehold.worker.task import ExecutorKind, TaskDefinition, TaskRegistry, default_executor

PATIENCE_SECONDS = 60.0
LOOK_SECONDS = 0.05


class MoodyStore(MemoryStore):
    """A memory store that counts calls, fails those it is told to, and lets a test await jobs."""

    def __init__(self, env: Env = SYSTEM) -> None:
        super().__init__(env)
        self.calls: Counter[str] = Counter()
        self.refused: set[str] = set()
        self.renewed: set[str] = set()
        self.before: dict[str, Callable[[], None]] = {}
        self.after_exchange: Callable[[Exchange], None] | None = None
        """Called when the leases are written, and the worker does not know of them yet."""
        self.dead: set[str] = set()
        self.news = threading.Condition()
        self.subscribe(self)

    def exchange(
        self, settlements: Sequence[Settlement] = (), request: LeaseRequest | None = None
    ) -> Exchange:
        self._called("exchange")
        answer = super().exchange(settlements, request)
        self._tell()
        if self.after_exchange is not None:
            self.after_exchange(answer)
        return answer

    def renew(self, worker: str, renewals: Sequence[Renewal]) -> list[Renewed | LeaseLostError]:
        self.renewed.update(renewal.job_id for renewal in renewals)
        self._called("renew")
        return super().renew(worker, renewals)

    def recover(self, *, actor: str | None = None) -> SweepReport:
        self._called("recover")
        return super().recover(actor=actor)

    def report_progress(self, job_id: str, version: int, progress: bytes) -> None:
        self._called("report_progress")
        super().report_progress(job_id, version, progress)

    def _called(self, name: str) -> None:
        self.calls[name] += 1
        self._tell()
        if name in self.before:
            self.before[name]()
        if name in self.refused:
            raise StoreUnavailableError(f"{name} is refused for the test")

    # -- awaiting ----------------------------------------------------------------------------

    def on_ready(self) -> None:
        self._tell()

    def on_ended(self, job_ids: Collection[str] | None) -> None:
        self._tell()

    def on_cancel_requested(self, job_ids: Collection[str] | None) -> None:
        self._tell()

    def _tell(self) -> None:
        with self.news:
            self.news.notify_all()

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait until this is so; it is looked at whenever something happens in the store.

        And now and then: what a worker does about it, it does after that.
        """
        looks_in_silence = 0
        with self.news:
            while not condition():
                looks_in_silence = 0 if self.news.wait(LOOK_SECONDS) else looks_in_silence + 1
                assert looks_in_silence * LOOK_SECONDS < PATIENCE_SECONDS, "it did not happen"

    def job(self, job_id: str) -> Job:
        job = self.get(job_id)
        assert job is not None
        return job

    def search_all(self) -> list[Job]:
        return list(self.search(JobFilter(), limit=1000).jobs)

    def until_status(self, job_id: str, status: Status) -> Job:
        self.until(lambda: self.job(job_id).status is status)
        return self.job(job_id)


class MortalStore(MoodyStore):
    """One that knows at once who died."""

    def dead_workers(self) -> set[str]:
        return set(self.dead)


class Tasks(TaskRegistry):
    """A registry that takes plain functions."""

    def add(
        self,
        func: Callable[..., Any],
        name: str | None = None,
        executor: ExecutorKind | None = None,
        **options: Any,
    ) -> str:
        name = name or func.__name__
        kind = executor or default_executor(func)
        self.register(TaskDefinition(name, func, CallCodec(func), kind, **options))
        return name


def submit_to(store: MemoryStore, task: str, *args: Any, **options: Any) -> str:
    """Submit a job; answers with its id."""
    job_id: str = options.pop("id", None) or SYSTEM.new_id()
    payload = CallCodec(_any_arguments).encode_call(args, {})
    store.submit([Draft(id=job_id, task=task, payload=payload, **options)])
    return job_id


def _any_arguments(*args: Any) -> None: ...
