"""Testing the tests: each of these faults, put into the SQLite store, must be found out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import pytest

from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, SweepReport
from leasehold.core.model.lives import Life
from leasehold.core.model.status import Status
from leasehold.core.rules.clock import ClockBasis, StoreTime
from leasehold.env import Env, ManualClock
from leasehold.errors import DuplicateJobError
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.keeping import removing
from leasehold.stores.sqlite.leasing import (
    grant,
    lease,
    order,
    parking,
    people,
    ready,
    rebalance,
    recover,
    renew,
    settle,
    state,
)
from leasehold.stores.sqlite.rules import settings
from leasehold.stores.sqlite.submitting import dependents, gate, inheritance, linking, submit
from leasehold.stores.sqlite.writing import step
from leasehold.stores.sqlite.writing.clock import StoreClock
from leasehold.stores.sqlite.writing.database import Database
from leasehold.stores.sqlite.writing.step import Step
from leasehold.stores.sqlite.writing.writer import Writer
from leasehold.testing.conformance import StoreConformance
from support.lives import die, enter

Examination = Callable[[Path], None]
Mutate = Callable[[pytest.MonkeyPatch], None]
T = TypeVar("T")

FIXTURES = {"self", "store", "clock", "env", "make_store"}


def clause(name: str, test: Callable[..., None]) -> Examination:
    """A test of the conformance suite, as a function of a folder for its stores."""

    def examine(folder: Path) -> None:
        clock = ManualClock()
        env = Env(clock=clock, random=Random(7))
        opened: list[SQLiteStore] = []

        def make_store(env: Env) -> SQLiteStore:
            opened.append(SQLiteStore(folder / f"{name}-{len(opened)}.db", env=env))
            return opened[-1]

        given = {"self": StoreConformance(), "store": make_store(env), "clock": clock, "env": env}
        given["make_store"] = make_store
        try:
            test(**{name: given[name] for name in inspect.signature(test).parameters})
        finally:
            for store in opened:
                store.close()

    return examine


def only_the_dead_are_robbed(folder: Path) -> None:
    with closing(SQLiteStore(folder / "deaths.db")) as store, closing(enter(store, "living")):
        dead = enter(store, "dead")
        store.submit([Draft(id=job_id, task="t") for job_id in ("of the dead", "of the living")])
        for worker in ("dead", "living"):
            store.exchange((), LeaseRequest(worker=worker))
        die(dead)
        assert store.recover().recovered == 1
        assert [lease.job_id for lease in lease_all(store)] == ["of the dead"]


def a_refused_submit_leaves_nothing_behind(folder: Path) -> None:
    with closing(SQLiteStore(folder / "refused.db")) as store:
        with pytest.raises(DuplicateJobError):
            store.submit([Draft(id="a", task="t"), Draft(id="a", task="t")])
        store.submit([Draft(id="a", task="t")])
        assert [lease.job_id for lease in lease_all(store)] == ["a"]


def what_nobody_starts_in_time_is_swept_away(folder: Path) -> None:
    clock = ManualClock()
    with closing(SQLiteStore(folder / "late.db", env=Env(clock=clock))) as store:
        store.submit([Draft(id="a", task="t", start_within_seconds=10)])
        clock.advance(11)
        store.recover()
        job = store.get("a")
        assert job is not None
        assert job.status is Status.CANCELLED


class Overtaken(Database):
    """Somebody else comes between its next look and the write that follows."""

    overtake: Callable[[], object] | None = None

    def write(self, operation: Callable[[Step], T], *, go_on: bool = True) -> T:
        overtake, self.overtake = self.overtake, None
        if overtake is not None:
            overtake()
        return super().write(operation, go_on=go_on)


def a_sweep_that_is_overtaken_robs_nobody(folder: Path) -> None:
    clock = ManualClock()
    with closing(SQLiteStore(folder / "overtaken.db", env=Env(clock=clock))) as store:
        store.close()
        store._database = database = Overtaken(folder / "overtaken.db", env=Env(clock=clock))
        store.submit([Draft(id="a", task="t")])
        lease_all(store)
        clock.advance(3600)
        database.overtake = lambda: (store.recover(), lease_all(store))
        assert store.recover().recovered == 0


def lease_all(store: SQLiteStore) -> list[Any]:
    return store.exchange((), LeaseRequest(worker="w", limit=99)).leases


def examinations() -> list[Examination]:
    """What can be run at once without pytest, the quick ones of our own first."""
    own: list[Examination] = [
        only_the_dead_are_robbed,
        a_refused_submit_leaves_nothing_behind,
        what_nobody_starts_in_time_is_swept_away,
        a_sweep_that_is_overtaken_robs_nobody,
    ]
    found = inspect.getmembers(StoreConformance, inspect.isfunction)
    # The patient ones last: they wait long for what a mutant never does.
    found.sort(key=lambda member: member[1].__module__.endswith("waking"))
    return own + [
        clause(name, test)
        for name, test in found
        if name.startswith("test_")
        and not hasattr(test, "hypothesis")
        and set(inspect.signature(test).parameters) <= FIXTURES
    ]


def is_broken(error: Exception) -> bool:
    """Whether a mutant does not even run: then nobody has found out what it stands for."""
    text = str(error)
    return isinstance(error, NameError | AttributeError) or any(
        sign in text for sign in ("syntax error", "no such column", "no such table", "argument")
    )


def is_found_out(folder: Path) -> bool:
    for examine in examinations():
        try:
            examine(folder)
        except Exception as error:
            if is_broken(error):
                raise
            return True
        except pytest.fail.Exception:
            return True
    return False


# -- the mutants -------------------------------------------------------------------------------


def sql(module: Any, name: str, guard: str, instead: str) -> Mutate:
    """Another condition in one statement."""

    def mutate(monkeypatch: pytest.MonkeyPatch) -> None:
        statement = getattr(module, name)
        assert statement.count(guard) == 1, f"{name} does not say {guard!r} once any more"
        monkeypatch.setattr(module, name, statement.replace(guard, instead))

    return mutate


def sql_of_table(mapping: dict[str, str], table: str, guard: str, instead: str) -> Mutate:
    def mutate(monkeypatch: pytest.MonkeyPatch) -> None:
        assert guard in mapping[table]
        monkeypatch.setitem(mapping, table, mapping[table].replace(guard, instead))

    return mutate


def both(*mutations: Mutate) -> Mutate:
    """For what is guarded twice: when it is looked for, and when it is done."""

    def mutate(monkeypatch: pytest.MonkeyPatch) -> None:
        for each in mutations:
            each(monkeypatch)

    return mutate


def who_holds_anything_is_dead_if_anybody_is(monkeypatch: pytest.MonkeyPatch) -> None:
    original = recover.recover

    def take_back(step: Step, jobs: Sequence[int], dead: Collection[Life]) -> SweepReport:
        holders = {Life._make(row) for row in step.execute("SELECT worker, life FROM running")}
        return original(step, jobs, holders if dead else dead)

    monkeypatch.setattr(recover, "recover", take_back)


def versions_may_repeat_after_discard(monkeypatch: pytest.MonkeyPatch) -> None:
    original = people.Desk.erase

    def erase(self: people.Desk, job: state.JobState) -> None:
        floor = self._step.version_floor
        original(self, job)
        self._step.version_floor = floor

    monkeypatch.setattr(people.Desk, "erase", erase)


def the_clock_may_step_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def tell(self: StoreClock, stored: int, basis: ClockBasis) -> StoreTime:
        return StoreTime(self._clock.time_micros(), 0, basis)

    monkeypatch.setattr(StoreClock, "tell", tell)


def a_failed_operation_is_not_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Step, "undo", Step.forget)


def a_new_lane_is_remembered_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    original = gate.Lanes.number

    def number(self: gate.Lanes, step: Step, queue: str, task: str) -> int:
        found = original(self, step, queue, task)
        self._known[queue, task] = found
        return found

    monkeypatch.setattr(gate.Lanes, "number", number)


def nothing_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Writer._carry_out

    def carry_out(self: Writer, ticket: Any, step: Step) -> None:
        self._side.db.execute("SAVEPOINT mutant")
        original(self, ticket, step)
        self._side.db.execute("ROLLBACK TO mutant")
        self._side.db.execute("RELEASE mutant")

    monkeypatch.setattr(Writer, "_carry_out", carry_out)


MUTANTS: dict[str, Mutate] = {
    "settle without the version": sql(settle, "END_LEASE", "version = ?", "? IS NOT NULL"),
    "renew without the version": sql(renew, "HELD", "version = ?", "? IS NOT NULL"),
    "renew what expired": sql(renew, "HELD", "acquired_at, expires_at", "acquired_at, 1 << 60"),
    "recover what has not expired": both(
        sql(recover, "LOST", "expires_at <= ?1", "?1 IS NOT NULL"),
        sql(recover, "STILL_LOST", "worker, expires_at", "worker, 0 AS expires_at"),
    ),
    "recover nothing": sql(recover, "LOST", "expires_at <= ?1", "?1 IS NULL"),
    "take back without looking again": sql(
        recover, "STILL_LOST", "worker, expires_at", "worker, 0 AS expires_at"
    ),
    "rob the living": both(
        sql(recover, "LOST", "worker IN (", "?2 <> '[]' OR worker IN ("),
        who_holds_anything_is_dead_if_anybody_is,
    ),
    "spare the dead": sql(recover, "LOST", "worker IN (", "worker NOT NULL AND 0 IN ("),
    "promote before it is due": sql(lease, "FIND_DUE", "due <= ?", "(due <= ? OR 1)"),
    "never promote": sql(lease, "FIND_DUE", "due <= ?", "due IS NULL AND ?"),
    "attempts not counted": sql(
        grant, "GRANT", "(?, ?, ?, ?, ?, ?, ?,", "(?, ?, ?, ?, ?, ?, ? - 1,"
    ),
    "leases that never expire": sql(grant, "GRANT", "(?, ?, ?, ?, ?,", "(?, ?, ?, ?, 1 << 60 | ?,"),
    "serve the last first": sql(
        order, "READY_IN_LANE", "ORDER BY tier, turn, ready.seq", "ORDER BY ready.seq DESC"
    ),
    "ignore the priority": sql(
        order, "READY_IN_LANE", "ORDER BY tier, turn, ready.seq", "ORDER BY ready.seq"
    ),
    "read a tier from behind": sql(
        order, "READY_IN_TIER", "ORDER BY turn, ready.seq", "ORDER BY turn DESC, ready.seq"
    ),
    "see the first tier only": sql(order, "NEXT_TIER", "tier > ?", "tier > 1000 + ?"),
    "never cross": sql(rebalance, "CROSSING", "crosses_at <= ?", "crosses_at <= -?"),
    "leave no place behind": sql(ready, "FORGET_PLACE", "seq = ?", "seq = -?"),
    "place nobody anew": sql(rebalance, "RESCORE", "pending > 0", "pending < 0"),
    "stop half-way": sql(rebalance, "AFTER", "LIMIT ?5", "LIMIT ?5 / 2"),
    "raise nobody": sql(inheritance, "WAITING_ABOVE", "job.priority) >", "job.priority) > 1000 +"),
    "raise only the next": sql(inheritance, "NEEDS_FROM", "blocker.seq = ?", "blocker.seq = -?"),
    "lower nobody": sql(inheritance, "RAISED_NEEDS", "blocker.seq = ?", "blocker.seq = -?"),
    "lower whom others raise": sql(inheritance, "WAITING_FOR", "needs = ?", "needs = -?"),
    "stay raised after the end": sql(inheritance, "FALL_BACK", "seq = ?", "seq = -?"),
    "lease without taking": sql(ready, "LEAVE", "seq = ?", "seq = -?"),
    "ignore which group": sql(order, "READY_IN_GROUP", "ready.parent_id = ?", "? IS NOT NULL"),
    "keys that never expire": sql(
        submit, "FIND_KEY", "idempotency.expires_at > ?", "? IS NOT NULL"
    ),
    "keys that are never found": sql(submit, "FIND_KEY", "idempotency.expires_at > ?", "? IS NULL"),
    "cancel without removing": sql(ready, "LEAVE_BY_NUMBER", "WHERE (", "WHERE 0 AND ("),
    "events not counted": sql_of_table(state._COUNT_EVENT, "running", "events + 1", "events"),
    "replay without another attempt": sql(
        people, "ALLOW_AGAIN", "allowance = ?", "allowance = ? - 1"
    ),
    "cancel requests not written": sql(people, "REQUEST_CANCEL", "WHERE", "WHERE 0 AND"),
    "sweep past what is too late": sql(recover, "LATE", "WHERE", "WHERE 0 AND"),
    "unblock while others block": sql(dependents, "BLOCKED_BY", "other.needs <> ?1", "0"),
    "leave behind who was told": sql(dependents, "UNBLOCK", "seq = ?", "seq = -?"),
    "tell no dependent": sql(dependents, "REMEMBER", "WHERE id", "WHERE 0 AND id"),
    "forget the rest of a fan-out": sql(dependents, "BLOCKED_BY", "LIMIT ?2", "LIMIT ?2 - 1"),
    "replay without waiting": sql(linking, "DEPENDENCIES_NOW", "WHERE", "WHERE 0 AND"),
    "discard what is needed": sql(linking, "NEEDED_BY", "needs = ?", "needs = -?"),
    "wait on after a cancel": sql(state, "WAIT_FOR_NOBODY", "WHERE", "WHERE 0 AND"),
    "tell what was replayed": sql(state, "TELL_NOBODY", "WHERE", "WHERE 0 AND"),
    "prune what is needed": sql(removing, "STILL_ENDED", "WHERE NOT", "WHERE 1 OR NOT"),
    "settings that nobody hears of": sql(step, "NEXT_SETTINGS", "+ 1", "+ 0"),
    "settings that cannot be unset": sql(settings, "FORGET", "WHERE", "WHERE 0 AND"),
    "let a key run any number": sql(parking, "RUNNING_OF_KEY", "key = ?", "key = -?"),
    "never give a key's slot back": sql(
        parking, "COUNT_RUNNING", "running + excluded.running", "max(running, running + 1)"
    ),
    "show the last of a key first": sql(
        parking, "FIRST_PARKED", "ORDER BY turn, seq", "ORDER BY turn DESC, seq DESC"
    ),
    "look for nobody parked in a group": sql(
        parking, "PARKED_IN_GROUP", "= -parked.lane", "= parked.lane"
    ),
    "forget what ran before the limit": sql(
        rebalance, "COUNT_RUNNING", "limit_key IS NOT NULL", "limit_key IS NULL"
    ),
    "a new limit shows nobody": sql(rebalance, "LOOK_AGAIN", "queue = ?", "queue = -?"),
    "versions may repeat after discard": versions_may_repeat_after_discard,
    "the clock may step back": the_clock_may_step_back,
    "a failed operation is not undone": a_failed_operation_is_not_undone,
    "a new lane is remembered at once": a_new_lane_is_remembered_at_once,
    "nothing is committed": nothing_is_committed,
}


def test_without_a_mutant_all_is_well(folder: Path) -> None:
    for examine in examinations():
        examine(folder)


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_is_found_out(folder: Path, monkeypatch: pytest.MonkeyPatch, mutant: str) -> None:
    MUTANTS[mutant](monkeypatch)
    assert is_found_out(folder), f"no test minds the store to {mutant!r}"
