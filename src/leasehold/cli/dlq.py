"""`dlq`: the dead letters, jobs that will not run again unless a person says so."""

from __future__ import annotations

from itertools import islice
from typing import Any

import click

from leasehold.cli.command import command, group
from leasehold.cli.confirm import agreed, destructive
from leasehold.cli.documents import document_of, job_document
from leasehold.cli.filters import filter_options, is_everything
from leasehold.cli.output import Column, cell, emit, emit_one, print_fields
from leasehold.cli.safe import safe
from leasehold.cli.session import Session
from leasehold.cli.several import change_each, leave_with
from leasehold.core.job import Attempt, Job
from leasehold.core.outcome import JobError
from leasehold.core.search import JobFilter
from leasehold.core.status import Status
from leasehold.errors import JobNotFoundError


def error_text(error: JobError) -> str:
    """An error in one line."""
    return f"{error.type}: {error.message}"


COLUMNS = (
    Column("id", "ID"),
    Column("queue", "QUEUE"),
    Column("task", "TASK"),
    Column("attempts", "ATTEMPTS", right=True),
    Column("completed_at", "DEAD SINCE"),
    Column("why", "WHY"),
)
ATTEMPT_COLUMNS = (
    Column("number", "ATTEMPT", right=True),
    Column("worker", "WORKER"),
    Column("started_at", "STARTED"),
    Column("duration_seconds", "SECONDS", right=True),
    Column("outcome", "OUTCOME"),
    Column("error", "ERROR", error_text),
)

_everything = click.option("--all", "everything", is_flag=True, help="All dead letters.")


@group
def dlq() -> None:
    """Dead letters: look at them, retry them, purge them."""


@command("list", of=dlq)
@click.option("--limit", "-n", default=50, show_default=True, help="At most so many; 0 for all.")
@filter_options(status=False)
def list_letters(session: Session, where: JobFilter, limit: int) -> None:
    """List dead letters, the last submitted first.

    \b
    Example: queuectl dlq list --queue mail --error Timeout
    """
    letters = session.queue.dead_letters.list(where)
    shown = list(islice(letters, limit)) if limit > 0 else letters
    emit(
        session,
        ({**job_document(job), "why": _why(job)} for job in shown),
        COLUMNS,
        nothing="no dead letter fits" if not is_everything(where) else "there are no dead letters",
    )
    if limit > 0 and next(letters, None) is not None:
        session.tell(f"these are the latest {limit}; there are more: --limit 0 shows all")


@command(of=dlq)
@click.argument("job_id", metavar="JOB")
def show(session: Session, job_id: str) -> None:
    """Show a dead letter: the job, its error with traceback, every attempt.

    \b
    Example: queuectl dlq show job1
    """
    job = session.queue.get(job_id)
    if job.status is not Status.DEAD:
        raise JobNotFoundError(f"job {job_id!r} is {job.status}, not a dead letter")
    attempts = [_attempt_document(attempt) for attempt in session.queue.attempts(job_id)]
    document = {**job_document(job), "why": _why(job), "attempt_records": attempts}
    emit_one(session, document, show=lambda: _print_letter(session, job, attempts))


@command(of=dlq)
@click.argument("job_ids", metavar="[JOB]...", nargs=-1)
@_everything
@filter_options(status=False)
@click.option("--reset-attempts", is_flag=True, help="All its attempts again, not only one more.")
@destructive
def retry(
    session: Session,
    where: JobFilter,
    job_ids: tuple[str, ...],
    everything: bool,
    reset_attempts: bool,
    yes: bool,
    dry_run: bool,
) -> None:
    """Replay dead letters: one, several, those that fit a filter, or all.

    Each gets one attempt more, or all of them again with --reset-attempts. Several that are chosen
    by a filter are counted first, and you are asked.

    \b
    Examples: queuectl dlq retry job1 job2
              queuectl dlq retry --task send_email --error Timeout --yes
    """
    letters = session.queue.dead_letters
    _check_choice(job_ids, where, everything)
    code = 0
    if job_ids and dry_run:
        session.tell(f"would replay {_counted(len(job_ids))}; nothing was changed")
        return
    if job_ids:
        replayed, refused, code = change_each(
            session, job_ids, lambda job_id: letters.replay(job_id, reset_attempts=reset_attempts)
        )
    else:
        count = sum(1 for _ in letters.list(where))
        if not agreed(session, f"replay {_counted(count)}", yes=yes, dry_run=dry_run):
            return
        replayed, refused = letters.replay(where, reset_attempts=reset_attempts), 0
    emit_one(session, {"replayed": replayed, "refused": refused})
    leave_with(code)


@command(of=dlq)
@click.argument("job_ids", metavar="[JOB]...", nargs=-1)
@_everything
@filter_options(status=False)
@destructive
def purge(
    session: Session,
    where: JobFilter,
    job_ids: tuple[str, ...],
    everything: bool,
    yes: bool,
    dry_run: bool,
) -> None:
    """Delete dead letters for good, with their attempts and history.

    \b
    Examples: queuectl dlq purge job1
              queuectl dlq purge --created-before -30d
              queuectl dlq purge --all --yes
    """
    letters = session.queue.dead_letters
    _check_choice(job_ids, where, everything)
    count = len(set(job_ids)) or sum(1 for _ in letters.list(where))
    if not agreed(session, f"delete {_counted(count)} for good", yes=yes, dry_run=dry_run):
        return
    refused, code = 0, 0
    if job_ids:
        purged, refused, code = change_each(session, job_ids, letters.discard)
    else:
        purged = letters.purge(where)
    emit_one(session, {"purged": purged, "refused": refused})
    leave_with(code)


def _check_choice(job_ids: tuple[str, ...], where: JobFilter, everything: bool) -> None:
    ways = (bool(job_ids), not is_everything(where), everything)
    if sum(ways) != 1:
        raise click.UsageError(
            "say which dead letters: by id, by a filter such as --queue or --error, or --all"
        )


def _counted(count: int) -> str:
    return f"{count:,} dead letter{'' if count == 1 else 's'}"


def _why(job: Job) -> str | None:
    return error_text(job.error) if job.error is not None else job.reason


def _attempt_document(attempt: Attempt) -> dict[str, Any]:
    return {**document_of(attempt), "duration_seconds": attempt.duration_seconds}


def _print_letter(session: Session, job: Job, attempts: list[dict[str, Any]]) -> None:
    failures = [each for each in attempts if each["error"] is not None]
    print_fields(
        {
            "id": job.id,
            "queue": job.queue,
            "task": job.task,
            "payload": job_document(job)["payload"],
            "submitted": job.created_at,
            "dead_since": job.completed_at,
            "attempts": f"{job.attempts} of {job.allowance}",
            "failures": len(failures),
            "first_failure": failures[0]["ended_at"] if failures else None,
            "last_failure": failures[-1]["ended_at"] if failures else None,
            "why": _why(job),
            "reason": job.reason,
            "metadata": job.metadata,
        }
    )
    click.echo()
    emit(session, attempts, ATTEMPT_COLUMNS, nothing="no attempt was made")
    if job.error is not None and job.error.traceback:
        click.echo(f"\n{safe(job.error.traceback.rstrip(), lines=True, limit=None)}")
    session.tell(f"\nto run it again: queuectl dlq retry {cell(job.id)}")
