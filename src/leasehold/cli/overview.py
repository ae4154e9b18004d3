"""The whole store at one glance: queues, jobs, workers, and what looks wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from leasehold.cli.session import Session
from leasehold.core.model.advice import START_A_WORKER, words, worker_start
from leasehold.core.model.phrases import counted
from leasehold.core.model.queue_config import QueueState
from leasehold.core.model.records import at_work, serves
from leasehold.core.model.search import HeavyField
from leasehold.core.model.status import Status
from leasehold.core.rules.failures import FAILURES_MAX
from leasehold.documents.queues import queue_figures
from leasehold.documents.records import document_of
from leasehold.queue.unserved import next_task

if TYPE_CHECKING:
    from leasehold.queue.facade import TaskQueue

QueueFigures = Mapping[str, Any]
"""A queue's name and state, a count per status, and for `top` its recent figures."""

Parts = Sequence[str | None]
"""Queues whose figures add up to the total; None is the whole store."""

LATELY: Final = ("throughput_per_second", "error_rate", "oldest_pending_age_seconds")
LATELY_SECONDS: Final = 300.0
FAILURES_SHOWN: Final = 3
RUNNING_SHOWN: Final = 20
HEAVY: Final[tuple[HeavyField, ...]] = ("payload", "result", "metadata")
RATES: Final = ("submitted", "completed", "failed")


class Overview(NamedTuple):
    """What there was at one moment."""

    at: datetime
    store: str
    total: Mapping[str, int]
    queues: Sequence[QueueFigures]
    workers: Sequence[Mapping[str, Any]]
    window_seconds: float | None = None
    """How far back the figures of `top` go, all of them; None where there are none."""
    rates: Mapping[str, float] = {}
    """How many jobs were submitted, completed and failed per second, over the window."""
    running: Sequence[Mapping[str, Any]] = ()
    """Jobs that run, the longest first."""
    failures: Sequence[Mapping[str, Any]] = ()
    """What failed most of what failed in the window; within a day where there is none."""
    unserved: Mapping[str, str | None] = {}
    """Queues with pending jobs and no worker, and the task of the next job of each."""
    seal: str | None = None
    """Why the store accepts no writes, if it does not."""

    @property
    def no_worker(self) -> str:
        """The text where there is no worker."""
        # Where jobs wait, the warnings have the command that fits them.
        known = self.seal or self.unserved
        return "no worker is running" + ("" if known else f": {START_A_WORKER}")

    def document(self) -> dict[str, Any]:
        """For programs."""
        lately = {
            "window_seconds": self.window_seconds,
            "rates": dict(self.rates),
            "running": list(self.running),
        }
        return {
            "store": self.store,
            "at": self.at,
            **({} if self.window_seconds is None else lately),
            "jobs": {status.value: self.total[status.value] for status in Status},
            "queues": list(self.queues),
            "workers": list(self.workers),
            "failures": list(self.failures),
            "warnings": list(warnings_of(self)),
        }


def look(session: Session, *, window_seconds: float | None = None) -> Overview:
    """Look at everything once; with a window also at what happened in it, and at what runs.

    Nothing of it counts jobs one by one, and all queues are read at once.
    """
    queue = session.queue
    now = queue.now()
    infos = queue.list_queues()
    workers = at_work(queue.workers(), queue.lost_workers(), now)
    served = {name for worker in workers for name in worker.queues}
    lately = {} if window_seconds is None else _lately(queue, window_seconds)
    back = timedelta(days=1) if window_seconds is None else timedelta(seconds=window_seconds)
    about = queue.describe()
    # A token for some queues is told which: it may not ask about the whole store.
    parts = (None,) if about.get("queues") is None else tuple(info.name for info in infos)
    failures = [each for part in parts for each in queue.failures(part, limit=FAILURES_MAX)]
    return Overview(
        at=now,
        store=session.shown_store,
        total=_total(queue, parts),
        queues=[queue_figures(info) | lately.get(info.name, {}) for info in infos],
        workers=[document_of(worker) for worker in workers],
        unserved={
            info.name: next_task(queue, info.name)
            for info in infos
            if info.pending
            and info.state is not QueueState.PAUSED
            and not serves(served, info.name)
        },
        failures=[
            document_of(failure)
            for failure in sorted(failures, key=lambda failure: -failure.count)
            if now - failure.last_at < back
        ][:FAILURES_SHOWN],
        seal=about.get("seal"),
        window_seconds=window_seconds,
        rates={} if window_seconds is None else _rates(queue, parts, window_seconds),
        running=() if window_seconds is None else _running(queue, now),
    )


def _total(queue: TaskQueue, parts: Parts) -> Mapping[str, int]:
    total: Counter[str] = Counter()
    for part in parts:
        total.update(queue.get_queue_stats(part))
    return total


def _rates(queue: TaskQueue, parts: Parts, window_seconds: float) -> dict[str, float]:
    rates = dict.fromkeys(RATES, 0.0)
    for metrics in (queue.metrics(part, window_seconds) for part in parts):
        seconds = max(1.0, (metrics.at - metrics.since).total_seconds())
        for name in RATES:
            rates[name] += getattr(metrics, name) / seconds
    return rates


def _running(queue: TaskQueue, now: datetime) -> list[dict[str, Any]]:
    found = [
        {
            "id": job.id,
            "task": job.task,
            "queue": job.queue,
            "worker": job.worker,
            "started_at": job.started_at,
            "running_seconds": (now - (job.started_at or now)).total_seconds(),
        }
        for job in queue.search_page(status=Status.RUNNING, limit=RUNNING_SHOWN, without=HEAVY).jobs
    ]
    return sorted(found, key=lambda job: -job["running_seconds"])


def _lately(queue: TaskQueue, window_seconds: float) -> dict[str | None, dict[str, Any]]:
    return {
        metrics.queue: {
            **{field: getattr(metrics, field) for field in LATELY},
            # Where no attempt ended, none in a hundred is no answer.
            **({} if metrics.completed + metrics.failed else {"error_rate": None}),
            "wait_p95_seconds": metrics.wait.p95_seconds,
            "run_p95_seconds": metrics.run.p95_seconds,
        }
        for metrics in queue.metrics_by_queue(window_seconds)
    }


def warnings_of(overview: Overview) -> Iterator[str]:
    """The warnings that a person should see unasked."""
    if overview.seal is not None:
        # No other advice: it could not be followed on a store that accepts no writes.
        yield overview.seal
        return
    for queue in overview.queues:
        name, pending = queue["queue"], queue[Status.PENDING]
        if pending and queue["state"] == QueueState.PAUSED:
            yield (
                f"queue {name!r} is paused with {counted(pending, 'pending job')}: "
                f"`queuectl queue resume {words(name)}`"
            )
        elif name in overview.unserved:
            yield (
                f"no worker serves queue {name!r} ({counted(pending, 'pending job')}): "
                f"`{worker_start(name, overview.unserved[name])}`"
            )
    dead = overview.total[Status.DEAD]
    if dead:
        letters = "dead letter waits" if dead == 1 else "dead letters wait"
        yield f"{dead:,} {letters} for a decision: `queuectl dlq list`"
