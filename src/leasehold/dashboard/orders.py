"""What people may do from a page: each order with its question, its effect and what is told after.

An order is always a form that is posted, never a link. What cannot be taken back, or concerns more
than one job, is asked about on a page of the server's, which says how many jobs it is about.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

from leasehold.core.model.refusals import no_queue
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import WAITING, Status
from leasehold.core.model.tokens import Role
from leasehold.core.rules.filter_orders import DiscardAll, Order, ReplayAll
from leasehold.dashboard.pages.failures import AT_ONCE_MAX, dead_jobs, group_of
from leasehold.dashboard.shown import link
from leasehold.dashboard.visit import Desk
from leasehold.errors import InvalidRequestError
from leasehold.queue.orders import change_many, order_all
from leasehold.service.api import OPERATIONS
from leasehold.service.caller import Caller

Fields = Mapping[str, str]
_BY_NAME: Final = {each.name: each for each in OPERATIONS}


@dataclass(frozen=True)
class Question:
    """What is asked before an order is carried out."""

    title: str
    effect: str
    button: str
    is_grave: bool = False
    has_reason: bool = False


@dataclass(frozen=True)
class Action:
    """One order."""

    roles: tuple[Role, ...]
    do: Callable[[Desk, Caller, Fields], int]
    """Answers how many jobs it was done to."""
    told: str
    """What the next page says; {n} is that number."""
    back: Callable[[Fields], str]
    """Where to go afterwards."""
    ask: Callable[[Desk, Fields], Question] | None = None
    """None for what needs no question: it can be taken back, and concerns one thing."""


def _operation(name: str, *fields: str) -> Callable[[Desk, Caller, Fields], int]:
    """Carry out an operation of the service, which checks the caller and audits it."""
    operation = _BY_NAME[name]

    def do(desk: Desk, caller: Caller, given: Fields) -> int:
        asked = operation.request(**{field: _given(given, field) for field in fields})
        desk.api.call(operation, caller, asked)
        return 1

    return do


def _given(fields: Fields, name: str) -> str:
    if name == "reason":
        return fields.get(name, "")
    if not fields.get(name):
        raise InvalidRequestError(f"the form says nothing about {name}")
    return fields[name]


# -- one job ---------------------------------------------------------------------------------------


def _ask_cancel(desk: Desk, fields: Fields) -> Question:
    job = desk.queue.get(_given(fields, "job_id"))
    if job.status is Status.RUNNING:
        effect = "It is running: its code is asked to stop, and is cancelled as soon as it lets go."
    else:
        effect = "It is cancelled at once, and jobs that depend on it are told."
    return Question(f"Cancel job {job.id}?", effect, "Cancel the job", has_reason=True)


def _ask_discard(desk: Desk, fields: Fields) -> Question:
    job = desk.queue.get(_given(fields, "job_id"))
    effect = "The job, its attempts, its history and its log are deleted. Nothing brings them back."
    return Question(f"Discard job {job.id}?", effect, "Discard the job", is_grave=True)


# -- queues ----------------------------------------------------------------------------------------


def _ask_pause(desk: Desk, fields: Fields) -> Question:
    info = desk.queue.queue_info(_given(fields, "queue"))
    effect = (
        f"Nothing of it is leased until somebody resumes it: {info.pending:,} pending jobs wait. "
        f"The {info.running:,} that run go on, and new ones are accepted."
    )
    return Question(f"Pause queue {info.name}?", effect, "Pause the queue")


def _ask_drain(desk: Desk, fields: Fields) -> Question:
    info = desk.queue.queue_info(_given(fields, "queue"))
    effect = (
        "New jobs are refused until somebody resumes it. What it has finishes: "
        f"{info.pending:,} pending and {info.running:,} running jobs."
    )
    return Question(f"Drain queue {info.name}?", effect, "Drain the queue")


def _ask_purge(desk: Desk, fields: Fields) -> Question:
    name = _given(fields, "queue")
    count = desk.queue.count(JobFilter(queues=(name,), statuses=tuple(WAITING)))
    effect = (
        f"{count} waiting jobs are deleted for good. What runs, and what has ended, stays. Jobs of "
        "other queues that depend on them are told as if they had been cancelled."
    )
    return Question(f"Purge queue {name}?", effect, f"Delete {count} jobs", is_grave=True)


def _purge(desk: Desk, caller: Caller, fields: Fields) -> int:
    name = _given(fields, "queue")
    if desk.store.queue_info(name) is None:
        raise no_queue(name)
    purged, more = 0, True
    while more:
        answer = desk.store.purge_queue(name, JobFilter(), actor=caller.actor)
        purged, more = purged + answer.purged, answer.more
    return purged


# -- dead letters, and groups of failures ----------------------------------------------------------


def _letters(fields: Fields) -> JobFilter:
    queue, task = fields.get("queue"), fields.get("task")
    return JobFilter(
        statuses=(Status.DEAD,),
        queues=(queue,) if queue else None,
        tasks=(task,) if task else None,
    )


def _those(fields: Fields) -> str:
    told = [f"{name} {fields[name]}" for name in ("queue", "task") if fields.get(name)]
    return f" of {' and '.join(told)}" if told else ""


def _ask_replay_letters(desk: Desk, fields: Fields) -> Question:
    count = desk.queue.count(_letters(fields))
    effect = f"{count} dead letters{_those(fields)} get one attempt more, at once."
    return Question("Replay dead letters?", effect, f"Replay {count} jobs")


def _ask_discard_letters(desk: Desk, fields: Fields) -> Question:
    count = desk.queue.count(_letters(fields))
    effect = f"{count} dead letters{_those(fields)} are deleted with all their records, for good."
    return Question("Discard dead letters?", effect, f"Discard {count} jobs", is_grave=True)


def _order_letters(order: Order) -> Callable[[Desk, Caller, Fields], int]:
    def do(desk: Desk, caller: Caller, fields: Fields) -> int:
        return order_all(desk.store, order, _letters(fields), caller.actor, desk.api.blobs)

    return do


def _of_group(desk: Desk, fields: Fields) -> list[str]:
    group = group_of(desk, _given(fields, "fingerprint"))
    return [job.id for job in islice(dead_jobs(desk, group), AT_ONCE_MAX)]


def _ask_replay_group(desk: Desk, fields: Fields) -> Question:
    group = group_of(desk, _given(fields, "fingerprint"))
    count = len(_of_group(desk, fields))
    most = f", the newest {AT_ONCE_MAX:,}," if count == AT_ONCE_MAX else ""
    effect = (
        f"{count:,} dead letters{most} of task {group.task} in queue {group.queue} that died of "
        f"exactly this {group.error_type} get one attempt more, at once. To be careful, replay one "
        "of them first and see what becomes of it."
    )
    return Question("Replay this group?", effect, f"Replay {count:,} jobs")


def _replay_group(desk: Desk, caller: Caller, fields: Fields) -> int:
    return change_many(
        lambda job_ids: desk.store.replay(job_ids, reset_attempts=False, actor=caller.actor),
        _of_group(desk, fields),
        strict=False,
    )


# -- the table -------------------------------------------------------------------------------------


def _to_job(fields: Fields) -> str:
    return link("job", id=fields["job_id"])


def _to_queue(fields: Fields) -> str:
    return link("queue", name=fields["queue"])


def _to_letters(fields: Fields) -> str:
    return link("dead-letters", queue=fields.get("queue"), task=fields.get("task"))


def _to(page: str) -> Callable[[Fields], str]:
    return lambda _: page


OPERATOR: Final[tuple[Role, ...]] = ("operator",)

ORDERS: Final[dict[str, Action]] = {
    "cancel": Action(
        OPERATOR, _operation("cancel", "job_id", "reason"),
        "The job was cancelled, or is asked to stop.", _to_job, _ask_cancel,
    ),
    "replay": Action(
        OPERATOR, _operation("replay", "job_id"), "The job gets another attempt.", _to_job,
    ),
    "discard": Action(
        OPERATOR, _operation("discard", "job_id"), "The job was deleted.", _to("jobs"),
        _ask_discard,
    ),
    "pause-queue": Action(
        OPERATOR, _operation("pause_queue", "queue"), "The queue is paused.", _to_queue,
        _ask_pause,
    ),
    "resume-queue": Action(
        OPERATOR, _operation("resume_queue", "queue"), "The queue goes on.", _to_queue,
    ),
    "drain-queue": Action(
        OPERATOR, _operation("drain_queue", "queue"), "The queue accepts no more jobs.",
        _to_queue, _ask_drain,
    ),
    "purge-queue": Action(
        OPERATOR, _purge, "{n} waiting jobs were deleted.", _to_queue, _ask_purge,
    ),
    "replay-letters": Action(
        OPERATOR, _order_letters(ReplayAll()), "{n} dead letters get another attempt.",
        _to_letters, _ask_replay_letters,
    ),
    "discard-letters": Action(
        OPERATOR, _order_letters(DiscardAll()), "{n} dead letters were deleted.", _to_letters,
        _ask_discard_letters,
    ),
    "replay-group": Action(
        OPERATOR, _replay_group, "{n} jobs of the group get another attempt.",
        lambda fields: link("failure", fingerprint=fields["fingerprint"]), _ask_replay_group,
    ),
    "run-schedule": Action(
        OPERATOR, _operation("run_schedule", "name"), "Its job was submitted, out of turn.",
        _to("schedules"),
    ),
    "pause-schedule": Action(
        OPERATOR, _operation("pause_schedule", "name"), "The schedule rests.", _to("schedules"),
    ),
    "resume-schedule": Action(
        OPERATOR, _operation("resume_schedule", "name"), "The schedule goes on.",
        _to("schedules"),
    ),
}  # fmt: skip
"""Every order, by the name that forms have for it."""


def told(order: str, count: str) -> str | None:
    """What a page says about an order that was carried out just now; None for what is none."""
    if order not in ORDERS or not (count.isascii() and count.isdecimal() and len(count) < 12):
        return None
    return ORDERS[order].told.format(n=f"{int(count):,}")


def order_named(name: str) -> Action:
    """An order; raises InvalidRequestError if there is none of that name."""
    order = ORDERS.get(name)
    if order is None:
        raise InvalidRequestError(f"there is no order {name!r}")
    return order
