"""`prune`: forget what ended long ago."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from leasehold.cli.command import command
from leasehold.cli.confirm import agreed, destructive
from leasehold.cli.output import console, emit_one, jobs_counted
from leasehold.cli.session import Session
from leasehold.core.model.retention import COUNTED, CleanUp
from leasehold.core.model.status import Status
from leasehold.documents.records import document_of
from leasehold.documents.spans import took


@command()
@click.option("--force", is_flag=True, help="Clean up now, even if it is not due.")
@click.option("--emergency", is_flag=True, help="Delete completed and cancelled jobs of any age.")
@click.option("--dead", is_flag=True, help="With --emergency: also delete dead letters.")
@destructive
def prune(
    session: Session, force: bool, emergency: bool, dead: bool, yes: bool, dry_run: bool
) -> None:
    """Archive and delete ended jobs that are past their retention.

    Workers do this once a day. Without an option it does nothing if the last clean-up is less than
    a day old; --force does it now. --emergency deletes every completed and cancelled job of any
    age, and --dead the dead letters too; both ask first.

    \b
    Examples:
      queuectl prune --force
      queuectl prune --emergency --yes
    """
    if dead and not emergency:
        raise click.UsageError("--dead requires --emergency; for dead letters alone: dlq purge")
    what = _what(session, emergency=emergency, dead=dead)
    if (emergency or dry_run) and not agreed(session, what, yes=yes, dry_run=dry_run):
        return
    with _progress(session) as tell:
        done = session.queue.prune(force=force, emergency=emergency, dead=dead, on_progress=tell)
    if done is None:
        session.tell(
            "nothing was pruned: the last clean-up was less than a day ago, or too little is due; "
            "--force prunes now"
        )
        nothing = dict.fromkeys(CleanUp.__struct_fields__)
        emit_one(session, {**nothing, "pruned": 0}, show=lambda: None)
        return
    emit_one(
        session,
        {**document_of(done), "pruned": done.pruned},
        show=lambda: click.echo(_told(done)),
    )


def _told(done: CleanUp) -> str:
    """What happened, and nothing of what did not."""
    happened = [
        f"{getattr(done, name):,} {name.replace('_', ' ')}"
        for name in COUNTED
        if getattr(done, name)
    ]
    if not happened:
        return "nothing was pruned: no ended job is past its retention"
    seconds = took(done.duration_seconds)
    return f"pruned {jobs_counted(done.pruned)} ({', '.join(happened)}) in {seconds}"


@contextmanager
def _progress(session: Session) -> Iterator[Callable[[CleanUp], None] | None]:
    """On a terminal, a line that tells how far it is."""
    if session.format != "table" or not sys.stderr.isatty():
        yield None
        return
    with console(stderr=True).status("looking for old jobs") as line:
        yield lambda record: line.update(str(record))


def _what(session: Session, *, emergency: bool, dead: bool) -> str:
    if not emergency:
        return "archive and delete the ended jobs that are past their retention"
    stats = session.queue.get_queue_stats()
    chosen = [Status.COMPLETED, Status.CANCELLED, *([Status.DEAD] if dead else [])]
    counts = ", ".join(f"{stats[status]:,} {status.value}" for status in chosen)
    return f"archive and delete every job that has ended: {counts}"
