"""DEP-4 to DEP-7: what dependents do when a job ends badly, is replayed or is discarded."""

from __future__ import annotations

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.budget import DEPENDENTS_AT_ONCE
from leasehold.core.model.lease import LeaseRequest, Settled, Settlement
from leasehold.core.model.outcome import Cancel, Complete
from leasehold.core.model.status import Event, Status
from leasehold.env import ManualClock
from leasehold.errors import (
    InvalidTransitionError,
    JobNotFoundError,
)
from leasehold.testing.conformance.base import (
    FATAL,
    ConformanceBase,
    draft,
    events,
    get,
    job_of,
    lease_all,
    lease_one,
    settle,
    submit,
)
from leasehold.testing.conformance.depending import after, run, status


class DependencyEndsClauses(ConformanceBase):
    @pytest.mark.parametrize("end", ["dead", "cancelled"])
    def test_dep_4_each_policy(self, store: Store, end: str) -> None:
        submit(
            store,
            draft("a"),
            after("cancel", "a"),
            after("fail", "a", on_dependency_failure="fail"),
            after("ignore", "a", on_dependency_failure="ignore"),
        )
        run(store, "a", FATAL if end == "dead" else Cancel("enough"))
        names = ["cancel", "fail", "ignore"]
        assert status(store, "a", *names) == [end, "cancelled", "dead", "pending"]
        said = (
            "dependency a is dead: ValueError: no such person"
            if end == "dead"
            else "dependency a was cancelled: enough"
        )
        assert [get(store, name).reason for name in names] == [said, said, None]
        assert [store.history(name)[-1].message for name in names] == [said] * 3
        assert [store.history(name)[-1].event for name in names] == [
            Event.CANCELLED, Event.DEAD, Event.UNBLOCKED,
        ]  # fmt: skip
        stats = store.stats()
        assert (stats.dead, stats.cancelled) == ((2, 1) if end == "dead" else (1, 2))
        assert [lease.job_id for lease in lease_all(store)] == ["ignore"]

    def test_dep_4_of_several_ends_the_first_submitted_is_named(self, store: Store) -> None:
        submit(store, draft("a"), draft("b"), after("c", "a", "b"))
        store.cancel(["b", "a"], reason="enough", actor="me")
        submit(store, after("d", "b", "a"))
        assert status(store, "c", "d") == ["cancelled"] * 2
        assert [get(store, each).reason for each in ("c", "d")] == [
            "dependency a was cancelled: enough"
        ] * 2

    def test_lea_6_the_end_of_a_late_job_frees_others(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit(
            store,
            draft("late", start_within_seconds=1),
            after("freed", "late", on_dependency_failure="ignore"),
        )
        clock.advance(5)
        request = LeaseRequest(worker="worker", limit=20)
        answer = store.exchange(request=request)
        found = [lease.job_id for lease in answer.leases]
        if not found:
            assert answer.next_due_at == store.now()
            found = [lease.job_id for lease in store.exchange(request=request).leases]
        assert found == ["freed"]
        # A late job without dependents is no reason to look again.
        submit(store, draft("alone", start_within_seconds=1))
        clock.advance(5)
        assert store.exchange(request=request).next_due_at is None

    def test_dep_4_whoever_ends_it(self, store: Store, clock: ManualClock) -> None:
        submit(
            store,
            draft("lost", max_retries=0),
            draft("late", start_within_seconds=1, priority=0),
            draft("stopped", priority=0),
            *(after(f"of-{name}", name) for name in ("lost", "late", "stopped")),
        )
        lease_one(store, lease_seconds=10)
        store.cancel(["stopped"], reason="", actor="me")
        clock.advance(10)
        store.recover()
        lease_all(store)
        assert status(store, "lost", "late", "stopped") == ["dead", "cancelled", "cancelled"]
        assert status(store, "of-lost", "of-late", "of-stopped") == ["cancelled"] * 3

    def test_dep_4_it_cascades(self, store: Store) -> None:
        submit(
            store,
            draft("a"),
            after("b", "a"),
            after("c", "b", on_dependency_failure="fail"),
            after("d", "c"),
            after("e", "d", "a", on_dependency_failure="ignore"),
            after("f", "e"),
        )
        store.cancel(["a"], reason="enough", actor="me")
        assert status(store, "a", "b", "c", "d", "e", "f") == [
            "cancelled", "cancelled", "dead", "cancelled", "pending", "blocked",
        ]  # fmt: skip
        assert get(store, "d").reason == (
            "dependency c is dead: dependency b was cancelled: dependency a was cancelled: enough"
        )

    def test_dep_4_once_for_many_dependencies(self, store: Store) -> None:
        submit(store, draft("a"), draft("b"), draft("c"), after("d", "a", "b", "c"))
        first, second, third = lease_all(store)
        settle(store, first, Complete())
        settle(store, second, FATAL)
        assert status(store, "d") == ["cancelled"]
        settle(store, third, FATAL)
        assert events(store, "d") == [Event.CREATED, Event.CANCELLED]
        assert store.stats().cancelled == 1

    def test_dep_4_what_had_ended_before_counts_at_once(self, store: Store) -> None:
        submit(store, draft("a"))
        run(store, "a", FATAL)
        answers = submit(
            store,
            after("cancel", "a"),
            after("fail", "a", on_dependency_failure="fail"),
            after("ignore", "a", on_dependency_failure="ignore"),
            after("behind", "cancel"),
        )
        assert [answer.status.value for answer in answers] == [
            "cancelled", "dead", "pending", "cancelled",
        ]  # fmt: skip
        assert status(store, "cancel", "fail", "ignore", "behind") == [
            "cancelled", "dead", "pending", "cancelled",
        ]  # fmt: skip
        assert events(store, "cancel") == [Event.CREATED, Event.CANCELLED]

    @pytest.mark.parametrize("end", ["completed", "cancelled"])
    def test_dep_5_a_fan_out_larger_than_a_write(self, store: Store, end: str) -> None:
        count = 2 * DEPENDENTS_AT_ONCE + 7
        names = [f"b{number}" for number in range(count)]
        submit(store, draft("a"), *(after(name, "a") for name in names), after("end", *names))
        lease = lease_one(store)
        # Without a request to lease, a call finishes its fan-out.
        settle(store, lease, Complete() if end == "completed" else Cancel("enough"))
        assert store.check() == []
        counts = store.stats().counts
        if end == "cancelled":
            assert counts[Status.CANCELLED] == count + 2
            return
        assert (counts[Status.PENDING], counts[Status.BLOCKED]) == (count, 1)
        while leases := lease_all(store, limit=100):
            done = [Settlement(each.job_id, each.version, Complete()) for each in leases]
            assert all(isinstance(each, Settled) for each in store.exchange(done).settled)
        assert store.stats().counts[Status.COMPLETED] == count + 2

    def test_dep_5_whoever_leases_goes_on(self, store: Store) -> None:
        count = 2 * DEPENDENTS_AT_ONCE + 7
        submit(store, draft("a"), *(after(f"b{number}", "a") for number in range(count)))
        settlements = [Settlement("a", lease_one(store).version, Complete())]
        leased = 0
        for _ in range(10 * count):
            answer = store.exchange(settlements, LeaseRequest(worker="worker", limit=100))
            if not answer.leases:
                break
            leased += len(answer.leases)
            settlements = [
                Settlement(lease.job_id, lease.version, Complete()) for lease in answer.leases
            ]
        assert leased == count
        assert store.check() == []

    def test_dep_6_a_replayed_job_waits_again(self, store: Store) -> None:
        submit(store, draft("a"), after("b", "a"), after("c", "b"))
        run(store, "a", FATAL)
        assert status(store, "a", "b", "c") == ["dead", "cancelled", "cancelled"]
        (refused,) = store.replay(["b"], reset_attempts=False, actor="me")
        assert isinstance(refused, InvalidTransitionError)
        assert "dependency a is dead" in str(refused)
        store.replay(["a"], reset_attempts=False, actor="me")
        # Those behind it stay as they are until somebody asks for them.
        assert status(store, "a", "b", "c") == ["pending", "cancelled", "cancelled"]
        assert job_of(store.replay(["b"], reset_attempts=False, actor="me")).reason is None
        assert status(store, "b") == ["blocked"]
        run(store, "a", Complete())
        run(store, "b", Complete())
        assert status(store, "a", "b", "c") == ["completed", "completed", "cancelled"]
        job_of(store.replay(["c"], reset_attempts=True, actor="me"))
        assert status(store, "c") == ["pending"]

    def test_dep_6_many_in_one_call_dependencies_first(self, store: Store) -> None:
        submit(store, draft("a"), after("b", "a", on_dependency_failure="fail"), after("c", "b"))
        run(store, "a", FATAL)
        answers = store.replay(["c", "b", "a", "b", "nobody"], reset_attempts=False, actor="me")
        assert [getattr(answer, "id", None) for answer in answers] == ["c", "b", "a", None, None]
        assert isinstance(answers[3], InvalidTransitionError)
        assert isinstance(answers[4], JobNotFoundError)
        assert status(store, "a", "b", "c") == ["pending", "blocked", "blocked"]
        run(store, "a", FATAL)
        assert status(store, "a", "b", "c") == ["dead", "dead", "cancelled"]

    def test_dep_6_a_replay_that_was_ignored_or_discarded(self, store: Store) -> None:
        submit(store, draft("a"), after("b", "a"), after("c", "a", on_dependency_failure="ignore"))
        store.cancel(["c"], reason="", actor="me")
        run(store, "a", FATAL)
        job_of(store.replay(["c"], reset_attempts=False, actor="me"))
        assert status(store, "c") == ["pending"]
        run(store, "c", Complete())
        job_of(store.discard(["a"], actor="me"))
        assert get(store, "b").depends_on == ("a",)
        # A new job under the old id is not the dependency.
        submit(store, draft("a"))
        job_of(store.replay(["b"], reset_attempts=False, actor="me"))
        assert status(store, "b") == ["pending"]

    def test_dep_6_a_replay_does_not_wait_for_an_old_delay(self, store: Store) -> None:
        submit(store, draft("a"), after("b", "a", delay_seconds=60))
        run(store, "a", FATAL)
        store.replay(["a", "b"], reset_attempts=False, actor="me")
        assert get(store, "b").run_at == store.now()
        run(store, "a", Complete())
        assert status(store, "b") == ["pending"]

    def test_dep_6_replayed_before_all_were_told(self, store: Store) -> None:
        """Dependents that were not told of its bad end go on waiting for the good one."""
        count = 2 * DEPENDENTS_AT_ONCE
        submit(store, draft("a"), *(after(f"b{number}", "a") for number in range(count)))
        lease = lease_one(store)
        # A call that asks for leases leaves the rest of a fan-out to the next write.
        nothing = LeaseRequest(worker="worker", queues=("empty",))
        store.exchange([Settlement("a", lease.version, Cancel("enough"))], nothing)
        job_of(store.replay(["a"], reset_attempts=False, actor="me"))
        assert status(store, "a") == ["pending"]
        counts = store.stats().counts
        assert counts[Status.CANCELLED] + counts[Status.BLOCKED] == count
        run(store, "a", Complete())
        after_it = store.stats().counts
        assert (after_it[Status.PENDING], after_it[Status.BLOCKED]) == (counts[Status.BLOCKED], 0)
        assert store.check() == []

    def test_dep_7_a_needed_job_cannot_be_discarded(self, store: Store) -> None:
        submit(store, draft("a"), after("b", "a"))
        run(store, "a", Complete())
        for _ in ("pending", "running"):
            (refused,) = store.discard(["a"], actor="me")
            assert isinstance(refused, InvalidTransitionError)
            assert "job b" in str(refused)
            lease_all(store)
        (lease,) = [each for each in store.attempts("b") if each.ended_at is None]
        store.exchange([Settlement("b", lease.lease_version, Complete())])
        assert job_of(store.discard(["a"], actor="me")).id == "a"
        assert get(store, "b").depends_on == ("a",)
        job_of(store.discard(["b"], actor="me"))
        assert store.check() == []

    # -- ids that are used again -----------------------------------------------------------------

    def test_dep_6_a_later_job_of_the_same_id_is_no_dependency(self, store: Store) -> None:
        submit(store, draft("a"), after("b", "a"))
        run(store, "a", Complete())
        run(store, "b", FATAL)
        job_of(store.discard(["a"], actor="me"))
        submit(store, draft("a"))
        job_of(store.cancel(["a"], reason="", actor="me"))
        job_of(store.replay(["b"], reset_attempts=False, actor="me"))
        assert status(store, "a", "b") == ["cancelled", "pending"]
        graph = store.graph(["b"])
        assert (list(graph.nodes), graph.edges) == (["b"], [])
        # Nor does the old dependent keep it.
        job_of(store.discard(["a"], actor="me"))
        assert store.check() == []
