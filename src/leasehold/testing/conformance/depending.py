"""DEP-1 to DEP-3, DEP-8: jobs that wait for others, and in which order they may be submitted."""

from __future__ import annotations

from typing import Any

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Cancel, Complete, Outcome
from leasehold.core.model.records import Submitted
from leasehold.core.model.status import Event, Status
from leasehold.env import ManualClock
from leasehold.errors import (
    CycleError,
    DuplicateJobError,
    InvalidJobError,
    JobNotFoundError,
    UnknownDependencyError,
)
from leasehold.testing.conformance.base import (
    FAILURE,
    FATAL,
    ConformanceBase,
    assert_history_replays,
    at_once,
    draft,
    events,
    get,
    lease_all,
    lease_one,
    settle,
    submit,
)


def after(job_id: str, *needs: str, **options: Any) -> Draft:
    """A draft that depends on these."""
    return draft(job_id, depends_on=needs, **options)


def status(store: Store, *job_ids: str) -> list[str]:
    """Where jobs stand, and that the store finds no fault with them."""
    assert store.check() == []
    for job_id in job_ids:
        assert_history_replays(store, get(store, job_id))
    return [get(store, job_id).status.value for job_id in job_ids]


def run(store: Store, job_id: str, outcome: Outcome) -> None:
    """Lease this job, before any others, and settle it."""
    leases = {lease.job_id: lease for lease in lease_all(store)}
    back = [Settlement(lease.job_id, lease.version, Cancel("")) for lease in leases.values()]
    assert job_id in leases, f"{job_id} should have been available, not {list(leases)}"
    assert len(back) == 1, f"only {job_id} should have been available, not {list(leases)}"
    settle(store, leases[job_id], outcome)


