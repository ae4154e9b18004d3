"""The door of the ready table: every pending job enters and leaves here, and nowhere else.

Guard: a job's row is out of the other state tables when it enters, and goes into one of them in the
write in which it leaves. Whoever keeps account of pending jobs does it here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from leasehold.stores.sqlite.measuring import count_entered, count_left
from leasehold.stores.sqlite.step import Step

ENTER_NEW: Final = "INSERT INTO ready VALUES (?, ?, ?, 0, 0, 1, ?, ?)"
ENTER: Final = "INSERT INTO ready VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
LEAVE: Final = "DELETE FROM ready WHERE lane = ? AND rank = ? AND seq = ?"
LEAVE_BY_NUMBER: Final = """
    DELETE FROM ready WHERE (lane, rank, seq) IN (
        SELECT lane, 100 - priority, seq FROM job WHERE seq = ?)
    RETURNING lane, rank, seq
"""
MOVE: Final = """
    UPDATE ready SET rank = ?2 WHERE (lane, rank, seq) IN (
        SELECT lane, ?1, seq FROM job WHERE seq = ?3)
    RETURNING lane, ?1, seq
"""
COUNT_EVENT: Final = """
    UPDATE ready SET events = events + 1 WHERE (lane, rank, seq) IN (
        SELECT lane, 100 - priority, seq FROM job WHERE seq = ?)
"""

Newcomer = tuple[int, int, int, int, str | None]
"""lane, priority, number, available_at, parent_id of a job that was just submitted."""
Key = tuple[int, int, int]
"""lane, rank and number: where a row stands in the ready table."""


class Entry(NamedTuple):
    """A job that is pending again, or for the first time after it had to wait."""

    seq: int
    lane: int
    priority: int
    version: int
    attempts: int
    events: int
    available_at: int
    parent_id: str | None


def enter_new(step: Step, newcomers: Sequence[Newcomer]) -> None:
    """Let jobs in that were submitted in this very write; they are counted with the submitted."""
    rows = [(lane, 100 - priority, *rest) for lane, priority, *rest in newcomers]
    step.executemany(ENTER_NEW, rows)


def enter(step: Step, entries: Sequence[Entry]) -> None:
    """Let jobs in that come from elsewhere."""
    step.executemany(
        ENTER,
        [
            (
                each.lane,
                100 - each.priority,
                each.seq,
                each.version,
                each.attempts,
                each.events,
                each.available_at,
                each.parent_id,
            )
            for each in entries
        ],
    )
    for each in entries:
        count_entered(step.count, each.lane, each.priority, 1)


def leave(step: Step, keys: Sequence[Key]) -> None:
    """Take jobs out whose rows were just read."""
    step.executemany(LEAVE, keys)
    count_left(step.count, keys)


def leave_by_number(step: Step, seq: int) -> None:
    """Take one job out, wherever it stands."""
    left: list[Any] = step.execute(LEAVE_BY_NUMBER, (seq,)).fetchall()
    count_left(step.count, left)


def move(step: Step, seq: int, before: int, after: int) -> None:
    """Put a job where its new priority wants it."""
    moved: list[Any] = step.execute(MOVE, (100 - before, 100 - after, seq)).fetchall()
    count_left(step.count, moved)
    for lane, _, _ in moved:
        count_entered(step.count, lane, after, 1)


def count_event(step: Step, seq: int) -> None:
    """Count one more history event of a job that stays pending."""
    step.execute(COUNT_EVENT, (seq,))
