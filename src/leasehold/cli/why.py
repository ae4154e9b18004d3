"""`why`: why is this job not running?"""

from __future__ import annotations

import sys

import click

from leasehold.cli.command import command
from leasehold.cli.jobref import job_id_of
from leasehold.cli.output import emit_one
from leasehold.cli.safe import safe
from leasehold.cli.session import Session
from leasehold.cli.times import with_local_times
from leasehold.cli.wrapping import wrapped
from leasehold.core.model.reason import Reason
from leasehold.documents.records import document_of


@command()
@click.argument("job")
def why(session: Session, job: str) -> None:
    """Say why a job does not run.

    It prints the first reason. JOB is a job's id, an unambiguous end of it, or @last.

    \b
    Example:
      queuectl why 38c56dff
    """
    job_id = job_id_of(session, job)
    reason = session.queue.why(job_id)
    emit_one(
        session,
        {"id": job_id, **document_of(reason)},
        show=lambda: _print(reason),
    )


def _print(reason: Reason) -> None:
    click.echo(wrapped(safe(with_local_times(reason.text)), sys.stdout))
    if "command" in reason.details:
        click.echo(f"  {safe(reason.details['command'])}")
