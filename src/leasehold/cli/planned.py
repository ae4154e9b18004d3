"""Orders to many jobs on the command line: the plan, the question, the progress, the report."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from leasehold.cli.confirm import agreed
from leasehold.cli.exits import Exit
from leasehold.cli.output import console, jobs_counted
from leasehold.cli.session import Session, is_interactive
from leasehold.core.model.advice import words
from leasehold.core.rules.operations import Advance, Operation, OperationState, Plan
from leasehold.documents.operations import by_status, done_of, undo_of, why_skipped


def is_wanted(session: Session, plan: Plan, what: str, *, yes: bool, dry_run: bool) -> bool:
    """Show the plan to the person who is to decide, and ask."""
    if dry_run or (not yes and is_interactive()):
        _show(session, plan)
    return agreed(session, what, yes=yes, dry_run=dry_run)


def carry_out(
    session: Session, operation: Operation, on_progress: Callable[[Advance], None] | None = None
) -> Operation:
    """Carry an operation out, with its progress on a terminal. Ctrl-C stops it between two writes.

    Then the result is told, and the command ends.
    """
    operations = session.queue.operations
    try:
        with _progress(session, operation) as show:

            def told(advance: Advance) -> None:
                show(advance.operation)
                if on_progress is not None:
                    on_progress(advance)

            return operations.carry_out(operation, on_progress=told)
    except KeyboardInterrupt:
        stopped = operations.get(operation.id)
        if stopped.state is OperationState.RUNNING:
            stopped = operations.stop(operation.id)
        session.tell(
            f"\ninterrupted: {done_of(operation.order)} {jobs_counted(stopped.changed)} of "
            f"{operation.planned:,}, the others are as they were"
        )
        tell_report(session, stopped)
        raise click.exceptions.Exit(Exit.INTERRUPTED) from None


def tell_report(session: Session, operation: Operation) -> None:
    """What else is to be said of an operation that has ended, to the person."""
    if operation.moved_on:
        session.tell(f"{jobs_counted(operation.moved_on)} had moved on meanwhile")
    for code, jobs in operation.refused.items():
        session.tell(f"{jobs_counted(jobs)} refused: {code}")
    if operation.can_be_undone and sys.stderr.isatty():
        session.tell(f"to take it back: queuectl operations undo {words(operation.id)}")


def _show(session: Session, plan: Plan) -> None:
    session.tell(f"{jobs_counted(plan.planned)}: {by_status(plan.counts)}")
    for job in session.queue.operations.samples(plan):
        session.tell(f"  {job.id}  {job.status}  {job.task} in {job.queue}")
    if plan.skipped:
        session.tell(f"left alone: {by_status(plan.skipped)} ({why_skipped(plan.order)})")
    session.tell(undo_of(plan.order, plan.counts))


@contextmanager
def _progress(session: Session, operation: Operation) -> Iterator[Callable[[Operation], None]]:
    """On a terminal, a line that tells how far it is."""
    if session.format != "table" or not sys.stderr.isatty():
        yield lambda _: None
        return
    done = done_of(operation.order)
    with console(stderr=True).status(f"{done} 0 of {operation.planned:,}") as line:
        yield lambda now: line.update(f"{done} {now.changed:,} of {operation.planned:,}")
