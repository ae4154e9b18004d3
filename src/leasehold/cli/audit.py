"""`audit`: what people did."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Final

import click

from leasehold.cli.command import command
from leasehold.cli.options import MOMENT
from leasehold.cli.output import Column, emit
from leasehold.cli.paging import entries, page_options
from leasehold.cli.session import Session
from leasehold.documents.records import document_of

COLUMNS: Final = (
    Column("at", "AT", fit="keep"),
    Column("actor", "WHO", fit="cut"),
    Column("action", "ACTION", fit="keep"),
    Column("count", "JOBS", lambda jobs: f"{jobs:,}" if jobs else "-", right=True),
    Column("detail", "DETAIL", fit="cut", spare=1),
)


@command()
@click.option("--since", type=MOMENT, help="Given at this time or later.")
@click.option("--before", type=MOMENT, help="Given before this time.")
@page_options(50, shown="50")
def audit(
    session: Session,
    *,
    since: datetime | None,
    before: datetime | None,
    limit: int,
    cursor: str | None,
) -> None:
    """Show the audit log, latest first.

    It lists changes to jobs, queues, schedules and settings: the actor, the time, and the number of
    jobs. Records are kept for 90 days, and for another year in the archive; both are shown.

    \b
    Examples:
      queuectl audit
      queuectl audit --since 2026-01-01 --before 2026-02-01
      queuectl audit --limit 0 -o jsonl
    """
    page = partial(session.queue.audit_page, since=since, before=before)
    found = entries(session, page, "records", limit=limit, cursor=cursor)
    whenever = since is None and before is None
    nothing = "there are no orders yet" if whenever else "there are no orders in that time"
    emit(session, map(document_of, found), COLUMNS, nothing=nothing)
