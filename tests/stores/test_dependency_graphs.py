"""Random graphs on both stores, against an oracle that knows nothing of how a store works."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.core.contract.store import Store
from leasehold.core.model.job import DependencyPolicy, Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Cancel, Complete, Fail, JobError, Outcome
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Event, Status
from leasehold.env import Env, ManualClock
from leasehold.errors import LeaseholdError
from leasehold.stores.memory import MemoryStore, dependents
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.tables.step import TableStep
from leasehold.testing.conformance.base import assert_history_replays
from support.effort import drawn

OUTCOMES: dict[str, Outcome] = {
    "completed": Complete(),
    "dead": Fail(JobError("ValueError", "a bug"), retryable=False),
    "cancelled": Cancel("enough"),
}


class Node:
    """One job of a random graph."""

    def __init__(self, needs: list[int], policy: DependencyPolicy, end: str, wave: int) -> None:
        self.needs = needs
        self.policy: DependencyPolicy = policy
        self.end = end
        """How it ends, if it ever runs."""
        self.wave = wave
        """In which call it is submitted."""

    def __repr__(self) -> str:
        return f"Node({self.needs}, {self.policy!r}, {self.end!r}, {self.wave})"


@st.composite
def graphs(draw: st.DrawFn) -> list[Node]:
    nodes: list[Node] = []
    for place in range(draw(st.integers(1, 12))):
        needs = draw(st.lists(st.integers(0, place - 1), unique=True, max_size=4)) if place else []
        policy: DependencyPolicy = draw(st.sampled_from(["cancel", "fail", "ignore"]))
        end = draw(st.sampled_from(["completed", "completed", "dead", "cancelled"]))
        # Not before what it needs, so that this is there, or comes in the same call.
        wave = max([draw(st.integers(0, 2)), *(nodes[needed].wave for needed in needs)])
        nodes.append(Node(needs, policy, end, wave))
    return nodes


def ends(nodes: list[Node]) -> list[str]:
    """The oracle: what must become of each, told from its dependencies' ends alone."""
    found: list[set[str]] = []
    for node in nodes:
        bad = [end for needed in node.needs for end in found[needed] if end != "completed"]
        if bad and node.policy != "ignore":
            found.append({"dead" if node.policy == "fail" else "cancelled"})
        else:
            found.append({node.end})
    return [end for (end,) in found]


def runs(nodes: list[Node]) -> set[int]:
    """Those that must have been leased."""
    told = ends(nodes)
    return {
        place
        for place, node in enumerate(nodes)
        if node.policy == "ignore" or all(told[needed] == "completed" for needed in node.needs)
    }


def play(store: Store, nodes: list[Node], random: Random) -> dict[str, int]:
    """Submit wave by wave, in any order, and run what is available in between."""
    leased: dict[str, int] = {}
    for wave in range(3):
        drafts = [
            Draft(
                id=f"j{place}",
                task="t",
                depends_on=tuple(f"j{needed}" for needed in node.needs),
                on_dependency_failure=node.policy,
            )
            for place, node in enumerate(nodes)
            if node.wave == wave
        ]
        random.shuffle(drafts)
        store.submit(drafts)
        turns = random.randint(0, 4) if wave < 2 else 1000
        held: list[Settlement] = []
        for _ in range(turns):
            answer = store.exchange(held, LeaseRequest(worker="w", limit=random.randint(1, 3)))
            held = []
            for lease in answer.leases:
                place = int(lease.job_id[1:])
                leased[lease.job_id] = len(leased)
                for needed in nodes[place].needs:
                    job = store.get(f"j{needed}")
                    assert job is not None
                    assert job.is_terminal, f"{lease.job_id} was leased before {job.id} had ended"
                held.append(Settlement(lease.job_id, lease.version, OUTCOMES[nodes[place].end]))
            waiting = store.stats().counts
            if wave == 2 and not held and not waiting[Status.PENDING] + waiting[Status.BLOCKED]:
                break
            assert store.check() == []
        store.exchange(held)
    return leased


