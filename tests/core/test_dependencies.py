"""The rules of dependencies, against brute force."""

from __future__ import annotations

import graphlib
import itertools
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.core.model.graph import GraphNode, dependencies_first, graph_of
from leasehold.core.model.job import Draft
from leasehold.core.model.records import Submitted
from leasehold.core.model.status import Status
from leasehold.core.rules.dependencies import SubmitPlan, consequence, told
from leasehold.errors import (
    CycleError,
    DuplicateJobError,
    InvalidJobError,
    LeaseholdError,
    UnknownDependencyError,
)

NAMES = list("abcdefgh")


@st.composite
def links(draw: st.DrawFn) -> dict[str, list[str]]:
    """Some names, and what each depends on: cycles, repeats and itself included."""
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=8))
    return {
        name: draw(st.lists(st.sampled_from(names), max_size=3)) if names else [] for name in names
    }


@st.composite
def dags(draw: st.DrawFn) -> dict[str, list[str]]:
    names = draw(st.permutations(NAMES))
    return {
        name: draw(st.lists(st.sampled_from(names[:place]), unique=True)) if place else []
        for place, name in enumerate(names)
    }


def drafts_of(depends_on: Mapping[str, Sequence[str]]) -> list[Draft]:
    return [Draft(id=name, task="t", depends_on=tuple(needs)) for name, needs in depends_on.items()]


def plan(
    drafts: Sequence[Draft], verdicts: Sequence[Submitted | LeaseholdError | None] | None = None
) -> SubmitPlan:
    return SubmitPlan(drafts, verdicts or [None] * len(drafts), lambda name: name == "stored", {})


def behind(depends_on: Mapping[str, Sequence[str]], start: str) -> set[str]:
    """Whatever is reached from a name by one step or more."""
    reached: set[str] = set()
    todo = list(depends_on[start])
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            todo += depends_on[name]
    return reached


@given(links())
def test_cycles_are_found_and_nothing_else(depends_on: dict[str, list[str]]) -> None:
    judged = plan(drafts_of(depends_on))
    on_cycle = {name for name in depends_on if name in behind(depends_on, name)}
    doomed = {name for name in depends_on if behind(depends_on, name) & on_cycle}
    refused = {
        name
        for name, verdict in zip(depends_on, judged.verdicts, strict=True)
        if isinstance(verdict, LeaseholdError)
    }
    assert refused == doomed
    cyclic = {
        name
        for name, verdict in zip(depends_on, judged.verdicts, strict=True)
        if isinstance(verdict, CycleError)
    }
    assert cyclic <= on_cycle
    assert bool(cyclic) == bool(on_cycle)
    assert isinstance(judged.refusal, CycleError) if doomed else judged.refusal is None


@given(links())
def test_the_cycle_that_is_named_is_one(depends_on: dict[str, list[str]]) -> None:
    refusal = plan(drafts_of(depends_on)).refusal
    if refusal is not None:
        named = str(refusal).rpartition(": ")[2].split(" -> ")
        assert named[0] == named[-1]
        for name, needed in itertools.pairwise(named):
            assert needed in depends_on[name]


@given(dags(), st.sets(st.sampled_from(NAMES)))
def test_what_depends_on_a_refused_draft_is_refused(
    depends_on: dict[str, list[str]], bad: set[str]
) -> None:
    verdicts = [InvalidJobError(name) if name in bad else None for name in depends_on]
    judged = plan(drafts_of(depends_on), verdicts).verdicts
    for name, verdict in zip(depends_on, judged, strict=True):
        if name in bad:
            assert isinstance(verdict, InvalidJobError)
        elif behind(depends_on, name) & bad:
            assert isinstance(verdict, UnknownDependencyError)
        else:
            assert verdict is None


def test_a_duplicate_stands_for_the_first() -> None:
    first = Draft(id="first", task="t", depends_on=("stored",))
    again = Draft(id="again", task="t")
    last = Draft(id="last", task="t", depends_on=("again", "first", "stored"))
    duplicate = Submitted("first", Status.BLOCKED, is_duplicate=True)
    judged = plan([last, again, first], [None, duplicate, None])
    assert judged.verdicts == [None, duplicate, None]
    assert judged.needs == [("first", "stored"), (), ("stored",)]


def test_the_first_refusal_is_the_cause() -> None:
    drafts = drafts_of({"c": ["b"], "b": ["a"], "a": ["nobody"]})
    refusal = plan(drafts).refusal
    assert "a depends on nobody" in str(refusal)
    taken = DuplicateJobError("taken")
    assert plan(drafts_of({"b": ["a"], "a": []}), [None, taken]).refusal is taken


@given(dags())
def test_dependencies_come_first(depends_on: dict[str, list[str]]) -> None:
    order = dependencies_first(depends_on)
    place = {name: number for number, name in enumerate(order)}
    assert set(order) == set(depends_on)
    assert all(place[needed] < place[name] for name in order for needed in depends_on[name])
    assert len(order) == len(list(graphlib.TopologicalSorter(depends_on).static_order()))


def test_a_chain_may_be_longer_than_the_stack() -> None:
    names = [str(number) for number in range(20_000)]
    depends_on: dict[str, list[str]] = {"0": []}
    for needed, name in itertools.pairwise(names):
        depends_on[name] = [needed]
    assert dependencies_first(dict(reversed(depends_on.items()))) == names
    assert plan(drafts_of(dict(reversed(depends_on.items())))).refusal is None


@pytest.mark.parametrize("ended", [Status.COMPLETED, Status.DEAD, Status.CANCELLED])
def test_what_an_end_means(ended: Status) -> None:
    bad = ended is not Status.COMPLETED
    assert consequence("cancel", ended) is (Status.CANCELLED if bad else None)
    assert consequence("fail", ended) is (Status.DEAD if bad else None)
    assert consequence("ignore", ended) is None


def test_a_reason_does_not_grow_for_ever() -> None:
    reason = "a bug"
    for number in range(100):
        reason = told(f"job-{number}", Status.CANCELLED, reason)
    assert reason.startswith("dependency job-99 was cancelled: dependency job-98")
    assert len(reason) < 400


def test_where_the_trouble_began() -> None:
    def node(name: str, status: str, *needs: str, ended_by: str | None = None) -> GraphNode:
        return GraphNode(
            id=name, queue="q", task="t", status=Status(status), depends_on=needs, ended_by=ended_by
        )

    graph = graph_of(
        [
            node("d", "cancelled", "c", ended_by="c"),
            node("c", "cancelled", "b", "x", ended_by="b"),
            node("b", "dead"),
            node("x", "completed"),
            node("stopped", "cancelled", "x"),
            node("free", "completed", "b"),
        ]
    )
    assert graph.origin_of("d") == "b"
    assert graph.brought_down_by(["b"]) == ["b", "c", "d"]
    assert graph.brought_down_by(["x"]) == []
    assert graph.is_finished


@pytest.mark.parametrize(("jobs", "shown", "left_out"), [(19, 20, 0), (20, 20, 1), (25, 20, 6)])
def test_a_long_cycle_is_named_in_part(jobs: int, shown: int, left_out: int) -> None:
    """With the first job at its end again: whoever reads it sees that it is a circle."""
    ring = {f"j{n}": [f"j{(n + 1) % jobs}"] for n in range(jobs)}
    named = str(plan(drafts_of(ring)).refusal).rpartition(": ")[2].split(" -> ")
    rest = [name for name in named if name.endswith(" more)")]
    assert len(named) - len(rest) == shown
    assert rest == ([f"({left_out} more)"] if left_out else [])
    assert bool(rest) or named[0] == named[-1]
