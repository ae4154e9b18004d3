"""`retry`: replay jobs that are dead or cancelled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from leasehold.cli.command import command
from leasehold.cli.jobref import job_ids_of
from leasehold.cli.orders import LOOKED_AT, Chosen, JobOrder, give, takes_jobs
from leasehold.cli.output import jobs_counted
from leasehold.cli.session import Session
from leasehold.core.model.advice import words
from leasehold.core.model.refusals import nothing_to_replay
from leasehold.core.model.status import Status
from leasehold.core.rules.filter_orders import ReplayAll
from leasehold.errors import ForbiddenError

NAMED_MAX: Final = 10


@command()
@takes_jobs
@click.option("--reset-attempts", is_flag=True, help="Restore all attempts, not only one.")
@click.option("--graph", is_flag=True,
              help="Also the job where the failure began, and all jobs that ended because of it. "
              "JOB may be the id of a workflow.")  # fmt: skip
def retry(session: Session, *, chosen: Chosen, reset_attempts: bool, graph: bool) -> None:
    """Replay dead or cancelled jobs.

    Each is pending again, with one more attempt. Name jobs by their ids, or unambiguous ends of
    them; or use a filter, which shows the plan and asks. A filter replays only dead letters, unless
    you add --status cancelled.

    \b
    Examples:
      queuectl retry 38c56dff
      queuectl retry --graph 38c56dff
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
        left_alone=lambda job_ids: tell_left_cancelled(session, job_ids),
        # Who was cancelled was cancelled on purpose.
        unless_said=frozenset({Status.DEAD}),
    )
    give(session, order, chosen)


def tell_left_cancelled(session: Session, job_ids: Sequence[str]) -> None:
    """Say how to replay the jobs that were cancelled because of jobs that are replayed alone."""
    left = brought_down(session, job_ids[:LOOKED_AT])
    if not left:
        return
    causes = list(dict.fromkeys(left.values()))
    because = "it" if len(job_ids) == 1 else "them"
    stay, others = ("stay", "them") if len(left) > 1 else ("stays", "it")
    session.tell(
        f"{jobs_counted(len(left))} that ended because of {because} {stay} as before; to replay "
        f"{others}, too: queuectl retry --graph {words(*causes[:NAMED_MAX])}"
    )


def brought_down(session: Session, job_ids: Sequence[str]) -> dict[str, str]:
    """Other dead and cancelled jobs that ended because of these jobs, each with its origin."""
    try:
        graph = session.queue.graph(*job_ids) if job_ids else None
    except ForbiddenError:
        return {}  # A token for some queues may not ask for graphs, which may reach others.
    ended = [] if graph is None else graph.brought_down_by(job_ids)
    return {each: graph.origin_of(each) for each in ended if graph and each not in job_ids}


def _with_graph(session: Session, named: tuple[str, ...]) -> tuple[str, ...]:
    """The jobs that a replay from these jobs and workflows concerns, dependencies first."""
    if not named:
        raise click.UsageError("--graph requires the ids of jobs or workflows")
    job_ids = [job_id for each in named for job_id in job_ids_of(session, each)]
    graph = session.queue.graph(*job_ids)
    concerned = graph.to_replay(job_ids)
    if not concerned:
        raise nothing_to_replay({each: graph.nodes[each].status for each in job_ids})
    return tuple(concerned)
