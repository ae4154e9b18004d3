"""Whether all dependents of a job have ended, so that it may be deleted (DEP-7).

There may be very many dependents. So each write checks some, and a store of tables records how far
it has got: dependents before that mark are not visited again, unless one of them is replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Protocol

from leasehold.core.model.budget import DEPENDENTS_LOOKED_AT_ONCE


class DependentsBook(Protocol):
    """The dependents of a job that were not visited yet; jobs are identified by number."""

    def next(self, seq: int, limit: int) -> Sequence[tuple[int, bool]]:
        """The next dependents, in order of their numbers, and whether each has ended."""

    def looked_up_to(self, seq: int, dependent: int) -> None:
        """Record that all dependents up to this number have ended."""

    def how_many(self, seqs: Sequence[int], limit: int) -> int:
        """How many dependents these jobs have together, counted up to the limit."""


def is_crowded(book: DependentsBook, seq: int) -> bool:
    """Whether a job has as many as one write may check: other writes must go through them first."""
    return len(book.next(seq, DEPENDENTS_LOOKED_AT_ONCE)) == DEPENDENTS_LOOKED_AT_ONCE


def look_through(look: Callable[[], int]) -> None:
    """Check all dependents of a crowded job; each call is a write that checks some."""
    while look() == DEPENDENTS_LOOKED_AT_ONCE:
        pass


def look_at_some(book: DependentsBook, seq: int) -> int:
    """Check some further dependents of a job; returns how many have ended in sequence."""
    return _look_at(book, seq, DEPENDENTS_LOOKED_AT_ONCE)


def _look_at(book: DependentsBook, seq: int, limit: int) -> int:
    ended = [dependent for dependent, _ in takewhile(lambda row: row[1], book.next(seq, limit))]
    if ended:
        book.looked_up_to(seq, ended[-1])
    return len(ended)


def within_budget(book: DependentsBook, seqs: Sequence[int]) -> Sequence[int]:
    """The given jobs whose dependents one write can check."""
    limit = DEPENDENTS_LOOKED_AT_ONCE
    if book.how_many(seqs, limit + 1) <= limit:
        return seqs
    found = []
    for seq in seqs:
        ended = _look_at(book, seq, limit + 1)
        if ended <= limit:
            found.append(seq)
        limit = max(0, limit - ended)
    return found
