"""`retry`: replay jobs that are dead or cancelled."""

from __future__ import annotations

import click

from leasehold.cli.command import command
from leasehold.cli.jobref import job_id_of
from leasehold.cli.orders import Chosen, JobOrder, give, takes_jobs
from leasehold.cli.session import Session
from leasehold.core.model.status import Status
from leasehold.core.rules.filter_orders import ReplayAll


@command()
@takes_jobs
@click.option("--reset-attempts", is_flag=True, help="With all attempts again, not one more.")
@click.option("--graph", is_flag=True,
              help="Of a workflow: also the job with which the trouble began, and all that ended "
              "because of it.")  # fmt: skip
def retry(session: Session, *, chosen: Chosen, reset_attempts: bool, graph: bool) -> None:
    """Give dead or cancelled jobs another chance.

    Each is pending again, with one attempt more. Several jobs may be named, each by its id or
    enough of its end; or describe them by a filter: then their number is shown, and you are
    asked. A filter means dead letters only, unless it says --status cancelled.

    \b
    Examples: queuectl retry 0192ab
              queuectl retry --graph 0192ab
              queuectl retry --task mail:send --error timeout --reset-attempts --yes
    """
    if graph:
        chosen = chosen._replace(jobs=_with_graph(session, chosen.jobs))
    order = JobOrder(
        verb="replay",
        done="replayed",
        statuses=frozenset({Status.DEAD, Status.CANCELLED}),
        carry_out=lambda job_ids: session.queue.replay_each(job_ids, reset_attempts=reset_attempts),
        by_filter=ReplayAll(reset_attempts),
        # Who was cancelled was cancelled on purpose.
        unless_said=frozenset({Status.DEAD}),
    )
    give(session, order, chosen)


def _with_graph(session: Session, named: tuple[str, ...]) -> tuple[str, ...]:
    """These jobs and those that a replay from them concerns, dependencies first."""
    if not named:
        raise click.UsageError("--graph goes with jobs that you name")
    job_ids = [job_id_of(session, each) for each in named]
    concerned = session.queue.graph(*job_ids).to_replay(job_ids)
    return tuple(dict.fromkeys((*concerned, *job_ids)))
