"""The graph of a job's dependencies as a picture: who waits for whom, from left to right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from leasehold.core.model.graph import Graph, GraphNode

NODES_MAX: Final = 60
"""A larger graph is shown around the job only."""
WIDTH: Final = 152
HEIGHT: Final = 40
GAP_X: Final = 40
GAP_Y: Final = 16


@dataclass(frozen=True)
class Placed:
    """A job in the picture."""

    node: GraphNode
    x: int
    y: int
    is_this: bool


@dataclass(frozen=True)
class Picture:
    """Boxes and the lines between them."""

    boxes: list[Placed]
    lines: list[str]
    width: int
    height: int
    left_out: int


def picture(graph: Graph, job_id: str, *, marked: bool = True) -> Picture | None:
    """The picture around a job, which is marked in it; None if nothing is linked with it."""
    if len(graph.nodes) < 2:
        return None
    chosen = _near(graph, job_id)
    column: dict[str, int] = {}
    for name in chosen:
        needed = [column[each] for each in graph.nodes[name].depends_on if each in column]
        column[name] = max(needed, default=-1) + 1
    rows: dict[int, int] = {}
    boxes: dict[str, Placed] = {}
    for name in chosen:
        row = rows.get(column[name], 0)
        rows[column[name]] = row + 1
        x, y = column[name] * (WIDTH + GAP_X), row * (HEIGHT + GAP_Y)
        boxes[name] = Placed(graph.nodes[name], x, y, marked and name == job_id)
    lines = [
        _line(boxes[before], boxes[after])
        for before, after in graph.edges
        if before in boxes and after in boxes
    ]
    return Picture(
        list(boxes.values()),
        lines,
        (max(column.values()) + 1) * (WIDTH + GAP_X) - GAP_X,
        max(rows.values()) * (HEIGHT + GAP_Y) - GAP_Y,
        len(graph.nodes) - len(boxes),
    )


def _near(graph: Graph, job_id: str) -> list[str]:
    """The jobs to show, dependencies first: all of them, or the nearest to this job."""
    if len(graph.nodes) <= NODES_MAX:
        return list(graph.nodes)
    neighbours: dict[str, list[str]] = {}
    for before, after in graph.edges:
        neighbours.setdefault(before, []).append(after)
        neighbours.setdefault(after, []).append(before)
    found = {job_id}
    edge = [job_id]
    while edge and len(found) < NODES_MAX:
        edge = [name for each in edge for name in neighbours.get(each, ()) if name not in found]
        found.update(edge[: NODES_MAX - len(found)])
    return [name for name in graph.nodes if name in found]


def _line(before: Placed, after: Placed) -> str:
    x1, y1 = before.x + WIDTH, before.y + HEIGHT // 2
    x2, y2 = after.x, after.y + HEIGHT // 2
    bend = (x1 + x2) // 2
    return f"M{x1} {y1}C{bend} {y1} {bend} {y2} {x2} {y2}"
