"""`doctor`: everything that can be known to be wrong, what it means, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from leasehold.cli.command import command
from leasehold.cli.exits import Exit
from leasehold.cli.leaving import leave_with
from leasehold.cli.output import cell, emit
from leasehold.cli.session import Session
from leasehold.core.model.records import serves
from leasehold.documents.records import document_of
from leasehold.env import SYSTEM
from leasehold.errors import StoreError
from leasehold.observe.findings import Finding, Level, worst

if TYPE_CHECKING:
    from leasehold.core.model.queue_config import QueueInfo
    from leasehold.core.model.records import WorkerInfo
    from leasehold.observe.alerts import QueueFigures
    from leasehold.observe.health import Facts
    from leasehold.queue.facade import TaskQueue

ALERT_SECONDS: Final = 300.0
"""The time before now that the alert rules are about."""
LOOKED_AT: Final = 1000
"""How many delayed jobs are looked through for tasks that no worker knows."""

_MARKS: Final = {
    Level.OK: ("ok", "green"),
    Level.UNKNOWN: ("--", "bright_black"),
    Level.WARNING: ("!!", "yellow"),
    Level.CRITICAL: ("XX", "red"),
}


@command()
@click.option("--verbose", "-v", is_flag=True, help="Show also what is in order.")
def doctor(session: Session, *, verbose: bool) -> None:
    """Look for everything that needs attention.

    The file and its disk, the clock, workers, leases that nobody holds any more, tasks that no
    worker knows, and the alert rules for every queue: each with what it means and what to do. It
    exits with 1 if something is critical. It does not read every job: that is `check`.

    \b
    Examples: queuectl doctor
              queuectl doctor --verbose
              queuectl doctor -o json
    """
    findings = _findings(session)
    documents = [document_of(finding) for finding in findings]
    if session.format == "table":
        _print(findings, verbose=verbose)
    else:
        emit(session, documents, ())
    leave_with(Exit.FAILURE if worst(findings) is Level.CRITICAL else Exit.OK)


def _findings(session: Session) -> list[Finding]:
    from leasehold.observe.alerts import alerts
    from leasehold.observe.health import examine

    try:
        queue = session.queue
        findings = examine(gather(queue, _stale_pids(session)))
        workers = queue.workers()
        for info in queue.list_queues():
            findings += alerts(figures_of(info, workers, queue))
    except StoreError as error:
        return [
            Finding(
                check="store",
                level=Level.CRITICAL,
                found=str(error),
                meaning="the store cannot be opened or read: nothing can be submitted or run",
                advice="see what it says; a damaged file is replaced by the latest backup",
            )
        ]
    return findings


def gather(queue: TaskQueue, stale_pids: list[int]) -> Facts:
    """The facts that the checks judge."""
    from leasehold.cli.workers.overview import is_gone
    from leasehold.observe.health import WORKER_SILENT_SECONDS, Facts

    now = queue.now()
    lost = queue.lost_workers()
    workers = queue.workers()
    return Facts(
        store=queue.describe(),
        now=now,
        wall_clock=SYSTEM.now(),
        workers=workers,
        lost_workers=lost,
        gone_consumers=[each for each in workers if each.is_consumer and is_gone(each)],
        stale_pids=stale_pids,
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


def figures_of(info: QueueInfo, workers: Sequence[WorkerInfo], queue: TaskQueue) -> QueueFigures:
    """The figures of one queue that the alert rules judge: as it stands, and of the time before."""
    from leasehold.core.model.queue_config import QueueState
    from leasehold.observe.alerts import QueueFigures

    lost = set(queue.lost_workers())
    lately = queue.metrics(info.name, window_seconds=ALERT_SECONDS)
    minutes = (lately.at - lately.since).total_seconds() / 60
    return QueueFigures(
        queue=info.name,
        pending=info.pending,
        workers=sum(
            serves(worker.queues, info.name) and worker.id not in lost for worker in workers
        ),
        paused=info.state is QueueState.PAUSED,
        max_depth=info.config.max_depth,
        oldest_pending_seconds=lately.oldest_pending_age_seconds,
        # The minute that is not over counts as one: one death in its first second is no flood.
        dead_per_minute=lately.dead / max(1.0, minutes),
        attempts=lately.completed + lately.failed,
        failure_rate=lately.error_rate,
        leased=lately.leased,
        wait_p50_seconds=lately.wait.p50_seconds,
        wait_p99_seconds=lately.wait.p99_seconds,
    )


def _stale_pids(session: Session) -> list[int]:
    from leasehold.cli.workers.pidfile import pid_files
    from leasehold.cli.workers.plan import workers_folder

    files = pid_files(workers_folder(session.store_url))
    return [file.record.pid for file in files if file.is_stale]


def _unrunnable(queue: TaskQueue) -> dict[str, str]:
    """Tasks of jobs that were handed back because nobody could run them, with the reason."""
    from leasehold.worker.unrunnable import UNRUNNABLE, is_handed_back

    delayed = queue.search_page(status="scheduled", limit=LOOKED_AT).jobs
    return {
        job.task: (job.reason or "").removeprefix(UNRUNNABLE)
        for job in delayed
        if is_handed_back(job)
    }


def _print(findings: Sequence[Finding], *, verbose: bool) -> None:
    shown = [each for each in findings if verbose or each.level is not Level.OK]
    width = max((len(finding.check) for finding in shown), default=0)
    for finding in shown:
        mark, colour = _MARKS[finding.level]
        about = "" if finding.queue is None else f"queue {finding.queue}: "
        found = cell(about + finding.found)
        click.echo(f"{click.style(mark, fg=colour)}  {finding.check:<{width}}  {found}")
        for said in (finding.meaning, finding.advice and f"-> {finding.advice}"):
            if said:
                click.echo(f"    {'':<{width}}  {cell(said)}")
    count = {level: sum(each.level is level for each in findings) for level in Level}
    summary = ", ".join(f"{n} {level.value}" for level, n in count.items() if n)
    click.echo(f"\n{summary}" if shown else summary)
