"""`sweep`: one pass of the recovery sweep."""

from __future__ import annotations

from leasehold.cli.command import command
from leasehold.cli.output import emit_one
from leasehold.cli.session import Session
from leasehold.documents.records import document_of


@command()
def sweep(session: Session) -> None:
    """Take back jobs from workers that were lost, now.

    Running workers do it by themselves all the time; this is for when there are none. It finds
    leases that expired, and those of workers that are proved dead.

    \b
    Example: queuectl sweep
    """
    emit_one(session, document_of(session.queue.sweep()))
