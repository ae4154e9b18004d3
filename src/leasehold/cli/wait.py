"""`wait`: block until jobs have ended, and say how."""

from __future__ import annotations

import sys
from typing import Any

import click

from leasehold.cli.command import command
from leasehold.cli.documents import full_document
from leasehold.cli.exits import Exit
from leasehold.cli.jobref import job_id_of
from leasehold.cli.options import DURATION
from leasehold.cli.output import Column, cell, console, emit, emit_one, json_text
from leasehold.cli.safe import safe
from leasehold.cli.session import Session
from leasehold.core.model.job import Job
from leasehold.core.model.status import Status
from leasehold.documents.jobs import job_document
from leasehold.queue.facade import TaskQueue
from leasehold.queue.handle import JobHandle
from leasehold.worker.task import COMMAND_TASK

COLUMNS = (
    Column("id", "JOB"),
    Column("status", "STATUS"),
    Column("attempts", "ATTEMPTS", right=True),
    Column("error", "ERROR", lambda error: f"{error.type}: {error.message}"),
)


@command()
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
@click.option("--timeout", type=DURATION, help="Wait at most so long; then exit with 124.")
def wait(session: Session, /, *, jobs: tuple[str, ...], timeout: float | None) -> None:
    """Wait until jobs have ended.

    Exits with 0 if all are completed, 7 if one is dead or cancelled, 124 if the time is up. To see
    their results: -o json. JOB is a job's id, or enough of its beginning to be the only one.

    \b
    Example: queuectl wait 0199c0de --timeout 5m
    """
    job_ids = [job_id_of(session, each) for each in jobs]
    ended = session.queue.wait(job_ids, timeout)
    # The table shows no results: then none is fetched.
    for_people = session.format == "table"
    documents = (job_document(job) if for_people else full_document(session, job) for job in ended)
    emit(session, documents, COLUMNS)
    if not all(job.status is Status.COMPLETED for job in ended):
        raise click.exceptions.Exit(Exit.JOB_FAILED)


def wait_for_end(session: Session, handle: JobHandle[Any], timeout: float | None) -> Job:
    """For `enqueue --wait`: on a terminal it says for which job it waits.

    Ctrl-C ends the wait, not the job, and says so.
    """
    try:
        if session.format != "table" or not sys.stderr.isatty():
            return handle.wait(timeout)
        with console(stderr=True).status(f"waiting for job {safe(handle.id)}"):
            return handle.wait(timeout)
    except KeyboardInterrupt:
        session.tell(
            f"job {handle.id} goes on without you: `queuectl wait {handle.id}` waits for it again, "
            f"`queuectl cancel {handle.id}` stops it"
        )
        raise


def show_end(session: Session, queue: TaskQueue, job: Job, *, is_duplicate: bool) -> None:
    """For `enqueue --wait`: a job's result on standard output, the rest of the news beside it."""

    def show() -> None:
        session.tell(_news(job))
        if job.task == COMMAND_TASK:
            _show_output(queue, job)
        elif job.status is Status.COMPLETED:
            click.echo(json_text(document["result"], indent=2))

    document = full_document(session, job)
    emit_one(session, document | {"is_duplicate": is_duplicate}, show=show)
    if job.status is not Status.COMPLETED:
        raise click.exceptions.Exit(Exit.JOB_FAILED)


def _news(job: Job) -> str:
    news = f"job {job.id} is {job.status.value} after {job.attempts} attempt(s)"
    if job.status is Status.DEAD and job.error is not None:
        return f"{news}: {job.error.type}: {cell(job.error.message)}"
    return news if job.status is Status.COMPLETED else f"{news}: {job.reason or '-'}"


def _show_output(queue: TaskQueue, job: Job) -> None:
    from leasehold.cli.logs import output_lines

    for line in output_lines(queue, job, attempt=None):
        click.echo(safe(line.text, limit=None), err=line.stream == "stderr")
