"""`init`: make a store."""

from __future__ import annotations

from leasehold.cli.command import command
from leasehold.cli.output import emit_one
from leasehold.cli.session import Session


@command()
def init(session: Session) -> None:
    """Make a store, or bring one up to date.

    Every command that queues or runs jobs makes it too; this is for a look at it first. A store
    that is there already keeps all its jobs.
    """
    document = dict(session.new_queue.describe())
    session.tell(f"the store {session.shown_store} is ready")
    emit_one(session, document)
