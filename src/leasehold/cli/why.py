"""`why`: why is this job not running?"""

from __future__ import annotations

import sys

import click
import msgspec

from leasehold.cli.command import command
from leasehold.cli.jobref import job_id_of
from leasehold.cli.output import emit_one
from leasehold.cli.safe import safe
from leasehold.cli.session import Session
from leasehold.cli.tasknames import TypedTaskNames
from leasehold.cli.times import with_local_times
from leasehold.cli.wrapping import wrapped
from leasehold.core.model.reason import RENAMED, Reason, ReasonKind
from leasehold.documents.records import document_of
from leasehold.errors import UnknownTaskError


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
    reason = _with_renamed_task(session, job_id, session.queue.why(job_id))
    emit_one(
        session,
        {"id": job_id, **document_of(reason)},
        show=lambda: _print(reason),
    )


def _with_renamed_task(session: Session, job_id: str, reason: Reason) -> Reason:
    """A worker alone does not help where the module of the task is here, and does not have it."""
    if reason.kind is not ReasonKind.NO_WORKER:
        return reason
    try:
        TypedTaskNames(session.queue).check(session.queue.get(job_id).task)
    except UnknownTaskError as error:
        told = str(error) if str(error).endswith("?") else f"{error}."
        start = reason.text.partition(": start one")[0]
        text = f"{start}, and {told} {RENAMED}; then start a worker."
        return msgspec.structs.replace(reason, text=text)
    return reason


def _print(reason: Reason) -> None:
    click.echo(wrapped(safe(with_local_times(reason.text)), sys.stdout))
    if "command" in reason.details:
        click.echo(f"  {safe(reason.details['command'])}")
