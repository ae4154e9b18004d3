"""`cancel`: stop jobs."""

from __future__ import annotations

import click

from leasehold.cli.command import command
from leasehold.cli.orders import Chosen, JobOrder, give, takes_jobs
from leasehold.cli.session import Session
from leasehold.core.model.status import WAITING, Status
from leasehold.core.rules.filter_orders import CancelAll


@command()
@takes_jobs
@click.option("--reason", default="", help="The reason, which is kept with the job.")
def cancel(session: Session, *, chosen: Chosen, reason: str) -> None:
    """Stop jobs that wait or run.

    A waiting job is cancelled at once; a running one as soon as its worker has stopped it. Name
    jobs by their ids, or unambiguous ends of them; or use a filter, which shows the plan and asks.

    \b
    Examples:
      queuectl cancel 38c56dff aee10527 --reason "wrong address"
      queuectl cancel --queue mail --created-before -1d --dry-run
    """
    order = JobOrder(
        verb="cancel",
        done="cancelled",
        statuses=WAITING | {Status.RUNNING},
        carry_out=lambda job_ids: session.queue.cancel_each(job_ids, reason),
        by_filter=CancelAll(reason),
    )
    give(session, order, chosen)
