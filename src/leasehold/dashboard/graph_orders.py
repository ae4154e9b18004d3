"""Replaying a workflow from a node: the failed job, and all jobs that ended because of it."""

from __future__ import annotations

from leasehold.dashboard.action import OPERATOR, Action, Fields, Question, given
from leasehold.dashboard.shown import link
from leasehold.dashboard.visit import Desk
from leasehold.queue.facade import TaskQueue
from leasehold.service.caller import Caller

NAMED_MAX = 5


def _ask(desk: Desk, fields: Fields) -> Question:
    job_id = given(fields, "job_id")
    graph = desk.queue.graph(job_id)
    jobs = graph.to_replay([job_id])
    if not jobs:
        return Question(f"Replay from {job_id}?", "Only dead and cancelled jobs are replayed.", "")
    # In a workflow a job has a name of its own, and several may have the same task.
    own = f"{desk.queue.get(job_id).parent_id}:"
    names = [
        each.removeprefix(own) if each.startswith(own) else graph.nodes[each].task for each in jobs
    ]
    more = f" and {len(names) - NAMED_MAX:,} more" if len(names) > NAMED_MAX else ""
    count = "1 job" if len(jobs) == 1 else f"{len(jobs):,} jobs"
    effect = (
        f"{count}, dependencies first: {', '.join(names[:NAMED_MAX])}{more}. The job where the "
        f"failure began gets another attempt; the others wait for it again. Completed jobs do "
        "not run again."
    )
    return Question(f"Replay from {names[0]}?", effect, f"Replay {count}", has_reset=True)


def _do(desk: Desk, caller: Caller, fields: Fields) -> int:
    queue = TaskQueue(desk.store, num_workers=0, env=desk.env, actor=caller.actor)
    reset = fields.get("reset") == "on"
    return queue.replay_graph(given(fields, "job_id"), reset_attempts=reset)


def _back(fields: Fields) -> str:
    if fields.get("workflow"):
        return link("workflow", id=fields["workflow"])
    return link("job", id=fields["job_id"])


GRAPH_ORDERS = {
    "replay-graph": Action(OPERATOR, _do, "{jobs} replayed.", _back, _ask),
}
