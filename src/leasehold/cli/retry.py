"""`retry`: replay jobs that are dead or cancelled."""

from __future__ import annotations

import click

from leasehold.cli.command import command
from leasehold.cli.orders import Chosen, Order, give, takes_jobs
from leasehold.cli.session import Session
from leasehold.core.model.status import Status
from leasehold.core.rules.filter_orders import ReplayAll


@command()
@takes_jobs
@click.option("--reset-attempts", is_flag=True, help="With all attempts again, not one more.")
def retry(session: Session, *, chosen: Chosen, reset_attempts: bool) -> None:
    """Give dead or cancelled jobs another chance.

    Each is pending again, with one attempt more. Several jobs may be named, each by its id or
    enough of its end; or describe them by a filter: then their number is shown, and you are
    asked. A filter means dead letters only, unless it says --status cancelled.

    \b
    Examples: queuectl retry 0192ab
              queuectl retry --task mail:send --error timeout --reset-attempts --yes
    """
    order = Order(
        verb="replay",
        done="replayed",
        statuses=frozenset({Status.DEAD, Status.CANCELLED}),
        carry_out=lambda job_ids: session.queue.replay_each(job_ids, reset_attempts=reset_attempts),
        by_filter=ReplayAll(reset_attempts),
        # Who was cancelled was cancelled on purpose.
        unless_said=frozenset({Status.DEAD}),
    )
    give(session, order, chosen)
