"""Replaying a failed job, alone or with all jobs that ended because of it: once per form.

Such a job may die again at once. A second click would then find it dead as before, and replay it
again: so the form of one job says which end of the job it is about, and the one of several is a
plan that begins one operation.
"""

from __future__ import annotations

from leasehold.core.model.phrases import counted
from leasehold.core.rules.operations import Operation, OperationState
from leasehold.dashboard.action import OPERATOR, Action, Fields, Question, given, operation_of
from leasehold.dashboard.bulk import BULK
from leasehold.dashboard.shown import link, seen
from leasehold.dashboard.visit import Desk
from leasehold.service.caller import Caller

NAMED_MAX = 5
_give = operation_of("replay", "job_id")


def _replay(desk: Desk, caller: Caller, fields: Fields) -> int:
    meant = given(fields, "seen")
    with desk.one_by_one:
        if seen(desk.queue.get(given(fields, "job_id"))) != meant:
            return 0
        return _give(desk, caller, fields)


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
    plan = BULK["replay-graph"].plan(desk, fields)
    count = counted(plan.planned, "job")
    effect = (
        f"{count}, dependencies first: {', '.join(names[:NAMED_MAX])}{more}. The job where the "
        f"failure began gets another attempt; the others wait for it again. Completed jobs do "
        "not run again."
    )
    return Question(
        f"Replay from {names[0]}?", effect, f"Replay {count}", has_reset=True, plan=plan
    )


def _do(desk: Desk, caller: Caller, fields: Fields) -> int | Operation:
    begun = BULK["replay-graph"].begin(desk, caller, fields)
    known = desk.queue.operations.get(begun.id)
    is_as_planned = known.state is OperationState.DONE and known.changed == known.planned
    return known.changed if is_as_planned else known


def _to_job(fields: Fields) -> str:
    return link("job", id=fields["job_id"])


def _back(fields: Fields) -> str:
    if fields.get("workflow"):
        return link("workflow", id=fields["workflow"])
    return _to_job(fields)


GRAPH_ORDERS = {
    "replay": Action(
        OPERATOR, _replay, "The job was given another attempt.", _to_job,
        told_none="Nothing was done: the job was replayed already, or has changed since.",
    ),
    "replay-graph": Action(OPERATOR, _do, "{jobs} replayed.", _back, _ask),
}  # fmt: skip
