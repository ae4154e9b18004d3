"""`history`: what happened to a job."""

from __future__ import annotations

from functools import partial
from typing import Final

import click

from leasehold.cli.command import command
from leasehold.cli.jobref import job_id_of
from leasehold.cli.output import Column, emit
from leasehold.cli.paging import entries, page_options
from leasehold.cli.session import Session
from leasehold.documents.records import document_of

COLUMNS: Final = (
    Column("sequence", "NO", right=True),
    Column("at", "AT", fit="keep"),
    Column("event", "EVENT", fit="keep"),
    Column("before", "BEFORE", fit="keep", spare=3),
    Column("after", "AFTER", fit="keep"),
    Column("attempts", "TRIES", right=True, spare=2),
    Column("worker", "WORKER", fit="middle", spare=1, least=24),
    Column("message", "MESSAGE"),
)


@command()
@click.argument("job")
@page_options(0, shown="all")
def history(session: Session, job: str, *, limit: int, cursor: str | None) -> None:
    """Show the events of a job, oldest first.

    JOB is a job's id, an unambiguous end of it, or @last. A cursor is the number (NO) of an
    event: later events are shown.

    \b
    Examples:
      queuectl history 38c56dff
      queuectl history 38c56dff --cursor 12
    """
    ask = partial(session.queue.history_page, job_id_of(session, job))
    events = entries(session, ask, "events", limit=limit, cursor=cursor)
    emit(
        session,
        map(document_of, events),
        COLUMNS,
        nothing="nothing has happened since"
        if cursor is not None
        else "its history was dropped: only a limited number of events of completed jobs is kept",
    )
