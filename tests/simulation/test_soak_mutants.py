"""Stores that break a rule on purpose, as they look from outside: the soak finds each of them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import pytest

from leasehold.core.model.history import HistoryEvent
from leasehold.core.model.job import Draft, Job
from leasehold.core.model.lease import Exchange, LeaseRequest, Settlement, SweepReport
from leasehold.core.model.pins import Pin, PinKind
from leasehold.core.model.queue_config import QueueInfo
from leasehold.core.model.rate import Rate
from leasehold.core.model.records import Purged, Submitted
from leasehold.core.model.schedule import Fired
from leasehold.core.model.search import JobFilter, Page
from leasehold.core.model.status import Event, Status
from leasehold.core.model.tokens import Token
from leasehold.core.rules.filter_orders import Order
from leasehold.core.rules.operations import (
    Advance,
    Operation,
    OperationState,
    Plan,
    Undo,
)
from leasehold.errors import DuplicateJobError, LeaseholdError, UnauthenticatedError
from leasehold.stores.memory import MemoryStore
from leasehold.testing.soak import Scenario, run
from leasehold.testing.soak.subjects import KEEP_ALL, Stage
from leasehold.testing.soak.swarm import Feature

SEEDS_MAX = 80
"""Within so many seeds each mutant must be found."""


class LimitOffByOne(MemoryStore):
    """It lets one job more run at once than it says."""

    def update_queue(self, queue: str, changes: Mapping[str, Any], *, actor: str) -> QueueInfo:
        limit = changes.get("max_concurrency")
        more = {**changes, "max_concurrency": limit + 1} if limit else changes
        return _one_less(super().update_queue(queue, more, actor=actor))

    def list_queues(self) -> list[QueueInfo]:
        return [_one_less(info) for info in super().list_queues()]


def _one_less(info: QueueInfo) -> QueueInfo:
    limit = info.config.max_concurrency
    config = info.config.changed({"max_concurrency": limit and limit - 1})
    return msgspec.structs.replace(info, config=config)


class ForgetfulPark(MemoryStore):
    """A job that had to wait for its key is never shown to leases again."""

    def exchange(
        self, settlements: Sequence[Settlement] = (), request: LeaseRequest | None = None
    ) -> Exchange:
        limited = any(info.config.key_concurrency for info in super().list_queues())
        if request is not None and limited:
            request = msgspec.structs.replace(request, tasks=("mail",))
        return super().exchange(settlements, request)


class ToldTwice(MemoryStore):
    """A dependent is told twice of the same end."""

    def history(self, job_id: str) -> list[HistoryEvent]:
        told: list[HistoryEvent] = []
        for event in super().history(job_id):
            number = len(told) + 1
            told.append(msgspec.structs.replace(event, sequence=number))
            if event.message.startswith("dependency "):
                again = msgspec.structs.replace(event, sequence=number + 1, before=event.after)
                told.append(again)
        return told


class PurgeLeavesDependents(MemoryStore):
    """Who waits for a purged job is not told, and stays blocked."""

    _left: Mapping[str, Job] = {}

    def purge_queue(self, queue: str, where: JobFilter, *, actor: str, limit: int = 1000) -> Purged:
        before = super().search(JobFilter(statuses=(Status.BLOCKED,)), limit=1000).jobs
        answer = super().purge_queue(queue, where, actor=actor, limit=limit)
        self._left = {job.id: job for job in before}
        return answer

    def search(self, where: JobFilter, **how: Any) -> Page:
        page = super().search(where, **how)
        return Page([self._left.get(job.id, job) for job in page.jobs], page.next_cursor)

    def history(self, job_id: str) -> list[HistoryEvent]:
        events = super().history(job_id)
        blocked = [e for e in events if e.after is not Status.BLOCKED and job_id in self._left]
        return [event for event in events if event not in blocked]


class RepeatedRequestCarriedOutTwice(MemoryStore):
    """A submit that comes a second time makes a second job."""

    def submit(
        self, drafts: Sequence[Draft], *, partial: bool = False
    ) -> list[Submitted | LeaseholdError]:
        try:
            return super().submit(drafts, partial=partial)
        except DuplicateJobError:
            again = [msgspec.structs.replace(each, id=f"{each.id}-again") for each in drafts]
            return super().submit(again, partial=partial)


class TickFiredTwice(MemoryStore):
    """The latest tick of a schedule is run once more, whoever looks."""

    def fire_schedules(self) -> Fired:
        fired = super().fire_schedules()
        for schedule in super().schedules():
            if fired.jobs and schedule.last_at is not None:
                draft = schedule.draft.job_at(schedule.last_at)
                super().submit([msgspec.structs.replace(draft, id=f"{draft.id}-again")])
        return fired


class SweepSpares(MemoryStore):
    """A sweep says that there was nothing to take back."""

    def recover(self, *, actor: str | None = None) -> SweepReport:
        return SweepReport()


class StaleHolderWins(MemoryStore):
    """Whoever settles last decides, whatever its version."""

    def exchange(
        self, settlements: Sequence[Settlement] = (), request: LeaseRequest | None = None
    ) -> Exchange:
        current = {
            job.id: job.lease_version
            for job in super().search(JobFilter(statuses=(Status.RUNNING,)), limit=1000).jobs
        }
        settled = [
            msgspec.structs.replace(each, version=current.get(each.job_id, each.version))
            for each in settlements
        ]
        return super().exchange(settled, request)


class SilentCancel(MemoryStore):
    """A cancelled job's history does not say so."""

    def history(self, job_id: str) -> list[HistoryEvent]:
        return [e for e in super().history(job_id) if e.event is not Event.CANCELLED]


