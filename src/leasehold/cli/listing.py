"""`list`: jobs, the last submitted first."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Any, Final

import click

from leasehold.cli.command import command
from leasehold.cli.documents import document_of, job_document
from leasehold.cli.filters import filter_options
from leasehold.cli.output import Column, Document, emit
from leasehold.cli.session import Session
from leasehold.core.search import JobFilter

LIMIT: Final = 50
PAGE_SIZE: Final = 500


def error_line(error: Any) -> str:
    """An error in one line."""
    return f"{error.type}: {error.message}"


def _minute(moment: datetime) -> str:
    return f"{moment:%m-%d %H:%M:%S}"


COLUMNS: Final = (
    Column("id", "ID", fit="keep"),
    Column("queue", "QUEUE", fit="cut"),
    Column("task", "TASK", fit="cut"),
    Column("status", "STATUS", fit="keep"),
    Column("priority", "PRI", right=True),
    Column("attempts", "TRIES", right=True),
    Column("created_at", "SUBMITTED", _minute, fit="keep"),
    Column("error", "ERROR", error_line, fit="cut"),
)
ARCHIVED_COLUMNS: Final = (
    *(column for column in COLUMNS if column.field not in ("priority", "created_at", "error")),
    Column("completed_at", "ENDED", _minute, fit="keep"),
    Column("error", "ERROR", error_line, fit="cut"),
)


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
@click.option("--archived", is_flag=True, help="Jobs that were pruned, as the archive knows them.")
def list_jobs(session: Session, *, where: JobFilter, limit: int, archived: bool) -> None:
    """List jobs, the last submitted first.

    Everything given must hold. For programs, -o jsonl prints job by job, however many there are.

    \b
    Examples: queuectl list --status dead,failed --queue mail
              queuectl list --meta tenant=acme --created-from -2h --limit 0 -o jsonl
    """
    if archived:
        emit(session, _archived(session, where, limit), ARCHIVED_COLUMNS, nothing="no job fits")
    else:
        emit(session, _jobs(session, where, limit), COLUMNS, nothing="no job fits")


def _jobs(session: Session, where: JobFilter, limit: int) -> Iterator[Document]:
    left, cursor = limit, None
    while True:
        size = min(left, PAGE_SIZE) if limit else PAGE_SIZE
        page = session.queue.search_page(where, limit=size, cursor=cursor)
        yield from map(job_document, page.jobs)
        left, cursor = left - len(page.jobs), page.next_cursor
        if cursor is None:
            return
        if limit and not left:
            _tell_of_more(session, limit)
            return


def _archived(session: Session, where: JobFilter, limit: int) -> Iterator[Document]:
    found = session.queue.archive.search(where)
    yield from map(document_of, islice(found, limit or None))
    if limit and next(found, None) is not None:
        _tell_of_more(session, limit)


def _tell_of_more(session: Session, limit: int) -> None:
    session.tell(f"there are more than these {limit:,}: raise --limit, or 0 for all")
