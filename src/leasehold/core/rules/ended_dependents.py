"""Whether everybody who depended on a job has ended, so that it may be deleted (DEP-7).

There may be very many of them. So a write looks at some, and a store of tables writes down how far
it has got: dependents behind that mark are not visited again, unless one of them is replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Protocol

from leasehold.core.model.budget import DEPENDENTS_LOOKED_AT_ONCE


class DependentsBook(Protocol):
    """The dependents of a job that were not visited yet; jobs are known by numbers."""

    def next(self, seq: int, limit: int) -> Sequence[tuple[int, bool]]:
        """So many of them, in order of their numbers, and whether each has ended."""

    def looked_up_to(self, seq: int, dependent: int) -> None:
        """All dependents up to this number have ended."""

    def how_many(self, seqs: Sequence[int], limit: int) -> int:
        """How many all of these jobs have, counted up to the limit."""


def is_crowded(book: DependentsBook, seq: int) -> bool:
    """Whether a job has as many as one write may look at: others are to look through them first."""
    return len(book.next(seq, DEPENDENTS_LOOKED_AT_ONCE)) == DEPENDENTS_LOOKED_AT_ONCE


def look_through(look: Callable[[], int]) -> None:
    """Look at all dependents of a crowded job; each call is a write that looks at some."""
    while look() == DEPENDENTS_LOOKED_AT_ONCE:
        pass


def look_at_some(book: DependentsBook, seq: int) -> int:
    """Look at some further dependents of a job; answers how many have ended, one by one."""
    return _look_at(book, seq, DEPENDENTS_LOOKED_AT_ONCE)


def _look_at(book: DependentsBook, seq: int, limit: int) -> int:
    ended = [dependent for dependent, _ in takewhile(lambda row: row[1], book.next(seq, limit))]
    if ended:
        book.looked_up_to(seq, ended[-1])
    return len(ended)


def within_budget(book: DependentsBook, seqs: Sequence[int]) -> Sequence[int]:
    """Those of these jobs whose dependents one write can look at."""
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
