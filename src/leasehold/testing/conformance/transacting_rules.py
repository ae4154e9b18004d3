"""TXN: settings and the placing of jobs count in a transaction as elsewhere."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from leasehold.core.contract.local_store import LocalStore
from leasehold.core.contract.store import Store
from leasehold.core.contract.transactions import Connection
from leasehold.core.model.job import DEFAULT_MAX_RETRIES, Draft
from leasehold.core.model.lease import Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.queue_config import QueueConfig
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.core.rules.filter_orders import CancelAll
from leasehold.core.rules.operations import OperationDraft, Plan
from leasehold.env import Env, ManualClock
from leasehold.testing.conformance.base import (
    ConformanceBase,
    MakeStore,
    draft,
    get,
    lease_all,
    lease_one,
    settle,
    submit,
)
from leasehold.testing.conformance.operating import carry_out
from leasehold.testing.conformance.transacting import undone
from leasehold.testing.conformance.waking import PATIENCE_SECONDS

AT_ONCE_SECONDS = 0.3
"""Within this time a plan is made that waits for no transaction."""
SCORED = QueueConfig(max_priority=80, aging_factor=5.0, deadline_weight=30.0, retry_penalty=5.0)


def order(store: Store) -> list[str]:
    """The jobs in the order of service."""
    return [lease.job_id for lease in lease_all(store)]


class TransactingRulesClauses(ConformanceBase):
    def test_txn_2_what_is_set_counts(self, store: LocalStore, connection: Connection) -> None:
        def max_retries_of(job_id: str) -> int:
            with connection.transaction():
                store.submit_within(connection, [draft(job_id)])
            return get(store, job_id).max_retries

        assert max_retries_of("before") == DEFAULT_MAX_RETRIES
        store.set_setting("max_retries", 7, actor="me")
        assert max_retries_of("set") == 7
        with undone(connection):
            store.submit_within(connection, [draft("undone")])
        store.set_setting("max_retries", 8, actor="me")
        assert max_retries_of("changed") == 8
        store.unset_setting("max_retries", actor="me")
        assert max_retries_of("unset") == DEFAULT_MAX_RETRIES

    def test_txn_2_rules_that_were_changed_count(
        self, store: LocalStore, connection: Connection
    ) -> None:
        with connection.transaction():
            store.submit_within(connection, [draft("first", priority=60)])
        store.create_queue("default", QueueConfig(max_priority=50), actor="me")
        with connection.transaction():
            store.submit_within(connection, [draft("second", priority=90)])
        assert order(store) == ["first", "second"], "no priority above the highest counts"

    def test_txn_2_placed_as_by_any_other_submit(
        self,
        store: LocalStore,
        connection: Connection,
        make_store: MakeStore,
        env: Env,
        clock: ManualClock,
    ) -> None:
        other = make_store(env)

        def drafts(round_: int) -> list[Draft]:
            soon, late = (store.now() + timedelta(seconds=seconds) for seconds in (60, 7200))
            return [
                draft(f"plain-{round_}"),
                draft(f"low-{round_}", priority=10),
                draft(f"above-{round_}", priority=95),
                draft(f"soon-{round_}", priority=40, deadline=soon),
                draft(f"late-{round_}", priority=40, deadline=late),
                draft(f"after-{round_}", priority=90, depends_on=(f"low-{round_}",)),
            ]

        for each in (store, other):
            each.create_queue("default", SCORED, actor="me")
        for round_ in range(3):
            with undone(connection):
                store.submit_within(connection, drafts(round_))
            with connection.transaction():
                store.submit_within(connection, drafts(round_))
            submit(other, *drafts(round_))
            clock.advance(3000)
        assert [store.position(f"late-{n}") for n in range(3)] == [
            other.position(f"late-{n}") for n in range(3)
        ]
        served = order(store)
        assert served == order(other)
        assert len(served) == 15
        assert store.check() == []
        other.close()

    def test_txn_2_what_the_urgent_wait_for_is_urgent_if_they_are_there(
        self, store: LocalStore, connection: Connection
    ) -> None:
        submit(store, draft("needed", priority=10), draft("other"))
        urgent = draft("urgent", priority=90, depends_on=("needed",))
        with undone(connection):
            store.submit_within(connection, [urgent])
        assert get(store, "needed").inherited_priority is None
        assert store.check() == []
        with connection.transaction():
            store.submit_within(connection, [urgent])
        assert get(store, "needed").inherited_priority == 90
        assert order(store) == ["needed", "other"]

    def test_txn_7_dependents_are_placed_as_by_any_other_completion(
        self, store: LocalStore, connection: Connection
    ) -> None:
        store.create_queue("default", SCORED, actor="me")
        submit(store, draft("needed", priority=70), draft("other"))
        deadline = store.now() + timedelta(seconds=1)
        waiting = draft("waiting", priority=45, deadline=deadline, depends_on=("needed",))
        submit(store, waiting, draft("last", priority=40))
        lease = lease_one(store)
        assert lease.job_id == "needed"
        held = store.open_transaction(lease.job_id, lease.version)
        held.connection.execute("INSERT INTO app_row VALUES (1)")
        held.complete(Settlement(lease.job_id, lease.version, Complete()))
        assert get(store, "waiting").status is Status.PENDING
        leases = lease_all(store)
        assert [each.job_id for each in leases] == ["waiting", "other", "last"]
        for each in leases:
            settle(store, each, Complete())
        assert connection.execute("SELECT n FROM app_row").fetchall() == [(1,)]
        assert store.check() == []

    def test_txn_2_a_new_queue_that_was_rolled_back_is_made_anew(
        self, store: LocalStore, connection: Connection
    ) -> None:
        with undone(connection):
            store.submit_within(connection, [draft("undone-1", queue="new")])
            store.submit_within(connection, [draft("undone-2", queue="new")])
        submit(store, draft("a", queue="another"))
        submit(store, draft("b", queue="new"))
        assert (get(store, "a").queue, get(store, "b").queue) == ("another", "new")
        assert store.check() == []

    def test_ope_6_nor_what_a_transaction_had_submitted(
        self, store: LocalStore, connection: Connection
    ) -> None:
        submit(store, draft("before"))
        is_planned = threading.Event()

        def planned() -> Plan:
            plan = store.plan_operation(CancelAll(), JobFilter())
            is_planned.set()
            return plan

        with ThreadPoolExecutor(1) as pool:
            with connection.transaction():
                store.submit_within(connection, [draft("within")])
                planning = pool.submit(planned)
                is_planned.wait(AT_ONCE_SECONDS)
            plan = planning.result(PATIENCE_SECONDS)
        store.begin_operation(OperationDraft(id=plan.operation_id, plan=plan), actor="ann")
        done = carry_out(store, plan.operation_id)
        assert (done.changed, done.moved_on) == (plan.planned, 0), "a job was not announced"
