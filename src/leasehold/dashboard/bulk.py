"""Orders to many jobs from a page: the plan, and how an agreed plan begins.

A person answers a question that was asked at one moment. The form returns that moment and the
numbers, under a seal, so that exactly the announced plan is carried out and recorded. It also
returns the operation's id, so that a form sent twice is one operation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, cast

import msgspec

from leasehold.core.model.job import PriorityLike, priority_of
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.core.rules import operations
from leasehold.core.rules.filter_orders import (
    CancelAll,
    DiscardAll,
    Order,
    PurgeAll,
    ReplayAll,
    ReprioritizeAll,
)
from leasehold.core.rules.operations import Operation, OperationDraft, Plan
from leasehold.dashboard.left_behind import with_those_left
from leasehold.dashboard.pages.failures import dead_jobs, group_of
from leasehold.dashboard.searching import parse
from leasehold.dashboard.visit import Desk
from leasehold.errors import InvalidRequestError
from leasehold.service.caller import Caller

Fields = Mapping[str, str]
DEFAULT_PRIORITY = 50
AGREED_SECONDS: Final = 3600.0
"""How long a plan can be agreed to; operations are remembered for longer than that."""
_WHICH: Final = ("order", "queue", "task", "fingerprint", "q", "dependents", "job_id")
"""The fields that select the jobs. The others are filled in by the person who agrees."""


class Agreed(msgspec.Struct, frozen=True):
    """The announced plan to which a person agreed."""

    operation_id: str
    at: datetime
    fitting: dict[Status, int]


@dataclass(frozen=True)
class Bulk:
    """An order to all jobs that the fields of a form describe."""

    order: Callable[[Fields], Order]
    where: Callable[[Desk, Fields, datetime], JobFilter]
    about: Callable[[Fields], str]
    """The jobs in words: "dead letters of queue mail"."""

    def plan(self, desk: Desk, fields: Fields) -> Plan:
        """The plan at this moment."""
        where = self._where(desk, fields, desk.queue.now())
        return desk.queue.operations.plan(self.order(fields), where)

    def begin(self, desk: Desk, caller: Caller, fields: Fields) -> Operation:
        """Begin the agreed operation, and carry it out in the background."""
        plan = self._agreed(desk, caller, fields)
        draft = OperationDraft(id=plan.operation_id, plan=plan)
        operation = desk.store.begin_operation(draft, actor=caller.actor)
        desk.runner.start(operation)
        return operation

    def _agreed(self, desk: Desk, caller: Caller, fields: Fields) -> Plan:
        text, _, seal = _given(fields, "agreed").rpartition(".")
        desk.api.plans.check(seal, _announced(caller, fields, text))
        agreed = msgspec.json.decode(text, type=Agreed)
        if desk.queue.now() - agreed.at > timedelta(seconds=AGREED_SECONDS):
            raise InvalidRequestError(
                f"this plan was made at {agreed.at:%Y-%m-%d %H:%M:%S}, which is too long ago: "
                f"make it again, and confirm the new one"
            )
        return operations.plan(
            agreed.operation_id,
            self.order(fields),
            self._where(desk, fields, agreed.at),
            agreed.at,
            agreed.fitting,
        )

    def _where(self, desk: Desk, fields: Fields, at: datetime) -> JobFilter:
        where = self.where(desk, fields, at)
        is_wider = fields.get("dependents") == "on" and isinstance(self.order(fields), ReplayAll)
        return with_those_left(desk, where) if is_wider else where


def agreement(desk: Desk, caller: Caller, fields: Fields, plan: Plan) -> str:
    """The fields that the form of a question returns."""
    agreed = Agreed(plan.operation_id, plan.at, {**plan.counts, **plan.skipped})
    text = msgspec.json.encode(agreed).decode()
    return f"{text}.{desk.api.plans.of(_announced(caller, fields, text))}"


def _announced(caller: Caller, fields: Fields, text: str) -> list[str | None]:
    """The announcement: to whom, about which jobs, with which numbers."""
    return [caller.actor, *(fields.get(name) for name in _WHICH), text]


# -- which jobs ------------------------------------------------------------------------------------


def _letters(_: Desk, fields: Fields, __: datetime) -> JobFilter:
    queue, task = fields.get("queue"), fields.get("task")
    return JobFilter(
        statuses=(Status.DEAD,),
        queues=(queue,) if queue else None,
        tasks=(task,) if task else None,
    )


def _queue(_: Desk, fields: Fields, __: datetime) -> JobFilter:
    return JobFilter(queues=(_given(fields, "queue"),))


def _group(desk: Desk, fields: Fields, _: datetime) -> JobFilter:
    group = group_of(desk, _given(fields, "fingerprint"))
    return JobFilter(ids=tuple(job.id for job in dead_jobs(desk, group)))


def _graph(desk: Desk, fields: Fields, _: datetime) -> JobFilter:
    job_id = _given(fields, "job_id")
    return JobFilter(ids=tuple(desk.queue.graph(job_id).to_replay([job_id])))


def _search(_: Desk, fields: Fields, now: datetime) -> JobFilter:
    return parse(fields.get("q", ""), now).where


def _those(fields: Fields) -> str:
    told = [f"{name} {fields[name]}" for name in ("queue", "task") if fields.get(name)]
    return f" of {' and '.join(told)}" if told else ""


def _found(fields: Fields) -> str:
    terms = fields.get("q", "").split(" id:")
    if terms[0].startswith("id:"):
        return "the selected job" if len(terms) == 1 else f"the {len(terms)} selected jobs"
    return f"the jobs that match {fields['q']}" if fields.get("q") else "all jobs"


def _given(fields: Fields, name: str) -> str:
    if not fields.get(name):
        raise InvalidRequestError(f"the form lacks {name}")
    return fields[name]


# -- which order -----------------------------------------------------------------------------------


def _cancel(fields: Fields) -> Order:
    return CancelAll(fields.get("reason", ""))


def _replay(fields: Fields) -> Order:
    return ReplayAll(reset_attempts=fields.get("reset") == "on")


def _reprioritize(fields: Fields) -> Order:
    given = fields.get("priority") or str(DEFAULT_PRIORITY)
    meant = int(given) if given.isdecimal() else cast("PriorityLike", given)
    return ReprioritizeAll(priority_of(meant))


def _discard(_: Fields) -> Order:
    return DiscardAll()


def _purge(_: Fields) -> Order:
    return PurgeAll()


BULK: dict[str, Bulk] = {
    "replay-letters": Bulk(_replay, _letters, lambda fields: f"dead letters{_those(fields)}"),
    "discard-letters": Bulk(_discard, _letters, lambda fields: f"dead letters{_those(fields)}"),
    "replay-group": Bulk(_replay, _group, lambda _: "the dead letters of this group"),
    "replay-graph": Bulk(_replay, _graph, lambda fields: f"from {fields.get('job_id', '')}"),
    "purge-queue": Bulk(_purge, _queue, lambda fields: f"queue {fields.get('queue', '')}"),
    "cancel-found": Bulk(_cancel, _search, _found),
    "replay-found": Bulk(_replay, _search, _found),
    "reprioritize-found": Bulk(_reprioritize, _search, _found),
    "discard-found": Bulk(_discard, _search, _found),
}
"""Orders to many jobs by their names in forms."""
