"""`sweep`: one pass of the recovery sweep."""

from __future__ import annotations

import click

from leasehold.cli.command import command
from leasehold.cli.output import emit_one, jobs_counted
from leasehold.cli.safe import safe
from leasehold.cli.session import Session
from leasehold.core.model.lease import SweepReport
from leasehold.documents.records import document_of


@command()
def sweep(session: Session) -> None:
    """Take jobs back from lost workers now.

    Running workers do this all the time; use it when there are none. It finds expired leases, and
    leases of workers that are proved dead.

    \b
    Example:
      queuectl sweep
    """
    report = session.queue.sweep()
    emit_one(session, document_of(report), show=lambda: click.echo(_told(report)))


def _told(report: SweepReport) -> str:
    """What happened, and nothing of what did not."""
    done = [
        (report.recovered, "to run again"),
        (report.dead, "to the dead letters, with no attempt left"),
        (report.cancelled, "cancelled"),
    ]
    lines = [f"{jobs_counted(count)} {became}" for count, became in done if count]
    lines += [f"worker {safe(worker)} is dead" for worker in report.workers_proved_dead]
    if report.errors:
        why = "" if report.last_error is None else f": {report.last_error.message}"
        lines.append(f"{jobs_counted(report.errors)} could not be taken back{safe(why)}")
    return "\n".join(lines) or "no job was lost: nothing to take back"
