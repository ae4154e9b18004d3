"""`stuck`: running jobs that show no sign of life, or run for too long."""

from __future__ import annotations

from typing import Any, Final

import click

from leasehold.cli.command import command
from leasehold.cli.confirm import agreed, destructive
from leasehold.cli.options import DURATION
from leasehold.cli.output import Column, emit
from leasehold.cli.session import Session
from leasehold.core.model.lease import StuckJob
from leasehold.core.model.phrases import counted
from leasehold.documents.records import document_of

SILENT_SECONDS: Final = 120.0
COLUMNS: Final = (
    Column("job_id", "ID", fit="id"),
    Column("task", "TASK", fit="cut"),
    Column("priority", "PRIORITY", right=True, spare=1),
    Column("worker", "WORKER", fit="cut"),
    Column("attempts", "ATTEMPTS", right=True, spare=2),
    Column("started_at", "RUNNING SINCE", fit="keep"),
    Column("heartbeat_at", "SILENT SINCE", fit="keep"),
)
REQUEUED_COLUMNS: Final = (
    *COLUMNS[:4],
    Column("outcome", "OUTCOME"),
)


@command()
@click.option(
    "--silent",
    type=DURATION,
    default=SILENT_SECONDS,
    help="Jobs whose worker has sent no heartbeat for this long; 2m by default.",
)
@click.option(
    "--running", type=DURATION, help="Also jobs that have run for this long, with heartbeats."
)
@click.option("--requeue", is_flag=True, help="Take them from their workers, to run again.")
@click.option("--reset-attempts", is_flag=True, help="With --requeue: restore all attempts.")
@destructive
def stuck(
    session: Session,
    *,
    silent: float,
    running: float | None,
    requeue: bool,
    reset_attempts: bool,
    yes: bool,
    dry_run: bool,
) -> None:
    """List running jobs without a heartbeat, or that run for too long.

    A worker that hangs or has lost its connection keeps its jobs until their leases end; --requeue
    takes them from it now, and refuses its outcomes. A job without attempts left becomes a dead
    letter, unless you add --reset-attempts.

    \b
    Examples:
      queuectl stuck --silent 30s
      queuectl stuck --running 1h --requeue
    """
    found = session.queue.stuck(silent, running)
    if not requeue or not found:
        emit(session, map(document_of, found), COLUMNS, nothing="no job is stuck")
        return
    holders = "its worker" if len(found) == 1 else "their workers"
    what = f"take {counted(len(found), 'job')} from {holders}"
    if not agreed(session, what, yes=yes, dry_run=dry_run):
        return
    report = session.queue.requeue_stuck(silent, running, reset_attempts=reset_attempts)
    emit(
        session,
        [_document(each.job, "pending", "") for each in report.requeued]
        + [_document(each.job, each.status, each.reason) for each in report.not_requeued],
        REQUEUED_COLUMNS,
        nothing="none of them is still stuck",
    )


def _document(job: StuckJob, status: str | None, reason: str) -> dict[str, Any]:
    outcome = reason or "requeued"
    return {**document_of(job), "status": status, "outcome": outcome}