class DependingClauses(ConformanceBase):
    def test_dep_1_blocked_until_all_are_completed(self, store: Store) -> None:
        submit(store, draft("a"), draft("b"))
        (answer,) = submit(store, after("c", "a", "b"))
        assert answer.status is Status.BLOCKED
        assert get(store, "c").depends_on == ("a", "b")
        first, second = lease_all(store)
        settle(store, first, Complete())
        assert (lease_all(store), status(store, "c")) == ([], ["blocked"])
        settle(store, second, Complete())
        assert status(store, "a", "b", "c") == ["completed", "completed", "pending"]
        assert events(store, "c") == [Event.CREATED, Event.UNBLOCKED]
        assert store.history("c")[1].message == "dependency b is completed"
        assert lease_one(store).job_id == "c"

    def test_dep_1_in_the_same_exchange(self, store: Store) -> None:
        submit(store, draft("a"), after("b", "a"))
        lease = lease_one(store)
        answer = store.exchange(
            [Settlement("a", lease.version, Complete())], LeaseRequest(worker="worker")
        )
        assert [each.job_id for each in answer.leases] == ["b"]

    def test_dep_1_a_retry_is_no_end(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("a"), after("b", "a"))
        settle(store, lease_one(store), FAILURE)
        assert status(store, "a", "b") == ["failed", "blocked"]
        clock.advance(5)
        run(store, "a", Complete())
        assert status(store, "b") == ["pending"]

    def test_dep_1_and_then_not_before_it_is_due(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("a"), after("b", "a", delay_seconds=60), after("c", "a"))
        due = get(store, "b").run_at
        run(store, "a", Complete())
        assert status(store, "b", "c") == ["scheduled", "pending"]
        assert get(store, "b").run_at == due
        assert [lease.job_id for lease in lease_all(store)] == ["c"]
        clock.advance(60)
        assert lease_one(store).job_id == "b"
        assert events(store, "b")[:3] == [Event.CREATED, Event.UNBLOCKED, Event.PROMOTED]

    def test_dep_1_it_waits_since_it_became_available(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit(store, draft("a"), after("b", "a"))
        clock.advance(100)
        run(store, "a", Complete())
        assert get(store, "b").run_at == store.now()

    def test_dep_1_order_and_priority_are_kept(self, store: Store) -> None:
        submit(store, draft("a"), after("b", "a"), after("c", "a", priority=90), draft("d"))
        settle(store, lease_one(store), Complete())
        assert [lease.job_id for lease in lease_all(store)] == ["c", "b", "d"]

    def test_dep_1_once_named_twice(self, store: Store) -> None:
        submit(store, draft("a"), after("b", "a", "a"))
        assert get(store, "b").depends_on == ("a",)
        run(store, "a", Complete())
        assert status(store, "b") == ["pending"]

    def test_dep_1_a_blocked_job_can_be_cancelled_and_reprioritized(self, store: Store) -> None:
        submit(store, draft("a"), after("b", "a"), after("c", "a"))
        store.cancel(["b"], reason="no need", actor="me")
        store.reprioritize("c", 99, actor="me")
        run(store, "a", Complete())
        assert status(store, "b", "c") == ["cancelled", "pending"]
        assert (get(store, "b").reason, get(store, "c").priority) == ("no need", 99)

    def test_dep_2_what_is_completed_is_satisfied_at_once(self, store: Store) -> None:
        submit(store, draft("a"), draft("b"))
        settle(store, lease_one(store), Complete())
        answers = submit(store, after("c", "a"), after("d", "a", "b"))
        assert [answer.status for answer in answers] == [Status.PENDING, Status.BLOCKED]
        assert get(store, "c").depends_on == ("a",)
        lease_b, lease_c = lease_all(store)
        assert lease_c.job_id == "c"
        settle(store, lease_b, Complete())
        assert status(store, "d") == ["pending"]

    def test_dep_2_an_unknown_one_is_refused(self, store: Store) -> None:
        with pytest.raises(UnknownDependencyError, match=r"job b depends on nobody.*no such job"):
            store.submit([draft("a"), after("b", "nobody")])
        assert (store.get("a"), store.get("b")) == (None, None)
        assert issubclass(UnknownDependencyError, JobNotFoundError)
        with pytest.raises(InvalidJobError, match="depends_on"):
            store.submit([after("b", "")])
        with pytest.raises(InvalidJobError, match="on_dependency_failure"):
            store.submit([draft("a"), after("b", "a", on_dependency_failure="panic")])
        assert store.stats().submitted == 0

    def test_dep_2_at_the_very_moment_it_ends(self, store: Store) -> None:
        """However the two interleave: blocked and then unblocked, or satisfied at once."""
        for number in range(30):
            submit(store, draft(f"a{number}"))
            lease = lease_one(store)

            def act(who: int, number: int = number, lease: Any = lease) -> None:
                if who == 0:
                    settle(store, lease, Complete())
                else:
                    submit(store, after(f"b{number}-{who}", f"a{number}"))

            at_once(3, act)
            assert status(store, f"b{number}-1", f"b{number}-2") == ["pending", "pending"]
            for each in lease_all(store):
                settle(store, each, Complete())

    def test_dep_3_in_any_order(self, store: Store) -> None:
        submit(store, after("d", "b", "c"), after("c", "a"), after("b", "a"), draft("a"))
        order = []
        while leases := lease_all(store):
            order.append(sorted(lease.job_id for lease in leases))
            for lease in leases:
                settle(store, lease, Complete())
        assert order == [["a"], ["b", "c"], ["d"]]
        assert status(store, "a", "b", "c", "d") == ["completed"] * 4

    def test_dep_3_a_cycle_is_refused(self, store: Store) -> None:
        for drafts, named in [
            ([after("a", "a")], "a -> a"),
            ([after("a", "b"), after("b", "a")], "a -> b -> a"),
            ([after("z", "a"), after("a", "c"), after("b", "a"), after("c", "b")], "a -> c -> b"),
        ]:
            with pytest.raises(CycleError, match=named):
                store.submit([draft("x"), *drafts])
            assert store.get("x") is None
        assert issubclass(CycleError, InvalidJobError)
        assert store.check() == []

    def test_dep_3_partly(self, store: Store) -> None:
        submit(store, draft("taken"))
        answers = store.submit(
            [
                after("behind", "circle-1"),
                after("circle-1", "circle-2"),
                after("circle-2", "circle-1"),
                after("last", "late"),
                after("late", "bad"),
                draft("bad", priority=1000),
                after("b", "a"),
                draft("a"),
                draft("taken"),
                after("of-taken", "taken"),
                after("of-nobody", "nobody"),
            ],
            partial=True,
        )
        assert [type(answer) for answer in answers] == [
            UnknownDependencyError, CycleError, CycleError, UnknownDependencyError,
            UnknownDependencyError, InvalidJobError, Submitted, Submitted, DuplicateJobError,
            UnknownDependencyError, UnknownDependencyError,
        ]  # fmt: skip
        assert "was refused" in str(answers[4])
        assert store.stats().submitted == 3
        assert status(store, "a", "b") == ["pending", "blocked"]
        # A refused draft has left nothing behind: it can be submitted again.
        submit(store, after("last", "late"), after("late", "a"))
        assert status(store, "last", "late") == ["blocked", "blocked"]

    def test_dep_3_a_duplicate_stands_for_the_first(self, store: Store) -> None:
        submit(store, draft("a", idempotency_key="key"))
        answers = submit(
            store,
            after("b", "again", idempotency_key="other"),
            draft("again", idempotency_key="key"),
            after("b2", "again", idempotency_key="other"),
        )
        assert [(answer.id, answer.is_duplicate) for answer in answers] == [
            ("b", False), ("a", True), ("b", True),
        ]  # fmt: skip
        assert get(store, "b").depends_on == ("a",)
        run(store, "a", Complete())
        assert status(store, "b") == ["pending"]

    def test_dep_3_the_duplicate_of_a_refused_one_is_refused(self, store: Store) -> None:
        answers = store.submit(
            [after("a", "nobody", idempotency_key="k"), draft("b", idempotency_key="k")],
            partial=True,
        )
        assert [type(answer) for answer in answers] == [UnknownDependencyError] * 2
        submit(store, draft("b", idempotency_key="k"))

    def test_dep_8_the_graph(self, store: Store) -> None:
        submit(
            store,
            draft("a"),
            draft("alone"),
            after("b", "a", on_dependency_failure="fail"),
            after("d", "b", "c"),
            after("c", "a"),
        )
        run_order = lease_all(store)
        settle(store, run_order[0], FATAL)
        graph = store.graph(["d"])
        assert set(graph.nodes) == {"a", "b", "c", "d"}
        assert set(graph.edges) == {("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")}
        places = {job_id: place for place, job_id in enumerate(graph.nodes)}
        assert all(places[needed] < places[job_id] for needed, job_id in graph.edges)
        assert {node.id: node.status.value for node in graph.nodes.values()} == {
            "a": "dead", "b": "dead", "c": "cancelled", "d": "cancelled",
        }  # fmt: skip
        assert (graph.nodes["a"].ended_by, graph.nodes["b"].ended_by) == (None, "a")
        assert graph.nodes["d"].ended_by in ("b", "c")
        assert graph.nodes["b"].on_dependency_failure == "fail"
        assert graph.origin_of("d") == "a"
        assert set(graph.brought_down_by(["a"])) == {"a", "b", "c", "d"}
        assert graph.is_finished
        assert store.graph(["alone", "nobody"]).edges == []
        assert list(store.graph(["alone", "nobody"]).nodes) == ["alone"]

    def test_dep_8_not_by_way_of_a_job_that_is_gone(self, store: Store) -> None:
        submit(store, draft("a"))
        submit(store, *(after(name, "a", on_dependency_failure="ignore") for name in ("b", "c")))
        store.cancel(["a"], reason="no", actor="me")
        for lease in lease_all(store):
            settle(store, lease, Complete())
        store.discard(["a"], actor="me")
        assert set(store.graph(["b"]).nodes) == {"b"}
