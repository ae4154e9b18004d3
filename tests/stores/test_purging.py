"""Purging jobs that others wait for: random graphs on both stores, against an oracle."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.core.contract.store import Store
from leasehold.core.model.job import DependencyPolicy, Draft
from leasehold.core.model.lease import LeaseRequest
from leasehold.core.model.queue_config import QueueConfig
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Event, Status
from leasehold.env import Env, ManualClock
from leasehold.stores.memory import MemoryStore, dependents
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.writing.database import Database
from leasehold.stores.tables.step import TableStep
from leasehold.testing.conformance.base import assert_history_replays
from support.effort import drawn

QUEUES = ("a", "b")


class Node:
    """One job of a random graph."""

    def __init__(
        self, needs: list[int], policy: DependencyPolicy, queue: str, task: str, delay: float
    ) -> None:
        self.needs = needs
        self.policy: DependencyPolicy = policy
        self.queue = queue
        self.task = task
        self.delay = delay

    def __repr__(self) -> str:
        return f"Node({self.needs}, {self.policy!r}, {self.queue!r}, {self.task!r}, {self.delay})"

    def draft(self, place: int) -> Draft:
        return Draft(
            id=f"j{place}",
            queue=self.queue,
            task=self.task,
            delay_seconds=self.delay,
            idempotency_key=f"k{place}",
            depends_on=tuple(f"j{needed}" for needed in self.needs),
            on_dependency_failure=self.policy,
        )


@st.composite
def graphs(draw: st.DrawFn) -> list[Node]:
    nodes: list[Node] = []
    for place in range(draw(st.integers(1, 14))):
        needs = draw(st.lists(st.integers(0, place - 1), unique=True, max_size=4)) if place else []
        policy: DependencyPolicy = draw(st.sampled_from(["cancel", "fail", "ignore"]))
        queue = draw(st.sampled_from(QUEUES))
        delay = draw(st.sampled_from([0, 0, 60]))
        nodes.append(Node(needs, policy, queue, draw(st.sampled_from("tu")), delay))
    return nodes


def fate(nodes: list[Node], is_purged: Callable[[Node], bool]) -> list[Status | None]:
    """The oracle: what a purge leaves of each, None for what it deletes."""
    left: list[Status | None] = []
    for node in nodes:
        if is_purged(node):
            left.append(None)
            continue
        bad = [needed for needed in node.needs if left[needed] in (None, *ENDED)]
        if bad and node.policy != "ignore":
            left.append(Status.DEAD if node.policy == "fail" else Status.CANCELLED)
        elif len(bad) < len(node.needs):
            left.append(Status.BLOCKED)
        else:
            left.append(Status.SCHEDULED if node.delay else Status.PENDING)
    return left


ENDED = (Status.DEAD, Status.CANCELLED)


@contextmanager
def opened(kind: str, at_once: int) -> Iterator[Store]:
    env = Env(clock=ManualClock(), random=Random(7))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(TableStep, "dependents_left", at_once)
        patch.setattr(dependents, "DEPENDENTS_AT_ONCE", at_once)
        store: Store = (
            MemoryStore(env)
            if kind == "memory"
            else SQLiteStore(Path(folder) / "jobs.db", env=env, durability="normal")
        )
        try:
            yield store
        finally:
            store.close()


def purge_all(store: Store, queue: str, where: JobFilter, page: int) -> int:
    purged = 0
    while True:
        answer = store.purge_queue(queue, where, actor="eve", limit=page)
        assert store.check() == []
        purged += answer.purged
        if not answer.more:
            return purged


def nobody_waits_in_vain(store: Store) -> None:
    """Whoever is blocked waits for a job that is there and has not ended."""
    for job in store.search(JobFilter(statuses=(Status.BLOCKED,))).jobs:
        needed = [store.get(job_id) for job_id in job.depends_on]
        assert any(each is not None and not each.is_terminal for each in needed), job.id


@pytest.mark.parametrize("at_once", [1, 500])
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_purge_leaves_what_the_oracle_says(kind: str, at_once: int) -> None:
    @settings(max_examples=drawn(60), deadline=None)
    @given(graphs(), st.sampled_from([1, 2, 100]), st.booleans())
    def check(nodes: list[Node], page: int, narrowed: bool) -> None:
        with opened(kind, at_once) as store:
            store.submit([node.draft(place) for place, node in enumerate(nodes)])
            where = JobFilter(tasks=("t",)) if narrowed else JobFilter()
            expected = fate(
                nodes, lambda node: node.queue == "a" and (node.task == "t" or not narrowed)
            )
            purged = purge_all(store, "a", where, page)
            assert purged == expected.count(None)
            for place, status in enumerate(expected):
                job = store.get(f"j{place}")
                assert (None if job is None else job.status) is status, f"j{place}"
                if job is not None:
                    assert_history_replays(store, job)
                    ends = [event for event in store.history(job.id) if event.after in ENDED]
                    assert len(ends) == (job.status in ENDED), "the policy was applied twice"
            nobody_waits_in_vain(store)
            stats = store.stats()
            gone = expected.count(Status.CANCELLED)
            assert (stats.cleaned, stats.cancelled) == (purged, purged + gone)
            # What is deleted is gone for good: its id and its key are free again.
            again = [node.draft(place) for place, node in enumerate(nodes) if not expected[place]]
            for draft in again:
                free = Draft(id=draft.id, task="t", idempotency_key=draft.idempotency_key)
                [answer] = store.submit([free])
                assert not getattr(answer, "is_duplicate", True)
            assert store.check() == []

    check()


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_whatever_the_order_nobody_waits_in_vain(kind: str) -> None:
    """Dependents submitted before what they wait for, in the same call, are met after it."""

    @settings(max_examples=drawn(60), deadline=None)
    @given(graphs(), st.integers(0, 2**32), st.sampled_from([1, 2, 100]))
    def check(nodes: list[Node], seed: int, page: int) -> None:
        with opened(kind, 1) as store:
            drafts = [node.draft(place) for place, node in enumerate(nodes)]
            Random(seed).shuffle(drafts)
            store.submit(drafts)
            purge_all(store, "a", JobFilter(), page)
            waiting = JobFilter(
                queues=("a",), statuses=(Status.PENDING, Status.BLOCKED, Status.SCHEDULED)
            )
            assert store.search(waiting).jobs == []
            nobody_waits_in_vain(store)
            assert store.check() == []

    check()


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_what_runs_and_depends_on_nobody_any_more_is_left_alone(kind: str) -> None:
    """A dependent that ignores the purge goes on without it, and is listed with what it had."""
    with opened(kind, 500) as store:
        first, other = Draft(id="first", task="t", queue="a"), Draft(id="other", task="t")
        waits = Draft(
            id="waits", task="t", depends_on=("first", "other"), on_dependency_failure="ignore"
        )
        store.submit([first, other, waits])
        assert store.purge_queue("a", JobFilter(), actor="eve").purged == 1
        job = store.get("waits")
        assert job is not None
        assert job.status is Status.BLOCKED
        assert job.depends_on == ("first", "other")
        # Another job under that id has nothing to do with it, and may come and go.
        store.submit([Draft(id="first", task="t", queue="a")])
        store.cancel(["first"], reason="enough", actor="eve")
        [gone] = store.discard(["first"], actor="eve")
        assert getattr(gone, "id", None) == "first"
        assert store.check() == []
        assert list(store.graph(["waits"]).nodes["waits"].depends_on) == ["other"]


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_fan_out_too_large_for_one_write_is_purged_all_the_same(kind: str) -> None:
    with opened(kind, 3) as store:
        many = [
            Draft(id=f"w{number}", task="t", queue="b", depends_on=("root",))
            for number in range(20)
        ]
        store.submit([Draft(id="root", task="t", queue="a"), *many])
        answer = store.purge_queue("a", JobFilter(), actor="eve")
        assert (answer.purged, answer.more) == (1, False)
        assert store.get("root") is None
        assert store.stats().counts[Status.CANCELLED] == 20
        job = store.get("w7")
        assert job is not None
        assert job.reason == "dependency root was cancelled: purged by eve"
        assert [event.event for event in store.history("w7")] == [Event.CREATED, Event.CANCELLED]
        assert store.check() == []


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_what_is_replayed_before_its_purge_is_over_stays(kind: str) -> None:
    """Its dependents are too many for one write, and a person changes their mind meanwhile."""
    with opened(kind, 1) as store:
        many = [Draft(id=f"w{number}", task="t", depends_on=("root",)) for number in range(5)]
        store.submit([Draft(id="root", task="t", queue="a"), *many])
        with pytest.MonkeyPatch.context() as patch:
            # As if the process had died after the first write of the purge.
            patch.setattr(Database, "_resolve_the_rest", lambda _: None)
            patch.setattr(MemoryStore, "_resolve_the_rest", lambda _: None)
            store.purge_queue("a", JobFilter(), actor="eve")
            store.replay(["root"], reset_attempts=False, actor="eve")
        assert store.stats("default").counts[Status.BLOCKED] == 4
        [lease] = store.exchange((), LeaseRequest(worker="w", queues=("a",))).leases
        assert lease.job_id == "root"
        assert store.get("root") is not None
        assert store.check() == []


def test_a_full_memory_store_may_be_purged() -> None:
    """What ends in a purge is deleted by it, and not forgotten before that to make room."""
    store = MemoryStore(Env(clock=ManualClock(), random=Random(7)), capacity=1)
    store.submit([Draft(id="old", task="t", queue="a")])
    store.create_queue("b", QueueConfig(), actor="me")
    store._state.capacity = 2
    store.submit([Draft(id="new", task="t", queue="b")])
    store._state.capacity = 1
    store.cancel(["new"], reason="enough", actor="me")
    assert store.purge_queue("a", JobFilter(), actor="me").purged == 1
    assert store.check() == []
    assert store.get("new") is not None
