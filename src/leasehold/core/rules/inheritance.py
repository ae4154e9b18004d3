"""Priority inheritance: a job is as urgent as its most urgent dependent.

A job's *base* is the highest of its own priority and the bases of the jobs that wait for it. So a
low-priority job does not delay an urgent one that waits for it, directly or not. Every store keeps
the bases, and asks here which other jobs are affected when one of them changes.

Clauses of the store contract:

- INH-1  A job that others wait for counts with the highest priority of its dependents, direct or
         not, from the write in which they begin to wait. `Job.inherited_priority` says so where it
         is above its own, which stays as it is.
- INH-2  It falls back in the write in which the dependent that raised it stops waiting, for any
         reason, or becomes less urgent.
- INH-3  If very many jobs are affected, one write handles up to `INHERITED_AT_ONCE` of them and the
         following writes, by any process, handle the rest; until then those jobs keep the priority
         they had.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Generic, NamedTuple, Protocol, TypeVar

J = TypeVar("J", int, str)
"""A store's own handle of a job."""


class Compared(NamedTuple, Generic[J]):
    """A job whose base has changed, with some of the jobs that it waits for."""

    base: int
    needs: Sequence[tuple[J, int]]
    """The jobs it waits for, each with its own base."""


class Bases(Protocol[J]):
    """The bases of a store's jobs, inside one of the writes that a change may take."""

    def own_of(self, job: J) -> int:
        """A job's own priority."""

    def base_of(self, job: J) -> int: ...

    def waiting_for(self, job: J) -> Iterable[tuple[J, int]]:
        """The jobs that wait for a job, with their bases."""

    def write(self, bases: Mapping[J, int]) -> None:
        """Save new bases, and move pending jobs to the places that these give them."""

    def changed(self, job: J, base: int) -> None:
        """Record that a job's base has changed, so that its dependencies are compared with it."""

    def next_suspect(self) -> J | None:
        """A job whose base may have to fall; each is returned once."""

    def next_to_compare(self, limit: int) -> Compared[J] | None:
        """Up to `limit` jobs that were not yet compared with a dependent whose base has changed;
        the dependent with the highest base comes first.
        """


def spread(bases: Bases[J], limit: int) -> int:
    """Propagate changes to a bounded number of jobs; returns how much of the budget is left."""
    while limit > 0 and (suspect := bases.next_suspect()) is not None:
        _let_fall(bases, suspect, bases.base_of(suspect))
        limit -= 1
    while limit > 0 and (found := bases.next_to_compare(limit)) is not None:
        for job, base in found.needs:
            if base < found.base:
                _change(bases, job, found.base)
            elif base > found.base:
                _let_fall(bases, job, base)
        limit -= max(1, len(found.needs))
    return limit


def given_priority(bases: Bases[J], job: J, before: int) -> None:
    """Handle a new priority of a job that had this base."""
    own = bases.own_of(job)
    _change(bases, job, own if own >= before else _highest(bases, job, before))


def _let_fall(bases: Bases[J], job: J, before: int) -> None:
    after = _highest(bases, job, before)
    if after != before:
        _change(bases, job, after)


def _highest(bases: Bases[J], job: J, enough: int) -> int:
    """The new base of a job; dependents are read until one is as high as this."""
    highest = bases.own_of(job)
    for _, base in bases.waiting_for(job):
        if highest >= enough:
            break
        highest = max(highest, base)
    return highest


def _change(bases: Bases[J], job: J, base: int) -> None:
    bases.write({job: base})
    bases.changed(job, base)


class Unspread(Protocol):
    """The changes that a write of a store of tables still has to propagate."""

    lowered: set[int]
    """Jobs that lost a dependent that may have raised their priority."""
    inheriting: list[tuple[int, int, int]]
    """A heap of jobs whose base has changed: the negated base, the job's number, and the number up
    to which its dependencies were compared with it.
    """
    some_inheriting: bool
    """Whether earlier writes have left such changes unfinished."""
    inherited_left: int
    """How many more jobs this write may compare with their dependents."""


class NumberedBases(ABC):
    """The `Bases` of a store of tables, which identifies jobs by number.

    One write compares a bounded number of jobs with their dependents; the rest is saved, and the
    next write, by any process, continues from there.
    """

    def __init__(self, unspread: Unspread) -> None:
        self._unspread = unspread

    @abstractmethod
    def own_of(self, seq: int) -> int: ...

    @abstractmethod
    def base_of(self, seq: int) -> int: ...

    @abstractmethod
    def waiting_for(self, seq: int) -> Iterable[tuple[int, int]]: ...

    @abstractmethod
    def write(self, bases: Mapping[int, int]) -> None: ...

    @abstractmethod
    def exists(self, seq: int) -> bool: ...

    @abstractmethod
    def needs_from(self, seq: int, after: int, limit: int) -> Sequence[tuple[int, int]]:
        """A job's unfinished dependencies after this number, each with its base."""

    @abstractmethod
    def take_left(self, limit: int) -> Iterable[tuple[int, int | None, bool]]:
        """The comparisons left by earlier writes: the job's number, how far it was compared (if at
        all), and whether its base may have to fall. Each is returned once.
        """

    @abstractmethod
    def keep_left(self, rows: Sequence[tuple[int, int | None, bool]]) -> None:
        """Leave these comparisons to the next write. If one is left already, the lower mark is
        kept.
        """

    @abstractmethod
    def some_left(self) -> bool: ...

    def changed(self, seq: int, base: int) -> None:
        heappush(self._unspread.inheriting, (-base, seq, 0))

    def next_suspect(self) -> int | None:
        lowered = self._unspread.lowered
        while lowered:
            seq = lowered.pop()
            # Some jobs may be gone by now: a purge deletes dependents together with dependencies.
            if self.exists(seq):
                return seq
        return None

    def next_to_compare(self, limit: int) -> Compared[int] | None:
        inheriting = self._unspread.inheriting
        while inheriting:
            negative, seq, compared_to = heappop(inheriting)
            needs = self.needs_from(seq, compared_to, limit)
            # A job that has changed again since is in the list again.
            if not needs or self.base_of(seq) != -negative:
                continue
            if len(needs) == limit:
                heappush(inheriting, (negative, seq, needs[-1][0]))
            return Compared(-negative, needs)
        return None

    def spread(self) -> bool:
        """Propagate the changes of any write so far; returns whether some are left."""
        unspread = self._unspread
        if unspread.some_inheriting:
            self._take_up(unspread.inherited_left)
        unspread.inherited_left = spread(self, unspread.inherited_left)
        if unspread.lowered or unspread.inheriting or unspread.some_inheriting:
            self._leave()
            unspread.some_inheriting = self.some_left()
        return unspread.some_inheriting

    def _take_up(self, limit: int) -> None:
        for seq, compared_to, is_suspect in self.take_left(limit):
            if is_suspect:
                self._unspread.lowered.add(seq)
            if compared_to is not None and self.exists(seq):
                heappush(self._unspread.inheriting, (-self.base_of(seq), seq, compared_to))

    def _leave(self) -> None:
        unspread = self._unspread
        self.keep_left([(seq, None, True) for seq in sorted(unspread.lowered)])
        places: dict[int, int] = {}
        for _, seq, after in unspread.inheriting:
            places[seq] = min(after, places.get(seq, after))
        self.keep_left([(seq, after, False) for seq, after in sorted(places.items())])
        unspread.lowered = set()
        unspread.inheriting = []
