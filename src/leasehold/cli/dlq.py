"""`dlq`: the dead letters, jobs that will not run again unless a person says so."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import Any

import click

from leasehold.cli.command import command, group
from leasehold.cli.documents import full_document
from leasehold.cli.filters import filter_options, is_everything
from leasehold.cli.jobref import job_id_of
from leasehold.cli.listing import LIMIT, error_line, with_command
from leasehold.cli.orders import Answer, Chosen, JobOrder, give, takes_jobs
from leasehold.cli.output import Column, emit, emit_one, jobs_counted, print_fields
from leasehold.cli.retry import brought_down, tell_left_cancelled
from leasehold.cli.safe import safe
from leasehold.cli.session import Session
from leasehold.core.model.advice import words
from leasehold.core.model.job import Job
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.core.rules.filter_orders import DiscardAll, ReplayAll
from leasehold.documents.jobs import attempt_document, letter_document, why_dead, why_given_up
from leasehold.errors import InvalidTransitionError, LeaseholdError

COLUMNS = (
    Column("id", "ID", fit="id"),
    Column("queue", "QUEUE", fit="cut", spare=2),
    Column("what", "TASK", fit="cut", least=12),
    Column("attempts", "ATTEMPTS", right=True, spare=3),
    Column("failure_count", "FAILURES", right=True, spare=4),
    Column("first_failed_at", "FIRST FAILED", fit="keep", spare=5),
    Column("completed_at", "DEAD SINCE", fit="keep", spare=1),
    Column("why", "WHY", fit="cut", least=24),
)
ATTEMPT_COLUMNS = (
    Column("number", "ATTEMPT", right=True),
    Column("worker", "WORKER", fit="middle", spare=1),
    Column("started_at", "STARTED", fit="keep", spare=2),
    Column("duration_seconds", "SECONDS", right=True),
    Column("outcome", "OUTCOME", fit="keep"),
    Column("error", "ERROR", error_line),
)

_takes_letters = partial(takes_jobs, status=False)


@group
def dlq() -> None:
    """Dead letters: list, show, retry and purge them."""


@command("list", of=dlq)
@filter_options(status=False)
@click.option(
    "--limit",
    "-n",
    type=click.IntRange(min=0),
    default=LIMIT,
    show_default=True,
    help="How many at most; 0 for all.",
)
def list_letters(session: Session, *, where: JobFilter, limit: int) -> None:
    """List dead letters, the last submitted first.

    \b
    Example:
      queuectl dlq list --queue mail --error Timeout
    """
    letters = session.queue.dead_letters.list(where)
    shown = list(islice(letters, limit)) if limit > 0 else letters
    letters_shown = map(letter_document, shown)
    emit(
        session,
        map(with_command, letters_shown) if session.format == "table" else letters_shown,
        COLUMNS,
        nothing="no dead letter matches"
        if not is_everything(where)
        else "there are no dead letters",
    )
    if limit > 0 and next(letters, None) is not None:
        session.tell(f"showing the first {limit:,}: --limit 0 shows all")


@command(of=dlq)
@click.argument("job_id", metavar="JOB")
def show(session: Session, job_id: str) -> None:
    """Show a dead letter: the job, its error with traceback, every attempt.

    JOB is a job's id, an unambiguous end of it, or @last.

    \b
    Example:
      queuectl dlq show job1
    """
    job = session.queue.get(job_id_of(session, job_id))
    if job.status is not Status.DEAD:
        raise _no_letter(job)
    attempts = [attempt_document(attempt) for attempt in session.queue.attempts(job)]
    fields = full_document(session, job)
    document = {
        **fields,
        "why": why_dead(job),
        "given_up": why_given_up(job),
        "attempt_records": attempts,
    }
    emit_one(
        session, document, show=lambda: _print_letter(session, job, fields["payload"], attempts)
    )


@command(of=dlq)
@_takes_letters
@click.option("--reset-attempts", is_flag=True, help="Restore all attempts, not only one.")
def retry(session: Session, *, chosen: Chosen, reset_attempts: bool) -> None:
    """Replay dead letters: one, several, those that match a filter, or all.

    Each is pending again, with one more attempt, or with all of them after --reset-attempts. Name
    jobs by their ids, or unambiguous ends of them; or use a filter, which shows the plan and asks.

    \b
    Examples:
      queuectl dlq retry job1 job2
      queuectl dlq retry --task send_email --error Timeout --yes
    """
    order = JobOrder(
        verb="replay",
        done="replayed",
        statuses=frozenset({Status.DEAD}),
        carry_out=lambda job_ids: session.queue.replay_each(job_ids, reset_attempts=reset_attempts),
        by_filter=ReplayAll(reset_attempts),
        left_alone=lambda job_ids: tell_left_cancelled(session, job_ids),
    )
    give(session, order, chosen)


@command(of=dlq)
@_takes_letters
def purge(session: Session, *, chosen: Chosen) -> None:
    """Delete dead letters, with their attempts and history.

    It shows their number and asks.

    \b
    Examples:
      queuectl dlq purge job1
      queuectl dlq purge --created-before -30d
      queuectl dlq purge --all --yes
    """
    order = JobOrder(
        verb="delete",
        done="deleted",
        statuses=frozenset({Status.DEAD}),
        carry_out=lambda job_ids: _discard(session, job_ids),
        by_filter=DiscardAll(),
        asks=True,
    )
    give(session, order, chosen)


def _discard(session: Session, job_ids: Sequence[str]) -> list[Answer]:
    """Delete dead letters; other ended jobs are not meant here."""
    known = {job_id: session.queue.get(job_id) for job_id in job_ids}
    letters = [job_id for job_id, job in known.items() if job.status is Status.DEAD]
    answers = dict(zip(letters, session.queue.discard_each(letters), strict=True))
    return [answers.get(job_id) or _no_letter(known[job_id]) for job_id in job_ids]


def _no_letter(job: Job) -> LeaseholdError:
    return InvalidTransitionError(f"job {job.id} is {job.status}, not a dead letter")


def _print_letter(session: Session, job: Job, payload: Any, attempts: list[dict[str, Any]]) -> None:
    print_fields(
        {
            "id": job.id,
            "queue": job.queue,
            "task": job.task,
            "payload": payload,
            "submitted": job.created_at,
            "dead_since": job.completed_at,
            "attempts": f"{job.attempts} of {job.allowance}",
            "failures": job.failure_count,
            "first_failed_at": job.first_failed_at,
            "last_failed_at": job.last_failed_at,
            "why": why_dead(job),
            "given_up": why_given_up(job),
            "metadata": job.metadata,
        }
    )
    click.echo()
    emit(session, attempts, ATTEMPT_COLUMNS, nothing="no attempt was made")
    if job.error is not None and job.error.traceback:
        click.echo(f"\n{safe(job.error.traceback.rstrip(), lines=True, limit=None)}")
    session.tell(f"\nto run it again: queuectl dlq retry {words(job.id)}")
    left = brought_down(session, [job.id])
    if left:
        others = "job" if len(left) == 1 else jobs_counted(len(left))
        session.tell(
            f"with the {others} that ended because of it: queuectl retry --graph {words(job.id)}"
        )
