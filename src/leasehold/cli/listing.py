"""`list`: jobs, the last submitted first."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import date, datetime
from itertools import islice
from typing import Any, Final

import click

from leasehold.cli.command import command
from leasehold.cli.filters import filter_options
from leasehold.cli.options import DAY, DURATION
from leasehold.cli.output import Column, Document, emit, emit_one
from leasehold.cli.session import Session
from leasehold.core.model.job import COMMAND_TASK
from leasehold.core.model.reason import UNRUNNABLE
from leasehold.core.model.refusals import no_queue
from leasehold.core.model.search import HeavyField, JobFilter
from leasehold.core.model.status import Status
from leasehold.documents.archive import archived_document
from leasehold.documents.jobs import job_document
from leasehold.documents.records import document_of
from leasehold.documents.spans import age_of

LIMIT: Final = 50
PAGE_SIZE: Final = 500


def error_line(error: Any) -> str:
    """An error in one line; a text is one already."""
    return error if isinstance(error, str) else f"{error.type}: {error.message}"


def columns(now: datetime, *, archived: bool = False, only_running: bool = False) -> list[Column]:
    """The columns of a table of jobs; for running jobs, the holder and the end of the lease."""

    def age(moment: datetime) -> str:
        return age_of((now - moment).total_seconds())

    def end(moment: datetime) -> str:
        return f"in {age_of((moment - now).total_seconds())}" if moment > now else "overdue"

    shown = [
        Column("id", "ID", fit="id"),
        Column("queue", "QUEUE", fit="cut", spare=2),
        Column("what", "TASK", fit="cut", least=22),
        Column("status", "STATUS", fit="keep", spare=1 if only_running else 0),
        Column("priority", "PRI", right=True, spare=5),
        Column("attempts", "TRIES", right=True, spare=4),
        Column("created_at", "AGE", age, right=True, spare=3),
        Column("completed_at", "ENDED", age, right=True, spare=2),
        Column("run_seconds", "RAN", age_of, right=True, spare=1),
        Column("worker", "WORKER", fit="cut", least=12),
        Column("lease_expires_at", "LEASE ENDS", end, fit="keep"),
        Column("error", "ERROR", error_line, fit="cut", spare=1, least=16),
    ]
    hidden = {"priority", "created_at"} if archived else {"completed_at", "run_seconds"}
    if only_running:
        hidden |= {"error", "priority"}
    else:
        hidden |= {"worker", "lease_expires_at"}
    return [column for column in shown if column.field not in hidden]


@command("list")
@filter_options()
@click.option(
    "--limit",
    "-n",
    type=click.IntRange(min=0),
    default=LIMIT,
    show_default=True,
    help="How many at most; 0 for all.",
)
@click.option("--count", is_flag=True, help="Print only the number of jobs.")
@click.option("--archived", is_flag=True, help="List pruned jobs, from the archive.")
@click.option("--slowest", is_flag=True, help="With --archived: the longest run first.")
@click.option("--ran-min", type=DURATION, help="With --archived: ran at least this long.")
@click.option("--ran-max", type=DURATION, help="With --archived: ran at most this long.")
@click.option("--ended-from", type=DAY, help="With --archived: ended on this day (UTC) or later.")
@click.option("--ended-until", type=DAY, help="With --archived: ended on this day at the latest.")
def list_jobs(
    session: Session,
    /,
    *,
    where: JobFilter,
    limit: int,
    count: bool,
    archived: bool,
    **of_the_archive: Any,
) -> None:
    """List jobs, the last submitted first.

    A job must match all options. For programs, -o jsonl prints any number of jobs one by one.
    --count is exact up to 10,000, and beyond that if you filter only by queue, task and status.

    \b
    Examples:
      queuectl list --status dead,failed --queue mail
      queuectl list --status dead --since -1d
      queuectl list --limit-key acme --count
      queuectl list --meta tenant=acme --created-from -2h --limit 0 -o jsonl
      queuectl list --archived --task reports:nightly --slowest -n 10
    """
    given = [value for value in of_the_archive.values() if value is not None and value is not False]
    if given and not archived:
        raise click.UsageError(
            "--slowest, --ran-min, --ran-max, --ended-from and --ended-until require --archived"
        )
    _tell_unknown_queues(session, where)
    if count:
        _print_count(session, where, archived=archived)
        return
    if archived and (where.finished_from or where.finished_before):
        raise click.UsageError("with --archived it is --ended-from and --ended-until, by days")
    only_running = where.statuses == (Status.RUNNING,) and not archived
    shown = columns(session.queue.now(), archived=archived, only_running=only_running)
    documents = (
        _archived(session, where, limit, **of_the_archive)
        if archived
        else _jobs(session, where, limit)
    )
    told = map(with_command, documents) if session.format == "table" else documents
    emit(session, told, shown, nothing="no job matches")


def _tell_unknown_queues(session: Session, where: JobFilter) -> None:
    """A misspelt queue holds no job, which reads like an answer."""
    if where.queues:
        known = session.queue.queues()
        for name in where.queues:
            if name not in known:
                session.tell(str(no_queue(name, known)))


def _print_count(session: Session, where: JobFilter, *, archived: bool) -> None:
    if archived:
        raise click.UsageError("--count counts jobs of the store, not of the archive")
    found = session.queue.count(where)
    emit_one(session, document_of(found), show=lambda: click.echo(str(found)))


def with_command(document: Document) -> Document:
    """The task in a table: for command jobs the command line, since all are of one task.

    A job that workers hand back, because they do not know its task, says so in place of an error.
    """
    text = command_text(document.get("payload")) if document["task"] == COMMAND_TASK else None
    told = {**document, "what": text or document["task"]}
    if document["status"] == Status.COMPLETED:
        told["error"] = None  # The error of an earlier attempt.
    reason = document.get("reason")
    if reason is not None and reason.startswith(UNRUNNABLE) and document["status"] == "scheduled":
        told["error"] = reason
    return told


def command_text(payload: Any) -> str | None:
    """The command line of a command job; None if its payload is not at hand.

    >>> command_text({"argv": ["ls", "a b"]}), command_text({"shell": "ls | wc"})
    ("$ ls 'a b'", '$ ls | wc')
    """
    match payload:
        case {"shell": str(text)}:
            return f"$ {text}"
        case {"argv": [*words]}:
            return f"$ {shlex.join(map(str, words))}"
    return None


def _jobs(session: Session, where: JobFilter, limit: int) -> Iterator[Document]:
    # A table has no column for these; it tells commands by their payload.
    unseen: tuple[HeavyField, ...] = ("result", "metadata") if session.format == "table" else ()
    left, cursor = limit, None
    while True:
        size = min(left, PAGE_SIZE) if limit else PAGE_SIZE
        page = session.queue.search_page(where, limit=size, cursor=cursor, without=unseen)
        yield from map(job_document, page.jobs)
        left, cursor = left - len(page.jobs), page.next_cursor
        if cursor is None:
            return
        if limit and not left:
            total = session.queue.count(where)
            _tell_later(session, f"showing {limit:,} of {total} jobs: --limit 0 shows all")
            return


def _archived(
    session: Session,
    where: JobFilter,
    limit: int,
    *,
    slowest: bool,
    ran_min: float | None,
    ran_max: float | None,
    ended_from: date | None,
    ended_until: date | None,
) -> Iterator[Document]:
    found = session.queue.archive.search(
        where,
        first_day=ended_from,
        last_day=ended_until,
        run_seconds_min=ran_min,
        run_seconds_max=ran_max,
        slowest_first=slowest,
    )
    yield from map(archived_document, islice(found, limit or None))
    if limit and next(found, None) is not None:
        _tell_later(session, f"showing the first {limit:,}: --limit 0 shows all")


def _tell_later(session: Session, hint: str) -> None:
    """Say it below the table, which is not printed yet."""
    click.get_current_context().call_on_close(lambda: session.tell(hint))
