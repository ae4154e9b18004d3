"""`status`: what there is, at one glance."""

from __future__ import annotations

from typing import Any

import click

from leasehold.cli.command import command
from leasehold.cli.documents import document_of
from leasehold.cli.output import Column, Document, cell, emit, emit_one
from leasehold.cli.session import Session
from leasehold.core.status import Status

QUEUE_COLUMNS = (
    Column("queue", "QUEUE"),
    Column("state", "STATE"),
    *(Column(status.value, status.value.upper(), right=True) for status in Status),
)
WORKER_COLUMNS = (
    Column("id", "WORKER"),
    Column("host", "HOST"),
    Column("pid", "PID", right=True),
    Column("queues", "QUEUES", ",".join),
    Column("slots", "SLOTS", right=True),
    Column("running", "RUNNING", right=True),
    Column("heartbeat_at", "LAST HEARTBEAT"),
)


@command()
def status(session: Session) -> None:
    """What there is: queues, jobs and workers."""
    queue = session.queue
    queues = [_queue_document(session, name) for name in queue.queues()]
    workers = [document_of(worker) for worker in queue.workers()]
    total = queue.get_queue_stats()
    document: Document = {
        "store": session.store_url,
        "jobs": {each.value: total[each.value] for each in Status},
        "queues": queues,
        "workers": workers,
    }

    def show() -> None:
        click.echo(f"store {cell(session.store_url)}: {sum(document['jobs'].values()):,} jobs\n")
        emit(session, queues, QUEUE_COLUMNS, nothing="no queue holds any job yet")
        click.echo()
        emit(session, workers, WORKER_COLUMNS, nothing="no worker is running: `worker start`")

    emit_one(session, document, show=show)


def _queue_document(session: Session, name: str) -> dict[str, Any]:
    info = session.queue.queue_info(name)
    stats = session.queue.get_queue_stats(name)
    return {
        "queue": name,
        "state": info.state,
        **{each.value: stats[each.value] for each in Status},
    }
