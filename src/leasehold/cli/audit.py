"""`audit`: what people did."""

from __future__ import annotations

from typing import Final

from leasehold.cli.command import command
from leasehold.cli.output import Column, emit
from leasehold.cli.paging import entries, page_options
from leasehold.cli.session import Session
from leasehold.documents.records import document_of

COLUMNS: Final = (
    Column("at", "AT", fit="keep"),
    Column("actor", "WHO", fit="cut"),
    Column("action", "ACTION", fit="keep"),
    Column("count", "JOBS", right=True),
    Column("detail", "DETAIL", fit="cut", spare=1),
)


@command()
@page_options(50, shown="50")
def audit(session: Session, *, limit: int, cursor: str | None) -> None:
    """What people did, the latest first.

    Orders about jobs, queues, schedules and settings: who gave them, when, and to how many jobs.

    \b
    Examples: queuectl audit
              queuectl audit --limit 0 -o jsonl
    """
    found = entries(session, session.queue.audit_page, "records", limit=limit, cursor=cursor)
    emit(session, map(document_of, found), COLUMNS, nothing="nobody has given an order yet")
