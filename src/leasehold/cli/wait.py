"""`wait`: block until jobs have ended, and say how."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Final

import click

from leasehold.cli.command import command
from leasehold.cli.documents import full_document
from leasehold.cli.exits import Exit
from leasehold.cli.jobref import job_id_of
from leasehold.cli.options import DURATION
from leasehold.cli.output import Column, Document, cell, console, emit, emit_one, json_text
from leasehold.cli.safe import safe
from leasehold.cli.session import Session
from leasehold.cli.times import with_local_times
from leasehold.core.model.advice import words
from leasehold.core.model.job import COMMAND_TASK, Job
from leasehold.core.model.phrases import counted
from leasehold.core.model.status import Status
from leasehold.documents.jobs import job_document
from leasehold.env import SYSTEM
from leasehold.errors import LeaseholdError, ResultTimeoutError
from leasehold.queue.facade import TaskQueue
from leasehold.worker.unrunnable import is_handed_back

COLUMNS = (
    Column("id", "JOB", fit="id"),
    Column("status", "STATUS", fit="keep"),
    Column("attempts", "ATTEMPTS", right=True),
    Column("error", "ERROR", lambda error: f"{error.type}: {error.message}"),
)
_WITHIN: Final = re.compile(r" within \S+ seconds?")
LOOK_AGAIN_SECONDS: Final = 2.0
"""How often a waiting person is told why a job has not ended."""


@command()
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
@click.option("--timeout", type=DURATION, help="Stop waiting after this; exit with 124.")
def wait(session: Session, /, *, jobs: tuple[str, ...], timeout: float | None) -> None:
    """Wait until jobs have ended.

    It exits with 0 if all are completed, 7 if one is dead or cancelled, 124 after --timeout. -o
    json prints their results. JOB is a job's id, an unambiguous end of it, or @last.

    \b
    Example:
      queuectl wait e59eb8d6 --timeout 5m
    """
    job_ids = [job_id_of(session, each) for each in jobs]
    ended = wait_for_ends(session, job_ids, timeout)
    # The table shows no results: then none is fetched.
    for_people = session.format == "table"
    documents = (_for_people(job) if for_people else full_document(session, job) for job in ended)
    emit(session, documents, COLUMNS)
    if not all(job.status is Status.COMPLETED for job in ended):
        raise click.exceptions.Exit(Exit.JOB_FAILED)


def _for_people(job: Job) -> Document:
    """A job that did not fail at last shows no error of an attempt before."""
    return {**job_document(job), **({} if job.status is Status.DEAD else {"error": None})}


def wait_for_ends(session: Session, job_ids: Sequence[str], timeout: float | None) -> list[Job]:
    """Wait for jobs; on a terminal it says for which, and why the first has not ended.

    Ctrl-C ends the wait, not the jobs, and says so.
    """
    try:
        if session.format != "table" or not sys.stderr.isatty():
            return _wait_quietly(session, job_ids, timeout)
        return _wait_and_tell(session, job_ids, timeout)
    except KeyboardInterrupt:
        first = job_ids[0]
        named = words(first)
        again = f"`queuectl wait {named}` waits for it again, `queuectl cancel {named}` cancels it"
        if len(job_ids) > 1:
            session.tell(f"stopped waiting; the {len(job_ids)} jobs continue")
        elif held_up := why_pending(session, first):
            session.tell(f"{held_up}\n{again}")
        else:
            session.tell(f"stopped waiting; job {first} continues: {again}")
        raise


def why_pending(session: Session, job_id: str) -> str:
    """For a job that no worker has taken: that it is so, and why; nothing for any other."""
    try:
        job = session.queue.get(job_id)
        if job.status is not Status.PENDING and not is_handed_back(job):
            return ""
        why = str(session.queue.why(job_id))
    except LeaseholdError:
        return ""  # It is asked beside something else, which has its own error.
    return f"job {job_id} is still pending: {why[:1].lower()}{why[1:]}"


def _wait_quietly(session: Session, job_ids: Sequence[str], timeout: float | None) -> list[Job]:
    """For a program or a pipe: one line, once, if the first job waits for a worker."""
    if timeout is not None and timeout <= LOOK_AGAIN_SECONDS:
        return session.queue.wait(job_ids, timeout)
    end = None if timeout is None else SYSTEM.clock.monotonic() + timeout
    try:
        return session.queue.wait(job_ids, LOOK_AGAIN_SECONDS)
    except ResultTimeoutError:
        if held_up := why_pending(session, job_ids[0]):
            session.tell(held_up)
    left = None if end is None else max(0.0, end - SYSTEM.clock.monotonic())
    return _wait_for_the_rest(session, job_ids, left, timeout)


def _wait_and_tell(session: Session, job_ids: Sequence[str], timeout: float | None) -> list[Job]:
    clock = SYSTEM.clock
    end = None if timeout is None else clock.monotonic() + timeout
    waiting = f"waiting for job {safe(job_ids[0])}"
    waiting += f" and {len(job_ids) - 1} more" if len(job_ids) > 1 else ""
    is_told = False
    with console(stderr=True).status(waiting) as line:
        while True:
            left = None if end is None else max(0.0, end - clock.monotonic())
            if left is not None and left <= LOOK_AGAIN_SECONDS:
                break
            try:
                return session.queue.wait(job_ids, LOOK_AGAIN_SECONDS)
            except ResultTimeoutError as error:
                if not is_told and (held_up := why_pending(session, job_ids[0])):
                    line.stop()  # The sentence has a line of its own.
                    session.tell(held_up)
                    line.start()
                    is_told = True
                line.update(
                    f"{waiting}: {safe(with_local_times(_why(session, job_ids) or str(error)))}"
                )
        return _wait_for_the_rest(session, job_ids, left, timeout)


def _wait_for_the_rest(
    session: Session, job_ids: Sequence[str], left: float | None, timeout: float | None
) -> list[Job]:
    try:
        return session.queue.wait(job_ids, left)
    except ResultTimeoutError as error:
        # It names the rest of the time, and the person gave all of it.
        whole = f" within {counted(timeout or 0, 'second')}"
        raise ResultTimeoutError(_WITHIN.sub(whole, str(error), count=1)) from None


def _why(session: Session, job_ids: Sequence[str]) -> str:
    """Why the first of these that has not ended has not; nothing if they have by now."""
    late = (each for each in job_ids if not session.queue.get(each).is_terminal)
    return next((str(session.queue.why(each)) for each in late), "")


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
    news = f"job {job.id} is {job.status.value} after {counted(job.attempts, 'attempt')}"
    if job.status is Status.DEAD and job.error is not None:
        return f"{news}: {job.error.type}: {cell(job.error.message)}"
    return news if job.status is Status.COMPLETED else f"{news}: {job.reason or '-'}"


def _show_output(queue: TaskQueue, job: Job) -> None:
    from leasehold.cli.logs import output_lines

    for line in output_lines(queue, job, attempt=None):
        click.echo(safe(line.text, limit=None), err=line.stream == "stderr")
