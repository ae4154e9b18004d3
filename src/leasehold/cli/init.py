"""`init`: make a store."""

from __future__ import annotations

from leasehold.cli.command import command
from leasehold.cli.output import emit_one
from leasehold.cli.session import Session


@command()
def init(session: Session) -> None:
    """Create a store, or upgrade one.

    Commands that queue or run jobs also create a missing store. An existing store keeps all its
    jobs.
    """
    session.tells_of_new_store = False
    document = dict(session.new_queue.describe())
    session.tell(f"the store {session.shown_store} is ready")
    emit_one(session, document)
