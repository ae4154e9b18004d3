"""The findings about a store: its health checks, and the alert rules of every queue."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from leasehold.core.model.queue_config import QueueInfo, QueueState
from leasehold.core.model.records import WorkerInfo, at_work, who_serves
from leasehold.core.model.settings import beat_seconds
from leasehold.core.rules.metrics import QueueMetrics
from leasehold.env import SYSTEM
from leasehold.errors import (
    StoreBusyError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreVersionError,
)
from leasehold.observe.alerts import BacklogChange, QueueFigures, alerts
from leasehold.observe.findings import Finding, Level
from leasehold.observe.health import WORKER_SILENT_SECONDS, Facts, examine
from leasehold.queue.growth import stretches_of
from leasehold.queue.unserved import next_tasks

if TYPE_CHECKING:
    from leasehold.queue.facade import TaskQueue

ALERT_SECONDS: Final = 300.0
"""The period before now that the alert rules examine."""
LOOKED_AT: Final = 1000
"""How many delayed jobs are searched for tasks that no worker knows."""


def findings_of(
    queue: TaskQueue,
    stale_pids: Sequence[int] = (),
    *,
    infos: Sequence[QueueInfo] | None = None,
    workers: Sequence[WorkerInfo] | None = None,
    measure: Callable[[], Sequence[QueueMetrics]] | None = None,
) -> list[Finding]:
    """The findings of every check and every alert rule.

    `stale_pids` are the pids of pid files on this machine whose process is gone. `infos` and
    `workers` spare a caller that already has them a second read, and `measure` spares a caller that
    has the metrics of `lately_of`.
    """
    try:
        facts = gather(queue, stale_pids, queue.workers() if workers is None else workers)
        findings = examine(facts)
        # A silent worker serves nothing, as in `why` and on the pages.
        alive = at_work(facts.workers, facts.lost_workers, facts.now)
        infos = queue.list_queues() if infos is None else infos
        serving = who_serves(alive, (info.name for info in infos))
        lately = lately_of(queue) if measure is None else measure()
        measured = {each.queue: each for each in lately}
        stretches = stretches_of(queue, [each for each in lately if serving.get(each.queue or "")])
        figures = [
            figures_of(info, len(serving[info.name]), measured[info.name])
            for info in infos
            # A queue created in between is judged next time.
            if info.name in measured
        ]
        tasks = next_tasks(queue, figures)
        for each in figures:
            grown = stretches.get(each.queue, each.stretches)
            findings += alerts(
                msgspec.structs.replace(each, stretches=grown, next_task=tasks.get(each.queue))
            )
    except StoreError as error:
        return [unreadable(error)]
    return findings


def lately_of(queue: TaskQueue) -> list[QueueMetrics]:
    """The metrics that the alert rules judge."""
    return queue.metrics_by_queue(ALERT_SECONDS, durations=("wait",))


def unreadable(error: StoreError) -> Finding:
    """The only possible finding about a store that does not answer."""
    return Finding(
        check="store",
        level=Level.CRITICAL,
        found=str(error),
        meaning="the store cannot be opened or read: nothing can be submitted or run",
        advice=_ADVICE.get(type(error), "resolve the problem that it names, and try again"),
    )


_ADVICE: Final[dict[type[StoreError], str]] = {
    StoreCorruptError: "stop all workers and restore the latest backup",
    StoreFullError: "free some space on that disk: nothing is lost, and the store then works again",
    StoreBusyError: "look at the process that it names; reads still work",
    StoreVersionError: "check the path of the store, or upgrade Leasehold",
}
"""Advice about a store that does not answer, by its error."""


def gather(queue: TaskQueue, stale_pids: Sequence[int], workers: Sequence[WorkerInfo]) -> Facts:
    """The facts that the checks judge."""
    now = queue.now()
    lost = queue.lost_workers()
    return Facts(
        store=queue.describe(),
        now=now,
        wall_clock=SYSTEM.now(),
        workers=list(workers),
        beat_seconds=beat_seconds(queue.store.settings().values),
        lost_workers=lost,
        gone_consumers=[each for each in workers if each.is_consumer and is_gone(each)],
        stale_pids=list(stale_pids),
        stuck=[
            job
            for job in queue.stuck(0)
            if job.lease_expires_at <= now
            or job.worker in lost
            or (now - job.heartbeat_at).total_seconds() >= WORKER_SILENT_SECONDS
        ],
        unrunnable=_unrunnable(queue),
        schedules=queue.schedules.list(),
        cleanup=next(iter(queue.cleanups(1)), None),
        dead_letters=len(queue.dead_letters),
    )


def figures_of(info: QueueInfo, workers: int, lately: QueueMetrics) -> QueueFigures:
    """The figures of one queue for the alert rules: its present state, and the period before.

    `workers` is how many are at work for it, neither proved dead nor silent for long.
    """
    is_paused = info.state is QueueState.PAUSED
    changed = info.changed_at if is_paused else None
    minutes = (lately.at - lately.since).total_seconds() / 60
    return QueueFigures(
        queue=info.name,
        pending=info.pending,
        workers=workers,
        paused=is_paused,
        paused_seconds=None if changed is None else int((lately.at - changed).total_seconds()),
        paused_by=info.changed_by if is_paused else None,
        max_depth=info.config.max_depth,
        oldest_pending_seconds=lately.oldest_pending_age_seconds,
        # The current minute counts as a whole one: one death in its first second is not a flood.
        dead_per_minute=lately.dead / max(1.0, minutes),
        attempts=lately.completed + lately.failed,
        failure_rate=lately.error_rate,
        leased=lately.leased,
        wait_p50_seconds=lately.wait.p50_seconds,
        wait_p99_seconds=lately.wait.p99_seconds,
        stretches=(BacklogChange(lately.pending_before, lately.pending, lately.leased),),
    )


def _unrunnable(queue: TaskQueue) -> dict[str, str]:
    """Tasks of jobs that were handed back because no worker could run them, with the reason."""
    from leasehold.core.model.reason import UNRUNNABLE
    from leasehold.worker.unrunnable import is_handed_back

    delayed = queue.search_page(
        status="scheduled", limit=LOOKED_AT, without=("payload", "result", "metadata")
    ).jobs
    return {
        job.task: (job.reason or "").removeprefix(UNRUNNABLE)
        for job in delayed
        if is_handed_back(job)
    }


def is_gone(worker: WorkerInfo) -> bool:
    """Whether it was a process of this machine that no longer exists."""
    here = worker.host == socket.gethostname()
    return here and worker.pid is not None and not _is_there(worker.pid)


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        # The number is what its client says, and may be none that a process could have.
        return False
    except PermissionError:
        return True
    return True