class StoppedAndGoesOn(MemoryStore):
    """An operation that was stopped is carried on."""

    def stop_operation(self, operation_id: str, *, actor: str) -> Operation:
        asked = super().operation(operation_id)
        if asked is None or asked.state is not OperationState.RUNNING:
            return super().stop_operation(operation_id, actor=actor)
        return msgspec.structs.replace(asked, state=OperationState.STOPPED)


class UndoesNothing(MemoryStore):
    """An undo says that it is done, and restores no job."""

    def advance_operation(self, operation_id: str, *, limit: int = 500) -> Advance:
        asked = super().operation(operation_id)
        if asked is None or not isinstance(asked.order, Undo):
            return super().advance_operation(operation_id, limit=limit)
        return Advance(operation=msgspec.structs.replace(asked, state=OperationState.DONE))


class PlansTooMuch(MemoryStore):
    """A plan counts jobs that cannot take the order, too."""

    def plan_operation(self, order: Order, where: JobFilter) -> Plan:
        plan = super().plan_operation(order, where)
        return msgspec.structs.replace(plan, counts={**plan.counts, **plan.skipped}, skipped={})


class TakesThePraise(MemoryStore):
    """A pin that is there already becomes that of whoever pins it again."""

    def pin(self, kind: PinKind, name: str, text: str, *, actor: str) -> Pin:
        return msgspec.structs.replace(super().pin(kind, name, text, actor=actor), by=actor)


class SessionsGoOn(MemoryStore):
    """Who has left may come back by the same session."""

    def is_session_over(self, token: str, session: str) -> bool:
        return super().is_session_over(token, session) and session == "session-1"


class LetsInWhoWasRevoked(MemoryStore):
    """A submit believes in a token that was found once."""

    def submit_as(
        self, token: Token, digest: str, drafts: Sequence[Draft]
    ) -> list[Submitted | LeaseholdError]:
        try:
            return super().submit_as(token, digest, drafts)
        except UnauthenticatedError:
            return self.submit(drafts)


class AnotherOperation(MemoryStore):
    """It answers with the latest operation, whichever was asked for."""

    def operation(self, operation_id: str) -> Operation | None:
        return next(iter(self.operations()), None)


MUTANTS: dict[type[MemoryStore], set[Feature]] = {
    LimitOffByOne: {Feature.LIMITS},
    ForgetfulPark: {Feature.KEYS},
    ToldTwice: {Feature.DEPENDENCIES, Feature.PEOPLE},
    PurgeLeavesDependents: {Feature.DEPENDENCIES, Feature.QUEUES},
    RepeatedRequestCarriedOutTwice: set(),
    TickFiredTwice: {Feature.SCHEDULES},
    SweepSpares: set(),
    StaleHolderWins: set(),
    SilentCancel: {Feature.PEOPLE},
    StoppedAndGoesOn: {Feature.OPERATIONS},
    UndoesNothing: {Feature.OPERATIONS},
    PlansTooMuch: {Feature.OPERATIONS},
    TakesThePraise: {Feature.PINS},
    SessionsGoOn: {Feature.SESSIONS, Feature.TOKENS},
    LetsInWhoWasRevoked: {Feature.SESSIONS, Feature.TOKENS},
    AnotherOperation: {Feature.OPERATIONS, Feature.SURVEYS},
}


FOUND_BY: dict[type[MemoryStore], int] = {
    TickFiredTwice: 18,
    StoppedAndGoesOn: 27,
    UndoesNothing: 16,
    TakesThePraise: 8,
    SessionsGoOn: 7,
    LetsInWhoWasRevoked: 6,
}
"""The first seed that finds a mutant, where that comes late: it is tried before all others."""


def caught_by(make: type[MemoryStore], features: set[Feature]) -> str | None:
    """The rule that finds it."""
    for seed in (FOUND_BY.get(make, 0), *range(SEEDS_MAX)):
        scenario = Scenario(seed, steps=150, features=frozenset(features))
        broken = run(scenario, only(make)).broken
        if broken is not None:
            if make is not MemoryStore:
                honest = run(scenario, only(MemoryStore)).broken
                assert honest is None, f"the honest store is found, too: {honest}"
            return broken.rule
    return None


def only(make: Callable[..., MemoryStore]) -> Stage:
    return Stage({"memory": (lambda: lambda env: make(env, retention=KEEP_ALL), False)})


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.__name__)
def test_a_mutant_is_found(mutant: type[MemoryStore]) -> None:
    assert caught_by(mutant, MUTANTS[mutant]) is not None


def test_a_burst_too_large_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule of the core itself, changed for every store alike: the judges do not ask it."""
    burst = Rate.burst.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(Rate, "burst", property(lambda rate: burst(rate) + 1))
    assert caught_by(MemoryStore, {Feature.LIMITS}) == "LIM-3"
