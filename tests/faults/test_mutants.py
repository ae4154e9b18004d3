"""Testing the tests: each of these faults, put into the SQLite store, must be found out."""

from __future__ import annotations

import inspect
import sys
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
from leasehold.stores import sqlite, tables
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.leasing import ends, lease, order, recover, settle
from leasehold.stores.sqlite.rules import known as known_lanes
from leasehold.stores.sqlite.rules import orders
from leasehold.stores.sqlite.submitting import dependencies, submit
from leasehold.stores.sqlite.writing.clock import StoreClock
from leasehold.stores.sqlite.writing.database import Database
from leasehold.stores.sqlite.writing.step import Step
from leasehold.stores.sqlite.writing.writer import Writer
from leasehold.stores.tables import dependents as waiting
from leasehold.stores.tables import inheritance as bases
from leasehold.stores.tables import job_states, linking, rebalance, removing, settings, step
from leasehold.stores.tables import orders as table_orders
from leasehold.stores.tables import parking as shelf
from leasehold.stores.tables import recover as table_recover
from leasehold.stores.tables.dependents import TableDependents
from leasehold.stores.tables.job_states import JobState
from leasehold.stores.tables.step import TableStep
from leasehold.testing.conformance import StoreConformance
from support.lives import die, enter

Examination = Callable[[Path], None]
Mutate = Callable[[pytest.MonkeyPatch], None]
T = TypeVar("T")


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
    """Somebody else comes between the look of its next sweep and the write that follows."""

    overtake: Callable[[], object] | None = None
    _has_told_the_time = False

    def write(self, operation: Callable[[Step], T], *, go_on: bool = True) -> T:
        if self.overtake is not None:
            if self._has_told_the_time:
                overtake, self.overtake = self.overtake, None
                overtake()
            self._has_told_the_time = True
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
        assert database.overtake is None


def lease_all(store: SQLiteStore) -> list[Any]:
    return store.exchange((), LeaseRequest(worker="w", limit=99)).leases


OWN: dict[str, Examination] = {
    each.__name__: each
    for each in (
        only_the_dead_are_robbed,
        a_refused_submit_leaves_nothing_behind,
        what_nobody_starts_in_time_is_swept_away,
        a_sweep_that_is_overtaken_robs_nobody,
    )
}


def examination(name: str) -> Examination:
    """One of our own, or a test of the conformance suite."""
    return OWN[name] if name in OWN else clause(name, getattr(StoreConformance, name))


def is_broken(error: Exception) -> bool:
    """Whether a mutant does not even run: then nobody has found out what it stands for."""
    text = str(error)
    return isinstance(error, NameError | AttributeError) or any(
        sign in text for sign in ("syntax error", "no such column", "no such table", "argument")
    )


def is_found_out(folder: Path, examine: Examination) -> bool:
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
    """Another condition in one statement, wherever the store knows it by a name."""

    def mutate(monkeypatch: pytest.MonkeyPatch) -> None:
        statement = getattr(module, name)
        assert statement.count(guard) == 1, f"{name} does not say {guard!r} once any more"
        mutant = statement.replace(guard, instead)
        for other in modules_of_the_store():
            for known, value in list(vars(other).items()):
                if value is statement:
                    monkeypatch.setattr(other, known, mutant)
                elif isinstance(value, type):
                    for attribute in [n for n, each in vars(value).items() if each is statement]:
                        monkeypatch.setattr(value, attribute, mutant)
                elif isinstance(value, tuple) and any(each is statement for each in value):
                    replaced = (mutant if each is statement else each for each in value)
                    made = value._make(replaced) if hasattr(value, "_make") else tuple(replaced)
                    monkeypatch.setattr(other, known, made)

    return mutate


def modules_of_the_store() -> list[Any]:
    ours = (sqlite.__name__, tables.__name__)
    return [each for name, each in sys.modules.items() if name.startswith(ours)]


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
    original = recover.Sweep.recover

    def take_back(
        self: recover.Sweep, step: Step, jobs: Sequence[int], dead: Collection[Life]
    ) -> SweepReport:
        holders = {Life._make(row) for row in step.execute("SELECT worker, life FROM running")}
        return original(self, step, jobs, holders if dead else dead)

    monkeypatch.setattr(recover.Sweep, "recover", take_back)


