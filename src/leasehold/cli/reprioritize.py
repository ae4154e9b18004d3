"""`reprioritize`: change the priority of waiting jobs."""

from __future__ import annotations

import click

from leasehold.cli.command import command
from leasehold.cli.options import PRIORITY
from leasehold.cli.orders import Chosen, JobOrder, give, takes_jobs
from leasehold.cli.session import Session
from leasehold.core.model.status import WAITING
from leasehold.core.rules.filter_orders import ReprioritizeAll


@command()
@takes_jobs
@click.option(
    "--priority", "-p", type=PRIORITY, required=True, help="0 to 100, low, medium, high, critical."
)
def reprioritize(session: Session, *, chosen: Chosen, priority: int) -> None:
    """Change the priority of waiting jobs.

    They keep their age among jobs of the same priority. Name jobs by their ids, or unambiguous ends
    of them; or use a filter, which shows the plan and asks.

    \b
    Examples:
      queuectl reprioritize 38c56dff --priority critical
      queuectl reprioritize --queue mail --meta tenant=acme --priority 80 --yes
    """
    order = JobOrder(
        verb="reprioritize",
        done="reprioritized",
        statuses=WAITING,
        carry_out=lambda job_ids: session.queue.reprioritize_each(job_ids, priority),
        by_filter=ReprioritizeAll(priority),
    )
    give(session, order, chosen)
