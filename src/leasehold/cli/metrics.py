"""`metrics`: what Prometheus reads, for a text file that a node exporter collects."""

from __future__ import annotations

import click

from leasehold.cli.command import command
from leasehold.cli.session import Session
from leasehold.env import SYSTEM


@command()
def metrics(session: Session) -> None:
    """Print the store's figures as Prometheus reads them.

    `serve` has the same at /metrics, and `worker start --metrics-port` on a port of its own. This
    is for neither: let it write a file for the node exporter's text-file collector. For people,
    there are `stats` and `top`.

    \b
    Example: queuectl metrics > jobs.prom.new && mv jobs.prom.new jobs.prom
    """
    from leasehold.observe.prometheus import exposition

    click.echo(exposition(session.queue.store, SYSTEM), nl=False)