def versions_may_repeat_after_discard(monkeypatch: pytest.MonkeyPatch) -> None:
    original = orders.OrderDesk.erase

    def erase(self: orders.OrderDesk, job: JobState) -> None:
        floor = self._step.version_floor
        original(self, job)
        self._step.version_floor = floor

    monkeypatch.setattr(orders.OrderDesk, "erase", erase)


def the_clock_may_step_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def tell(self: StoreClock, stored: int, basis: ClockBasis) -> StoreTime:
        return StoreTime(self._clock.time_micros(), 0, basis)

    monkeypatch.setattr(StoreClock, "tell", tell)


def a_failed_operation_is_not_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Step, "undo", Step.forget)


def a_new_lane_is_remembered_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    original = known_lanes.LaneNumbers.numbers

    def numbers(self: known_lanes.LaneNumbers, step: TableStep, names: set[Any]) -> Any:
        found = original(self, step, names)
        self._known.update(found)
        return found

    monkeypatch.setattr(known_lanes.LaneNumbers, "numbers", numbers)


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
    "renew without the version": sql(ends, "HELD_LEASE", "version = ?", "? IS NOT NULL"),
    "renew what expired": sql(
        ends, "HELD_LEASE", "acquired_at, expires_at", "acquired_at, 1 << 60"
    ),
    "recover what has not expired": both(
        sql(recover, "LOST", "expires_at <= ?1", "?1 IS NOT NULL"),
        sql(recover, "STILL_LOST", "expires_at, heartbeat", "0 AS expires_at, heartbeat"),
    ),
    "recover nothing": sql(recover, "LOST", "expires_at <= ?1", "?1 IS NULL"),
    "take back without looking again": sql(
        recover, "STILL_LOST", "expires_at, heartbeat", "0 AS expires_at, heartbeat"
    ),
    "rob the living": both(
        sql(recover, "LOST", "worker IN (", "?2 <> '[]' OR worker IN ("),
        who_holds_anything_is_dead_if_anybody_is,
    ),
    "spare the dead": sql(recover, "LOST", "worker IN (", "worker NOT NULL AND 0 IN ("),
    "promote before it is due": sql(lease, "FIND_DUE", "due <= ?", "(due <= ? OR 1)"),
    "never promote": sql(lease, "FIND_DUE", "due <= ?", "due IS NULL AND ?"),
    "attempts not counted": sql(
        lease, "GRANT", "(?, ?, ?, ?, ?, ?, ?,", "(?, ?, ?, ?, ?, ?, ? - 1,"
    ),
    "leases that never expire": sql(lease, "GRANT", "(?, ?, ?, ?, ?,", "(?, ?, ?, ?, 1 << 60 | ?,"),
    "serve the last first": sql(
        order, "READY_IN_LANE", "ORDER BY tier, turn, ready.seq", "ORDER BY ready.seq DESC"
    ),
    "ignore the priority": sql(
        order, "READY_IN_LANE", "ORDER BY tier, turn, ready.seq", "ORDER BY ready.seq"
    ),
    "read a tier from behind": sql(
        order, "READY_IN_TIER", "ORDER BY turn, ready.seq", "ORDER BY turn DESC, ready.seq"
    ),
    "see the first tier only": sql(shelf, "NEXT_TIER", "tier > $2", "tier > 1000 + $2"),
    "never cross": sql(rebalance, "CROSSING", "crosses_at <= $1", "crosses_at <= -$1"),
    "leave no place behind": sql(order, "FORGET_PLACE", "seq = ?", "seq = -?"),
    "place nobody anew": sql(rebalance, "RESCORE", "pending > 0", "pending < 0"),
    "stop half-way": sql(rebalance, "AFTER", "LIMIT $5", "LIMIT $5 / 2"),
    "raise nobody": sql(dependencies, "WAITING_ABOVE", "job.priority) >", "job.priority) > 1000 +"),
    "raise only the next": sql(dependencies, "NEEDS_FROM", "blocker.seq = ?", "blocker.seq = -?"),
    "lower nobody": sql(job_states, "RAISED_NEEDS", "AND {}", "AND 0 AND {}"),
    "lower whom others raise": sql(bases, "WAITING_FOR", "needs = $1", "needs = -$1"),
    "stay raised after the end": sql(bases, "FALL_BACK", "seq = $1", "seq = -$1"),
    "lease without taking": sql(order, "LEAVE", "seq = ?", "seq = -?"),
    "ignore which group": sql(order, "READY_IN_GROUP", "ready.parent_id = ?", "? IS NOT NULL"),
    "keys that never expire": sql(
        submit, "FIND_KEY", "idempotency.expires_at > ?", "? IS NOT NULL"
    ),
    "keys that are never found": sql(submit, "FIND_KEY", "idempotency.expires_at > ?", "? IS NULL"),
    "cancel without removing": sql(order, "LEAVE_BY_NUMBER", "WHERE (", "WHERE 0 AND ("),
    "events not counted": sql_of_table(job_states._COUNT_EVENT, "running", "events + 1", "events"),
    "replay without another attempt": sql(
        table_orders, "ALLOW_AGAIN", "allowance = $1", "allowance = $1 - 1"
    ),
    "cancel requests not written": sql(table_orders, "REQUEST_CANCEL", "WHERE", "WHERE 0 AND"),
    "sweep past what is too late": sql(table_recover, "LATE", "WHERE", "WHERE 0 AND"),
    "unblock while others block": sql(waiting, "BLOCKED_BY", "other.needs <> $1", "0"),
    "leave behind who was told": sql(waiting, "UNBLOCK", "needs = $1", "needs = -$1"),
    "tell no dependent": sql(dependencies, "REMEMBER", "WHERE id", "WHERE 0 AND id"),
    "forget the rest of a fan-out": sql(waiting, "BLOCKED_BY", "LIMIT $2", "LIMIT $2 - 1"),
    "replay without waiting": sql(linking, "DEPENDENCIES_NOW", "WHERE", "WHERE 0 AND"),
    "discard what is needed": lambda patch: patch.setattr(
        TableDependents, "needed_by", lambda *_: None
    ),
    "wait on after a cancel": sql(job_states, "WAIT_FOR_NOBODY", "WHERE", "WHERE 0 AND"),
    "tell what was replayed": sql(job_states, "TELL_NOBODY", "WHERE", "WHERE 0 AND"),
    "prune what is needed": sql(removing, "STILL_ENDED", "AND NOT", "AND 1 OR NOT"),
    "settings that nobody hears of": sql(step, "NEXT_SETTINGS", "+ 1", "+ 0"),
    "settings that cannot be unset": sql(settings, "FORGET", "WHERE", "WHERE 0 AND"),
    "let a key run any number": sql(shelf, "RUNNING_OF_KEY", "key = $2", "key = -$2"),
    "never give a key's slot back": sql(
        order, "COUNT_RUNNING", "running + excluded.running", "max(running, running + 1)"
    ),
    "show the last of a key first": sql(
        shelf, "FIRST_PARKED", "ORDER BY turn, seq", "ORDER BY turn DESC, seq DESC"
    ),
    "look for nobody parked in a group": sql(
        order, "PARKED_IN_GROUP", "= -parked.lane", "= parked.lane"
    ),
    "forget what ran before the limit": sql(
        rebalance, "COUNT_RUNNING", "limit_key IS NOT NULL", "limit_key IS NULL"
    ),
    "a new limit shows nobody": sql(rebalance, "LOOK_AGAIN", "queue = $1", "queue = -$1"),
    "versions may repeat after discard": versions_may_repeat_after_discard,
    "the clock may step back": the_clock_may_step_back,
    "a failed operation is not undone": a_failed_operation_is_not_undone,
    "a new lane is remembered at once": a_new_lane_is_remembered_at_once,
    "nothing is committed": nothing_is_committed,
}


