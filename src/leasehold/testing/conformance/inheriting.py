"""INH: a job is as urgent as its most urgent dependent."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leasehold.core.contract.store import Store
from leasehold.core.model.budget import INHERITED_AT_ONCE
from leasehold.core.model.job import Draft
from leasehold.core.model.outcome import Complete
from leasehold.core.model.queue_config import QueueConfig
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.env import Env, ManualClock
from leasehold.testing.conformance.base import (
    FATAL,
    ConformanceBase,
    MakeStore,
    draft,
    get,
    lease_all,
    lease_one,
    settle,
    submit,
)

Links = dict[str, tuple[str, ...]]


def after(job_id: str, *needed: str, priority: int = 50, **options: object) -> Draft:
    """A job that waits for others."""
    return draft(job_id, depends_on=needed, priority=priority, **options)


def inherited(store: Store, *job_ids: str) -> list[int | None]:
    return [get(store, job_id).inherited_priority for job_id in job_ids]


def expected_bases(own: dict[str, int], links: Links, waiting: set[str]) -> dict[str, int]:
    """The oracle: let every waiting job raise its dependencies until nothing changes."""
    bases = dict(own)
    changed = True
    while changed:
        changed = False
        for job_id in waiting:
            for needed in links.get(job_id, ()):
                if bases[needed] < bases[job_id]:
                    bases[needed] = bases[job_id]
                    changed = True
    return bases


graphs = st.lists(
    st.tuples(st.integers(0, 100), st.sets(st.integers(0, 11), max_size=3)), min_size=2, max_size=12
)
changes = st.lists(
    st.tuples(st.sampled_from(["cancel", "reprioritize", "run"]), st.integers(0, 11),
              st.integers(0, 100)),
    max_size=8,
)  # fmt: skip


class InheritingClauses(ConformanceBase):
    def test_inh_1_what_the_urgent_wait_for_is_urgent(self, store: Store) -> None:
        submit(store, draft("needed", priority=10), draft("other"))
        submit(store, after("urgent", "needed", priority=90))
        assert inherited(store, "needed", "other", "urgent") == [90, None, None]
        assert get(store, "needed").priority == 10
        assert [lease.job_id for lease in lease_all(store)] == ["needed", "other"]
        assert inherited(store, "needed") == [90]

    def test_inh_1_however_far_away(self, store: Store) -> None:
        submit(
            store,
            draft("d", priority=10), after("c", "d", priority=95), after("b", "c", priority=20),
            after("a", "b", priority=80), draft("x"),
        )  # fmt: skip
        assert inherited(store, "d", "c", "b", "a") == [95, None, 80, None]
        store.reprioritize("a", 99, actor="me")
        assert inherited(store, "d", "c", "b", "a") == [99, 99, 99, None]
        assert lease_one(store).job_id == "d"

    def test_inh_1_in_any_status(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("later", delay_seconds=5, priority=10), draft("other", priority=60))
        submit(store, draft("held", priority=99, max_retries=3))
        held = lease_one(store)
        submit(store, after("urgent", "later", priority=90), after("most", "held", priority=100))
        clock.advance(5)
        assert inherited(store, "later", "held") == [90, 100]
        store.recover_one("held", held.version, reset_attempts=False, reason="stuck")
        assert inherited(store, "held") == [100]
        assert [lease.job_id for lease in lease_all(store)] == ["held", "later", "other"]

    def test_inh_1_it_lasts_until_the_end(self, store: Store) -> None:
        submit(store, draft("needed", priority=10), after("urgent", "needed", priority=90))
        settle(store, lease_one(store), Complete())
        assert inherited(store, "needed") == [None]
        assert lease_one(store).job_id == "urgent"
        assert store.check() == []

    def test_inh_1_a_queues_highest_priority_counts(self, store: Store) -> None:
        store.create_queue("default", QueueConfig(max_priority=40), actor="me")
        submit(store, draft("first", priority=40), draft("needed", priority=10))
        submit(store, after("urgent", "needed", priority=90))
        assert [lease.job_id for lease in lease_all(store)] == ["first", "needed"]

    def test_inh_1_a_replayed_job_waits_with_its_priority(self, store: Store) -> None:
        submit(store, draft("needed", priority=10), after("urgent", "needed", priority=90))
        settle(store, lease_one(store), FATAL)
        assert get(store, "urgent").status is Status.CANCELLED
        assert inherited(store, "needed") == [None]
        store.replay(["urgent", "needed"], reset_attempts=True, actor="me")
        assert inherited(store, "needed") == [90]
        assert store.check() == []

    def test_inh_2_it_falls_back_when_nobody_raises_it(self, store: Store) -> None:
        submit(store, draft("needed", priority=10), draft("other", priority=30))
        submit(
            store,
            after("some", "needed", priority=20), after("urgent", "needed", priority=90),
            after("most", "urgent", priority=95),
        )  # fmt: skip
        assert inherited(store, "needed", "urgent") == [95, 95]
        store.cancel(["most"], reason="enough", actor="me")
        assert inherited(store, "needed", "urgent") == [90, None]
        store.reprioritize("urgent", 15, actor="me")
        assert inherited(store, "needed", "urgent") == [20, None]
        assert [lease.job_id for lease in lease_all(store)] == ["other", "needed"]

    def test_inh_2_also_when_another_dependency_ended_it(self, store: Store) -> None:
        submit(store, draft("bad", priority=80), draft("needed", priority=10))
        submit(store, after("urgent", "bad", "needed", priority=90))
        settle(store, lease_one(store), FATAL)
        assert get(store, "urgent").status is Status.CANCELLED
        assert inherited(store, "needed") == [None]
        assert store.check() == []

    def test_inh_2_all_may_go_at_once(self, store: Store) -> None:
        submit(store, draft("needed", priority=10), after("urgent", "needed", priority=90))
        submit(store, draft("kept", queue="other", priority=10))
        submit(store, after("most", "kept", priority=90))
        assert store.purge_queue("default", JobFilter(), actor="me").purged == 3
        assert inherited(store, "kept") == [None]
        assert store.check() == []

    def test_inh_3_what_concerns_very_many_is_done_in_the_end(self, store: Store) -> None:
        count = 2 * INHERITED_AT_ONCE + 1
        names = [f"{number}" for number in range(count)]
        submit(store, *(draft(name, priority=10) for name in names))
        submit(store, after("last", *names, priority=10))
        changes: list[tuple[Callable[[], object], int | None]] = [
            (lambda: store.reprioritize("last", 90, actor="me"), 90),
            (lambda: store.reprioritize("last", 5, actor="me"), None),
            (lambda: store.reprioritize("last", 80, actor="me"), 80),
            (lambda: store.cancel(["last"], reason="enough", actor="me"), None),
        ]
        for change, expected in changes:
            change()
            for _ in range(count // INHERITED_AT_ONCE + 1):
                store.promote()
            # In one look: to ask for each of so many takes long.
            found = store.search(JobFilter(), limit=count + 1).jobs
            assert len(found) == count + 1
            raised = {job.inherited_priority for job in found if job.id != "last"}
            assert raised == {expected}
            assert store.check() == []

    @settings(
        max_examples=25,
        deadline=None,
        suppress_health_check=[
            HealthCheck.function_scoped_fixture,
            HealthCheck.differing_executors,
            HealthCheck.too_slow,
        ],
    )
    @given(graph=graphs, changes=changes)
    def test_inh_2_the_bases_are_the_oracles(
        self,
        make_store: MakeStore,
        graph: list[tuple[int, set[int]]],
        changes: list[tuple[str, int, int]],
    ) -> None:
        store = make_store(Env(clock=ManualClock(), random=Random(7)))
        own = {f"{number}": priority for number, (priority, _) in enumerate(graph)}
        links: Links = {
            f"{number}": tuple(f"{needed}" for needed in sorted(needs) if needed < number)
            for number, (_, needs) in enumerate(graph)
        }
        submit(store, *(after(name, *links[name], priority=own[name]) for name in own))
        self._check(store, own, links)
        for verb, number, priority in changes:
            name = f"{number % len(graph)}"
            if verb == "run":
                for lease in lease_all(store, limit=1):
                    settle(store, lease, Complete())
            elif verb == "cancel" and get(store, name).status is Status.BLOCKED:
                store.cancel([name], reason="enough", actor="me")
            elif get(store, name).status in (Status.BLOCKED, Status.PENDING):
                store.reprioritize(name, priority, actor="me")
                own[name] = priority
            self._check(store, own, links)
        store.close()

    @staticmethod
    def _check(store: Store, own: dict[str, int], links: Links) -> None:
        jobs = {name: get(store, name) for name in own}
        waiting = {name for name, job in jobs.items() if job.status is Status.BLOCKED}
        bases = expected_bases(own, links, waiting)
        for name, job in jobs.items():
            if not job.is_terminal:
                assert (job.inherited_priority or job.priority) == bases[name], name
        assert store.check() == []
