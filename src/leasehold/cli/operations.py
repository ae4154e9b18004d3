"""`operations`: orders to many jobs, and their progress."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import click

from leasehold.cli.command import command, group
from leasehold.cli.confirm import agreed, destructive
from leasehold.cli.output import Column, emit, emit_one, jobs_counted, print_fields
from leasehold.cli.planned import carry_out, tell_report
from leasehold.cli.session import Session
from leasehold.core.rules.operations import Operation
from leasehold.documents.operations import done_of, operation_document


def _sum(refused: Mapping[str, int]) -> str:
    return f"{sum(refused.values()):,}"


COLUMNS: Final = (
    Column("id", "ID", fit="id"),
    Column("verb", "VERB", fit="keep"),
    Column("state", "STATE", fit="keep"),
    Column("changed", "DONE", "{:,}".format, right=True),
    Column("planned", "OF", "{:,}".format, right=True),
    Column("refused", "REFUSED", _sum, right=True, spare=2),
    Column("moved_on", "MOVED ON", "{:,}".format, right=True, spare=3),
    Column("actor", "WHO", fit="cut", spare=1),
    Column("begun_at", "BEGUN", fit="keep"),
)


@group
def operations() -> None:
    """Operations: orders to many jobs, how far each is, stop and undo them."""


@command("list", of=operations)
def list_operations(session: Session) -> None:
    """List the operations, the latest first.

    Every order to jobs that fit a filter is one, whoever gave it: here, on the dashboard, or by a
    program. An interrupted one makes no progress: `operations continue` resumes it.

    \b
    Example:
      queuectl operations list
    """
    now = session.queue.now()
    found = (operation_document(each, now) for each in session.queue.operations)
    emit(session, found, COLUMNS, nothing="there are no operations yet")


@command(of=operations)
@click.argument("operation_id", metavar="OPERATION")
def show(session: Session, operation_id: str) -> None:
    """Show one operation: its filter, its plan, its report.

    \b
    Example:
      queuectl operations show 4eb9b818
    """
    _print(session, _named(session, operation_id))


@command(of=operations)
@click.argument("operation_id", metavar="OPERATION")
def stop(session: Session, operation_id: str) -> None:
    """Stop an operation between two of its writes; what it did stays done.

    \b
    Example:
      queuectl operations stop 4eb9b818
    """
    stopped = session.queue.operations.stop(_named(session, operation_id).id)
    _print(session, stopped)
    tell_report(session, stopped)


@command(of=operations)
@click.argument("operation_id", metavar="OPERATION")
@destructive
def undo(session: Session, operation_id: str, yes: bool, dry_run: bool) -> None:
    """Undo an operation, for all jobs that nobody has leased or changed since.

    Replayed jobs are dead or cancelled again, cancelled ones wait again if they were pending or
    blocked, priorities are what they were. Deleted jobs stay deleted. The undo is an operation too.

    \b
    Example:
      queuectl operations undo 4eb9b818 --yes
    """
    known = _named(session, operation_id)
    what = f"take back what was done to {jobs_counted(known.changed)}"
    if known.can_be_undone and not agreed(session, what, yes=yes, dry_run=dry_run):
        return
    _carry_out(session, session.queue.operations.undo(known.id))


@command("continue", of=operations)
@click.argument("operation_id", metavar="OPERATION")
def continue_operation(session: Session, operation_id: str) -> None:
    """Resume an operation whose process has ended.

    \b
    Example:
      queuectl operations continue 4eb9b818
    """
    known = _named(session, operation_id)
    _carry_out(session, session.queue.operations.resume(known.id))


def _named(session: Session, given: str) -> Operation:
    """The operation of this id, or the only one whose id begins or ends with it."""
    operations = session.queue.operations
    fitting = [each for each in operations if each.id.startswith(given) or each.id.endswith(given)]
    if len(fitting) > 1 and given not in (each.id for each in fitting):
        raise click.UsageError(
            f"{len(fitting)} operations have {given!r} in their id: give more of it"
        )
    return fitting[0] if len(fitting) == 1 else operations.get(given)


def _carry_out(session: Session, operation: Operation) -> None:
    done = carry_out(session, operation)
    if session.format == "table":
        click.echo(f"{done_of(done.order)} {jobs_counted(done.changed)} of {done.planned:,}")
    else:
        _print(session, done)
    tell_report(session, done)


def _print(session: Session, operation: Operation) -> None:
    document = operation_document(operation, session.queue.now())
    told = {name: value for name, value in document.items() if value not in (None, {}, [])}
    emit_one(session, document, show=lambda: print_fields(told))