def examine(store: Store, nodes: list[Node], leased: dict[str, int]) -> None:
    told = ends(nodes)
    for place, node in enumerate(nodes):
        job = store.get(f"j{place}")
        assert job is not None
        assert job.status.value == told[place], (place, job.reason)
        assert_history_replays(store, job)
        happened = [event.event for event in store.history(job.id)]
        ended = [event for event in happened if event in (Event.CANCELLED, Event.DEAD)]
        assert len(ended) <= 1, "the policy was applied twice"
        assert happened.count(Event.UNBLOCKED) <= 1
        assert (place in runs(nodes)) == (job.id in leased)
        graph = store.graph([job.id])
        by_policy = place not in runs(nodes)
        assert (graph.nodes[job.id].ended_by is not None) == by_policy
        assert set(graph.nodes[job.id].depends_on) == {f"j{needed}" for needed in node.needs}
    assert store.check() == []
    counts = store.stats().counts
    assert counts.get(Status.BLOCKED, 0) == 0


@pytest.fixture(params=[1, 500])
def at_once(request: pytest.FixtureRequest) -> int:
    """How many dependents one write deals with: with 1, every fan-out takes several."""
    return int(request.param)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_every_job_ends_as_the_oracle_says(kind: str, at_once: int) -> None:
    @settings(max_examples=drawn(60), deadline=None)
    @given(graphs(), st.integers(0, 2**32))
    def check(nodes: list[Node], seed: int) -> None:
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
                examine(store, nodes, play(store, nodes, Random(seed)))
            finally:
                store.close()

    check()


ids = st.sampled_from([f"j{number}" for number in range(7)])
verbs = st.one_of(
    st.tuples(
        st.just("submit"),
        st.lists(st.tuples(ids, st.lists(ids, max_size=3)), min_size=1, max_size=4),
        st.sampled_from(["cancel", "fail", "ignore"]),
        st.booleans(),
    ),
    st.tuples(st.just("run"), st.integers(1, 3), st.sampled_from(sorted(OUTCOMES))),
    st.tuples(st.just("cancel"), st.lists(ids, min_size=1, max_size=3)),
    st.tuples(st.just("replay"), st.lists(ids, min_size=1, max_size=5)),
    st.tuples(st.just("discard"), st.lists(ids, min_size=1, max_size=3)),
)


def apply(store: Store, verb: tuple[Any, ...]) -> list[Any]:
    """Do it, and say how each part of it was answered."""
    match verb:
        case "submit", links, policy, partial:
            drafts = [
                Draft(id=id_, task="t", depends_on=tuple(needs), on_dependency_failure=policy)
                for id_, needs in links
            ]
            try:
                answers: list[Any] = list(store.submit(drafts, partial=partial))
            except LeaseholdError as error:
                answers = [error]
        case "run", limit, outcome:
            leases = store.exchange((), LeaseRequest(worker="w", limit=limit)).leases
            store.exchange(
                [Settlement(each.job_id, each.version, OUTCOMES[outcome]) for each in leases]
            )
            answers = [lease.job_id for lease in leases]
        case "cancel", job_ids:
            answers = list(store.cancel(job_ids, reason="enough", actor="me"))
        case "replay", job_ids:
            answers = list(store.replay(job_ids, reset_attempts=False, actor="me"))
        case _, job_ids:
            answers = list(store.discard(job_ids, actor="me"))
    # Where a new job stands by the end of its own write is not the same, if several were needed.
    return [
        type(answer) if isinstance(answer, LeaseholdError) else getattr(answer, "id", answer)
        for answer in answers
    ]


def picture(store: Store) -> dict[str, Any]:
    """Every job and its links, as far as both stores say the same about them."""
    assert store.check() == []
    jobs = store.search(JobFilter()).jobs
    for job in jobs:
        assert_history_replays(store, job)
    graph = store.graph([job.id for job in jobs])
    return {
        job.id: (job.status, job.depends_on, job.run_at, graph.nodes[job.id].depends_on)
        for job in jobs
    }


@pytest.mark.parametrize("at_once", [1, 500], indirect=True)
def test_both_stores_do_the_same(at_once: int) -> None:
    @settings(max_examples=drawn(75), deadline=None)
    @given(st.lists(verbs, max_size=25))
    def check(script: list[tuple[Any, ...]]) -> None:
        clock = ManualClock()
        with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
            patch.setattr(TableStep, "dependents_left", at_once)
            patch.setattr(dependents, "DEPENDENTS_AT_ONCE", at_once)
            memory = MemoryStore(Env(clock=clock, random=Random(7)))
            sqlite = SQLiteStore(
                Path(folder) / "jobs.db",
                env=Env(clock=clock, random=Random(7)),
                durability="normal",
            )
            try:
                for verb in script:
                    clock.advance(1)
                    assert apply(memory, verb) == apply(sqlite, verb), verb
                    assert picture(memory) == picture(sqlite), verb
            finally:
                sqlite.close()

    check()
