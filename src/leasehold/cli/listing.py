"""`list`: jobs, the last submitted first."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Any, Final

import click

from leasehold.cli.command import command
from leasehold.cli.filters import filter_options
from leasehold.cli.output import Column, Document, emit
from leasehold.cli.session import Session
from leasehold.cli.spans import age_of
from leasehold.core.model.search import HeavyField, JobFilter
from leasehold.documents.jobs import job_document
from leasehold.documents.records import document_of
from leasehold.worker.task import COMMAND_TASK

LIMIT: Final = 50
PAGE_SIZE: Final = 500


def error_line(error: Any) -> str:
    """An error in one line."""
    return f"{error.type}: {error.message}"


def columns(now: datetime, *, archived: bool = False) -> list[Column]:
    """What a table of jobs shows."""

    def age(moment: datetime) -> str:
        return age_of((now - moment).total_seconds())

    shown = [
        Column("id", "ID", fit="keep"),
        Column("queue", "QUEUE", fit="cut", spare=1),
        Column("what", "TASK", fit="cut"),
        Column("status", "STATUS", fit="keep"),
        Column("priority", "PRI", right=True, spare=5),
        Column("attempts", "TRIES", right=True, spare=4),
        Column("created_at", "AGE", age, right=True, spare=2),
        Column("completed_at", "ENDED", age, right=True, spare=2),
        Column("error", "ERROR", error_line, fit="cut", spare=3),
    ]
    hidden = ("priority", "created_at") if archived else ("completed_at",)
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
@click.option("--archived", is_flag=True, help="Jobs that were pruned, as the archive knows them.")
def list_jobs(session: Session, *, where: JobFilter, limit: int, archived: bool) -> None:
    """List jobs, the last submitted first.

    Everything given must hold. For programs, -o jsonl prints job by job, however many there are.

    \b
    Examples: queuectl list --status dead,failed --queue mail
              queuectl list --meta tenant=acme --created-from -2h --limit 0 -o jsonl
    """
    find = _archived if archived else _jobs
    shown = columns(session.queue.now(), archived=archived)
    documents = find(session, where, limit)
    told = map(_told, documents) if session.format == "table" else documents
    emit(session, told, shown, nothing="no job fits")


def _told(document: Document) -> Document:
    """As a table shows it: of commands what is run, for they are all of one task."""
    text = command_text(document.get("payload")) if document["task"] == COMMAND_TASK else None
    return {**document, "what": text or document["task"]}


def command_text(payload: Any) -> str | None:
    """What a command job runs; None if its payload is not at hand.

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
            _tell_of_more(session, limit)
            return


def _archived(session: Session, where: JobFilter, limit: int) -> Iterator[Document]:
    found = session.queue.archive.search(where)
    yield from map(document_of, islice(found, limit or None))
    if limit and next(found, None) is not None:
        _tell_of_more(session, limit)


def _tell_of_more(session: Session, limit: int) -> None:
    """Say it below the table, which is not printed yet."""
    hint = f"there are more than these {limit:,}: raise --limit, or 0 for all"
    click.get_current_context().call_on_close(lambda: session.tell(hint))
