"""Graphs of jobs: which job waits for which, and the status of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from leasehold.core.model.codes import POLICY_OF, STATUS_OF
from leasehold.core.model.job import DependencyPolicy
from leasehold.core.model.status import Status

_DOWN: Final = (Status.DEAD, Status.CANCELLED)


class GraphNode(msgspec.Struct, frozen=True, kw_only=True):
    """A job as a node of its graph."""

    id: str
    queue: str
    task: str
    status: Status
    depends_on: tuple[str, ...] = ()
    """Its dependencies, except those that no longer exist."""
    on_dependency_failure: DependencyPolicy = "cancel"
    reason: str | None = None
    """Why it was cancelled or declared dead."""
    ended_by: str | None = None
    """The dependency whose end cancelled this job or made it dead; None if no dependency did."""


class Graph(msgspec.Struct, frozen=True):
    """Jobs that are linked by dependencies, as they were at one moment."""

    nodes: dict[str, GraphNode]
    """By id, every dependency before its dependents."""

    @property
    def edges(self) -> list[tuple[str, str]]:
        """Every (dependency, dependent)."""
        return [(needed, node.id) for node in self.nodes.values() for needed in node.depends_on]

    @property
    def is_finished(self) -> bool:
        """Whether every job has ended, well or badly."""
        return all(node.status.is_terminal for node in self.nodes.values())

    def origin_of(self, job_id: str) -> str:
        """The job where the trouble began: this job itself, or the one whose end led to its own."""
        node = self.nodes[job_id]
        while node.ended_by is not None and node.ended_by in self.nodes:
            node = self.nodes[node.ended_by]
        return node.id

    def brought_down_by(self, job_ids: Iterable[str]) -> list[str]:
        """These jobs and all jobs that ended because of them, dependencies first.

        Only dead and cancelled jobs are included. A job that was replayed alone is not included,
        but the jobs that it left cancelled are.
        """
        causes = set(job_ids)
        for node in self.nodes.values():
            if node.status in _DOWN and node.ended_by in causes:
                causes.add(node.id)
        return [
            each.id for each in self.nodes.values() if each.id in causes and each.status in _DOWN
        ]

    def to_replay(self, job_ids: Iterable[str]) -> list[str]:
        """The jobs that a replay from these jobs concerns, dependencies first: where the trouble
        of each began, and all jobs that ended because of it.
        """
        named = set(job_ids)
        origins = {self.origin_of(each) for each in named if self.nodes[each].status in _DOWN}
        return self.brought_down_by(origins | named)


def graph_of(nodes: Iterable[GraphNode]) -> Graph:
    """A graph of these nodes, in order."""
    by_id = {node.id: node for node in nodes}
    order = dependencies_first({node.id: node.depends_on for node in by_id.values()})
    return Graph({job_id: by_id[job_id] for job_id in order})


def graph_of_rows(rows: Iterable[tuple[Any, ...]], links: Iterable[tuple[int, str]]) -> Graph:
    """A graph from table rows: for each job in order its number, id, queue, task, policy, the
    dependency that ended it, status and reason; and the dependent and id of each dependency.
    """
    depends_on: dict[int, list[str]] = {}
    for seq, needed_id in links:
        depends_on.setdefault(seq, []).append(needed_id)
    return graph_of(
        GraphNode(
            id=job_id,
            queue=queue,
            task=task,
            status=STATUS_OF[status],
            depends_on=tuple(depends_on.get(seq, ())),
            on_dependency_failure=POLICY_OF[policy or 0],
            reason=reason,
            ended_by=ended_by,
        )
        for seq, job_id, queue, task, policy, ended_by, status, reason in rows
    )


def dependencies_first(depends_on: Mapping[str, Iterable[str]]) -> list[str]:
    """The keys in an order in which every dependency comes before its dependents.

    Dependencies that are not keys are ignored. Otherwise the given order is kept.

    >>> dependencies_first({"c": ["a", "b"], "b": ["a"], "a": []})
    ['a', 'b', 'c']
    """
    order: dict[str, None] = {}
    for start in depends_on:
        # An explicit stack: a chain may be deeper than Python's recursion limit.
        stack = [start]
        while stack:
            job_id = stack[-1]
            missing = [
                needed
                for needed in depends_on[job_id]
                if needed in depends_on and needed not in order
            ]
            if job_id in order or not missing:
                order.setdefault(stack.pop())
            else:
                stack += reversed(missing)
    return list(order)


def order_of(job_ids: Sequence[str], depends_on: Mapping[str, Iterable[str]]) -> list[int]:
    """The indexes of these ids, in an order in which dependencies come first.

    >>> order_of(["b", "a"], {"b": ["a"]})
    [1, 0]
    """
    if not depends_on:
        return list(range(len(job_ids)))
    order = dependencies_first({job_id: depends_on.get(job_id, ()) for job_id in job_ids})
    rank = {job_id: number for number, job_id in enumerate(order)}
    return sorted(range(len(job_ids)), key=lambda place: rank[job_ids[place]])
