"""`status`: what there is, at one glance."""

from __future__ import annotations

from collections.abc import Iterable

import click

from leasehold.cli.breakdowns import ERRORS_AT_A_GLANCE, error_line
from leasehold.cli.command import command
from leasehold.cli.output import Column, Document, cell, emit, emit_one, jobs_counted
from leasehold.cli.overview import look, warnings_of
from leasehold.cli.session import Session
from leasehold.core.model.advice import word
from leasehold.core.model.job import COMMAND_TASK
from leasehold.core.model.records import ALL_QUEUES
from leasehold.core.model.status import Status
from leasehold.worker.emptiness import Emptiness

ALWAYS_SHOWN = (Status.PENDING, Status.RUNNING)
WORKER_COLUMNS = (
    Column("id", "WORKER", fit="middle", least=16),
    Column("host", "HOST", fit="cut", spare=2),
    Column("pid", "PID", right=True),
    Column("queues", "QUEUES", ",".join, fit="cut", spare=1, least=12),
    Column("slots", "SLOTS", right=True),
    Column("running", "RUNNING", right=True),
    Column("heartbeat_at", "LAST HEARTBEAT", fit="keep"),
)


@command()
def status(session: Session) -> None:
    """Show queues, jobs and workers.

    If jobs failed within a day, the most frequent errors follow; `stats --by error` has all. The
    store keeps the counts, so this is as fast with millions of jobs. Warnings, such as a queue
    without a worker, go to standard error.

    \b
    Examples:
      queuectl status
      queuectl status -o json | jq .jobs.pending
    """
    seen = look(session)
    document = seen.document()

    def show() -> None:
        jobs = sum(document["jobs"].values())
        click.echo(f"store {cell(seen.store)}: {jobs_counted(jobs)}\n")
        emit(session, seen.queues, queue_columns(seen.queues), nothing="there is no queue yet")
        click.echo()
        emit(session, seen.workers, WORKER_COLUMNS, nothing=seen.no_worker)
        if seen.failures:
            click.echo()
            emit(session, map(error_line, seen.failures), ERRORS_AT_A_GLANCE)
        for warning in warnings_of(seen):
            session.tell(f"note: {warning}")
        for task, jobs in Emptiness(session.queue.store, (ALL_QUEUES,), None).handed_back().items():
            session.tell(f"note: {_nobody_runs(task, jobs)}")

    emit_one(session, document, show=show)


def _nobody_runs(task: str, jobs: int) -> str:
    if task == COMMAND_TASK:
        return f"no worker runs commands ({jobs_counted(jobs)}): start one with --allow-commands"
    return (
        f"no worker knows task {task} ({jobs_counted(jobs)}): start one that does, or see "
        f"`queuectl list --task {word(task)}`"
    )


def queue_columns(queues: Iterable[Document]) -> list[Column]:
    """The queues' columns: of the statuses, only those that some queue has jobs in."""
    rows = list(queues)
    shown = [
        each for each in Status if each in ALWAYS_SHOWN or any(row[each.value] for row in rows)
    ]
    return [
        Column("queue", "QUEUE", fit="cut"),
        Column("state", "STATE", fit="keep"),
        *(Column(each.value, each.value.upper(), "{:,}".format, right=True) for each in shown),
    ]
