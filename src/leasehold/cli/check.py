"""`check`: is the store whole?"""

from __future__ import annotations

import click

from leasehold.cli.command import command
from leasehold.cli.confirm import agreed, destructive
from leasehold.cli.exits import Exit
from leasehold.cli.leaving import leave_with
from leasehold.cli.output import cell, emit_one
from leasehold.cli.safe import safe
from leasehold.cli.session import Session
from leasehold.documents.records import document_of
from leasehold.env import SYSTEM


@command()
@click.option(
    "--repair-clock",
    is_flag=True,
    help="Set the store's clock back to this machine's (or its server's), if it is ahead.",
)
@destructive
def check(session: Session, *, repair_clock: bool, yes: bool, dry_run: bool) -> None:
    """Look for damage and broken invariants in the store.

    It reads the whole store, which takes a while on a large one. It exits with 1 if it finds a
    problem.

    A store's clock never steps back by itself. If the machine's clock was far ahead for a while,
    --repair-clock sets the store's clock back, with every time that came from it: correct the
    machine's clock and stop the workers first. It is refused while a worker is alive or a job runs.

    \b
    Examples:
      queuectl check
      queuectl check --repair-clock
    """
    if repair_clock:
        _repair_clock(session, yes=yes, dry_run=dry_run)
        return
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


def _repair_clock(session: Session, *, yes: bool, dry_run: bool) -> None:
    shown, right = session.queue.now(), SYSTEM.now()
    if shown <= right:
        session.tell(f"the store's clock shows {cell(shown)}, and is not ahead")
        return
    what = f"set the store's clock back from {cell(shown)} to {cell(right)}"
    if not agreed(session, what, yes=yes, dry_run=dry_run):
        return
    repair = session.queue.repair_clock()

    def show() -> None:
        click.echo(f"the store's clock was {cell(repair.before)}")
        click.echo(f"             it is now {cell(repair.after)}")
        for name, times in repair.changed.items():
            click.echo(f"{times:>10,}  {name}")

    emit_one(session, document_of(repair), show=show)