FOUND_BY: dict[str, str] = {
    "settle without the version": "test_set_4_one_stale_settlement_hinders_nobody",
    "renew without the version": "test_log_1_the_log_is_fenced",
    "renew what expired": "test_clk_3_no_lease_ends_by_a_jump",
    "recover what has not expired": "only_the_dead_are_robbed",
    "recover nothing": "test_can_2_or_ends_when_its_lease_is_lost",
    "take back without looking again": "a_sweep_that_is_overtaken_robs_nobody",
    "rob the living": "only_the_dead_are_robbed",
    "spare the dead": "only_the_dead_are_robbed",
    "promote before it is due": "test_all_4_every_way_through_the_table_is_written_down",
    "never promote": "test_all_4_every_way_through_the_table_is_written_down",
    "attempts not counted": "test_all_4_every_way_through_the_table_is_written_down",
    "leases that never expire": "only_the_dead_are_robbed",
    "serve the last first": "only_the_dead_are_robbed",
    "ignore the priority": "test_brk_2_a_probe_that_is_handed_back_says_nothing",
    "read a tier from behind": "test_lea_4_what_became_due_takes_its_rank",
    "see the first tier only": "test_key_3_what_became_more_urgent_by_its_deadline",
    "never cross": "test_key_3_what_became_more_urgent_by_its_deadline",
    "leave no place behind": "test_clk_4_what_was_put_off_is_still_as_far_off",
    "place nobody anew": "test_sco_4_a_change_counts_for_what_is_there",
    "stop half-way": "test_sco_4_a_change_for_more_jobs_than_one_write_takes",
    "raise nobody": "test_inh_1_a_replayed_job_waits_with_its_priority",
    "raise only the next": "test_inh_1_a_replayed_job_waits_with_its_priority",
    "lower nobody": "test_inh_2_all_may_go_at_once",
    "lower whom others raise": "test_inh_2_it_falls_back_when_nobody_raises_it",
    "stay raised after the end": "test_inh_1_a_replayed_job_waits_with_its_priority",
    "lease without taking": "only_the_dead_are_robbed",
    "ignore which group": "test_key_3_narrowed_to_a_group",
    "keys that never expire": "test_clk_4_schedules_keys_and_breakers_go_on",
    "keys that are never found": "test_blo_3_the_same_data_is_the_same_payload",
    "cancel without removing": "test_audit_says_who_did_what",
    "events not counted": "test_can_2_a_running_job_is_asked_to_stop",
    "replay without another attempt": "test_rec_6_a_reset_forgets_what_replays_had_added",
    "cancel requests not written": "test_can_2_a_running_job_is_asked_to_stop",
    "sweep past what is too late": "what_nobody_starts_in_time_is_swept_away",
    "unblock while others block": "test_dep_1_blocked_until_all_are_completed",
    "leave behind who was told": "test_dep_1_a_blocked_job_can_be_cancelled_and_reprioritized",
    "tell no dependent": "test_dep_1_a_blocked_job_can_be_cancelled_and_reprioritized",
    "forget the rest of a fan-out": "test_dep_5_whoever_leases_goes_on",
    "replay without waiting": "test_dep_6_a_replay_does_not_wait_for_an_old_delay",
    "discard what is needed": "test_dep_7_a_needed_job_cannot_be_discarded",
    "wait on after a cancel": "test_dep_1_a_blocked_job_can_be_cancelled_and_reprioritized",
    "tell what was replayed": "test_dep_6_replayed_before_all_were_told",
    "prune what is needed": "test_ret_1_what_unfinished_jobs_depend_on_is_spared",
    "settings that nobody hears of": "test_chg_1_queues_schedules_settings_and_workers_are_told",
    "settings that cannot be unset": "test_chg_1_queues_schedules_settings_and_workers_are_told",
    "let a key run any number": "test_key_1_so_many_jobs_of_a_key_run_and_no_more",
    "never give a key's slot back": "test_key_1_over_several_tasks_too",
    "show the last of a key first": "test_key_1_so_many_jobs_of_a_key_run_and_no_more",
    "look for nobody parked in a group": "test_key_3_narrowed_to_a_group",
    "forget what ran before the limit": "test_key_5_a_limit_counts_at_once",
    "a new limit shows nobody": "test_key_5_a_limit_counts_at_once",
    "versions may repeat after discard": "test_dis_2_a_version_is_never_granted_again",
    "the clock may step back": "test_all_3_the_clock_never_steps_back",
    "a failed operation is not undone": "a_refused_submit_leaves_nothing_behind",
    "a new lane is remembered at once": "a_refused_submit_leaves_nothing_behind",
    "nothing is committed": "only_the_dead_are_robbed",
}
"""The test that minds each of them: one is enough, and it must."""


@pytest.mark.parametrize("name", sorted(set(FOUND_BY.values())))
def test_without_a_mutant_all_is_well(folder: Path, name: str) -> None:
    examination(name)(folder)


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_is_found_out(folder: Path, monkeypatch: pytest.MonkeyPatch, mutant: str) -> None:
    MUTANTS[mutant](monkeypatch)
    name = FOUND_BY[mutant]
    assert is_found_out(folder, examination(name)), f"{name} does not mind {mutant!r}"
