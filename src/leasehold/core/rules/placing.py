"""The places of pending jobs in a store of tables, and the writes that change them.

`core.model.priority` determines a job's place. Nearly all jobs stand where their own row says; only
the others have a row in `place`, so that each can be found by its number.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import NamedTuple

from leasehold.core.model.priority import Place, Scoring, default_place, place

RowKey = tuple[int, int, int, int]
"""lane, tier, turn and number: the place of a pending job."""
PlaceRow = tuple[int, int, int, int | None]
"""number, tier, turn and when it crosses into another tier."""


class PendingEntry(NamedTuple):
    """A job about to become pending, with every field that its place depends on."""

    seq: int
    lane: int
    priority: int
    base: int
    """Its own priority, or the higher one inherited from its dependents."""
    version: int
    attempts: int
    events: int
    available_at: int
    created_at: int
    deadline: int | None
    parent_id: str | None


class Standing(NamedTuple):
    """A pending job: its place, and every field that the place depends on."""

    lane: int
    tier: int
    turn: int
    seq: int
    attempts: int
    available_at: int
    priority: int
    base: int
    created_at: int
    deadline: int | None


class Moves(NamedTuple):
    """The writes that move pending jobs to their right places."""

    moved: list[tuple[int, int, int, int, int, int]]
    """The new tier and turn, and the old key of the row."""
    placed: list[PlaceRow]
    unplaced: list[int]
    """Jobs that no longer need a place of their own."""


def entering(
    entries: Sequence[PendingEntry], now: int, scoring_of: Callable[[int], Scoring]
) -> tuple[list[RowKey], list[PlaceRow]]:
    """The places at which new pending jobs enter; the second list has those with a `place` row."""
    keys: list[RowKey] = []
    places: list[PlaceRow] = []
    for each in entries:
        found = _place(each, now, scoring_of(each.lane))
        keys.append((each.lane, found.tier, found.turn, each.seq))
        if found != default_place(each.priority, each.created_at):
            places.append((each.seq, *found))
    return keys, places


def moving(
    jobs: Sequence[Standing],
    counted: Container[int],
    now: int,
    scoring_of: Callable[[int], Scoring],
) -> Moves:
    """The writes that move pending jobs to where they belong now. Jobs counted for their keys
    always have a `place` row, since it names the key.
    """
    moves = Moves([], [], [])
    for each in jobs:
        found = _place(each, now, scoring_of(each.lane))
        if found[:2] != (each.tier, each.turn):
            moves.moved.append((found.tier, found.turn, *each[:4]))
        if found != default_place(each.priority, each.created_at) or each.seq in counted:
            moves.placed.append((each.seq, *found))
        else:
            moves.unplaced.append(each.seq)
    return moves


def _place(job: PendingEntry | Standing, now: int, scoring: Scoring) -> Place:
    return place(
        job.base, job.attempts, job.available_at, job.created_at, job.deadline, now, scoring
    )
