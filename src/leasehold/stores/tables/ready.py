"""The door of the ready table: every pending job enters, moves and leaves here, and nowhere else.

Guard: a job's row is out of the other state tables when it enters, and goes into one of them in the
write in which it leaves. Accounts of pending jobs are kept here.

`core.rules.placing` says where a job stands. Nearly all stand where their own row in `job` says;
only the others have a row in `place`. `tables.rebalance` has how jobs are placed anew.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar, Final

from leasehold.core.model.priority import DEFAULT_SCORING, Scoring
from leasehold.core.rules import key_accounts
from leasehold.core.rules.measuring import count_entered, count_left
from leasehold.core.rules.placing import PendingEntry, Standing, entering, moving
from leasehold.stores.tables.parking import TableKeyShelf
from leasehold.stores.tables.step import TableStep


def keys_of(which: str) -> str:
    """Selects the keys in `ready` of these jobs; `which` follows their number."""
    return f"""
        SELECT coalesce(place.lane, job.lane), coalesce(place.tier, (100 - priority) * 1000),
               coalesce(turn, created_at), job.seq
        FROM job LEFT JOIN place USING (seq) WHERE job.seq {which}
    """  # noqa: S608  # our own names


COUNT_EVENT: Final = f"""
    UPDATE ready SET events = events + 1 WHERE (lane, tier, turn, seq) IN ({keys_of("= $1")})
"""  # noqa: S608  # our own names
# A parked job does not stand in the lane it belongs to.
HOME: Final = "SELECT lane FROM job WHERE seq = $1"

Newcomer = tuple[int, int, int, int, str | None]
"""lane, priority, the time now, number and parent_id of a job that was just submitted."""
PendingJob = tuple[int, int, int]
"""number, lane and own priority of a job; a store that reads them anew does not go by the last."""


class TableReady(ABC):
    """The ready table in one write."""

    __slots__ = ("_step",)
    shelf: ClassVar[type[TableKeyShelf]]
    enter_rows: ClassVar[str]
    """For `many`, like the next two."""
    move_rows: ClassVar[str]
    remember_places: ClassVar[str]

    def __init__(self, step: Any) -> None:
        self._step: TableStep = step

    @abstractmethod
    def enter_new(self, newcomers: Sequence[Newcomer]) -> None:
        """Let jobs in that were submitted in this very write, each at its default place."""

    @abstractmethod
    def _take_out(self, jobs: Sequence[PendingJob]) -> Sequence[tuple[int, int]]:
        """Delete the rows of these jobs; answers the lane and priority of each."""

    @abstractmethod
    def _forget_places(self, seqs: Sequence[int]) -> None: ...

    def enter(self, entries: Sequence[PendingEntry]) -> None:
        """Let jobs in that come from elsewhere, or that need a place of their own."""
        step = self._step
        step.look_again()
        keys, places = entering(entries, step.now, cache(self._scoring_of))
        rows = [
            (*key, each.version, each.attempts, each.events, each.available_at, each.parent_id)
            for key, each in zip(keys, entries, strict=True)
        ]
        step.many(self.enter_rows, rows)
        step.many(self.remember_places, places)
        count_entered(step.count, [(each.lane, each.priority) for each in entries])
        if step.rules.key_limits:
            key_accounts.enter(self.shelf(step), keys)

    def left(self, counted: Sequence[tuple[int, int]], placed: Sequence[int]) -> None:
        """Count jobs out whose rows a lease has just taken.

        `counted` has the lane and priority of each; `placed` are those with a place of their own.
        """
        if placed:
            self._forget_places(placed)
        count_left(self._step.count, counted)

    def leave_by_numbers(self, jobs: Sequence[PendingJob]) -> None:
        """Take jobs out, wherever they stand."""
        step = self._step
        step.look_again()
        seqs = [seq for seq, *_ in jobs]
        shelf = self.shelf(step)
        counted = shelf.counted_among(seqs) if step.rules.key_limits else {}
        count_left(step.count, self._take_out(jobs))
        self._forget_places(seqs)
        key_accounts.left(shelf, counted.values())

    def reprioritize(self, before: Standing, priority: int) -> None:
        """Put a job where its new priority of its own wants it, and count it there."""
        step = self._step
        self.move([before._replace(priority=priority, base=priority)])
        home: Any = step.execute(HOME, (before.seq,)).fetchone()
        count_left(step.count, [(home[0], before.priority)])
        count_entered(step.count, [(home[0], priority)])

    def count_event(self, seq: int) -> None:
        """Count one more history event of a job that stays pending."""
        self._step.look_again()
        self._step.execute(COUNT_EVENT, (seq,))

    def move(self, standings: Sequence[Standing]) -> None:
        """Put pending jobs where they belong now, by the values given here."""
        step = self._step
        shelf = self.shelf(step)
        counted = shelf.counted_among([each.seq for each in standings])
        moves = moving(standings, counted, step.now, cache(self._scoring_of))
        step.look_again()
        step.many(self.move_rows, moves.moved)
        step.many(self.remember_places, moves.placed)
        if moves.unplaced:
            self._forget_places(moves.unplaced)
        if counted:
            key_accounts.moved(shelf, counted.values())

    def _scoring_of(self, lane: int) -> Scoring:
        """What counts in the queue of a lane."""
        step = self._step
        rule = step.rules.get(step.queue_of(lane) or "") if step.rules else None
        return DEFAULT_SCORING if rule is None else rule.config.scoring
