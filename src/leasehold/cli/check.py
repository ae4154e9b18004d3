"""`check`: is the store whole?"""

from __future__ import annotations

import click

from leasehold.cli.command import command
from leasehold.cli.exits import Exit
from leasehold.cli.leaving import leave_with
from leasehold.cli.output import emit_one
from leasehold.cli.safe import safe
from leasehold.cli.session import Session


@command()
def check(session: Session) -> None:
    """Look for damage and broken invariants in the store.

    It reads everything, so it takes a while on a large store. It exits with 1 if it finds a
    problem.

    \b
    Example: queuectl check
    """
    problems = session.queue.check()

    def show() -> None:
        for problem in problems:
            click.echo(safe(problem))
        if not problems:
            click.echo("ok: no problem found")

    emit_one(session, {"ok": not problems, "problems": problems}, show=show)
    if problems:
        session.tell("stop the workers, keep a copy of the file, and restore the latest backup")
    leave_with(Exit.FAILURE if problems else Exit.OK)
