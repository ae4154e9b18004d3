"""Priority inheritance: a job is as urgent as the most urgent of those that wait for it.

A job's *base* is the highest of its own priority and the bases of the jobs that wait for it. So a
job of low priority that an urgent one waits for, directly or not, does not keep it waiting. Both
stores keep each base as it is, and ask here who else is concerned when one of them changes.

Clauses of the store contract:

- INH-1  A job that others wait for counts with the highest priority of those, directly or not, from
         the write in which they begin to wait. `Job.inherited_priority` says so where it is above
         its own, which stays as it is.
- INH-2  It falls back in the write in which the one who raised it waits no more, for whatever
         reason, or has become less urgent.
- INH-3  Where that concerns very many jobs, one write deals with so many of them
         (`INHERITED_AT_ONCE`) and the next ones, whoever makes them, with the rest; until then
         those count with the priority they had.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

J = TypeVar("J", int, str)
"""However a store names its jobs."""


class Compared(NamedTuple, Generic[J]):
    """A job whose base has changed, and some of the jobs that it waits for."""

    base: int
    needs: Sequence[tuple[J, int]]
    """Each with its own base."""


class Bases(Protocol[J]):
    """The bases of jobs as a store keeps them, inside one of the writes that a change may take."""

    def own_of(self, job: J) -> int:
        """A job's own priority."""

    def base_of(self, job: J) -> int: ...

    def waiting_for(self, job: J) -> Iterable[tuple[J, int]]:
        """Who waits for a job, and with what base."""

    def write(self, bases: Mapping[J, int]) -> None:
        """Keep new bases, and let those of the jobs that are pending stand where these put them."""

    def changed(self, job: J, base: int) -> None:
        """Note that a job's base has changed: what it waits for is to be compared with it."""

    def next_suspect(self) -> J | None:
        """A job that somebody may not raise any more; each is named once."""

    def next_to_compare(self, limit: int) -> Compared[J] | None:
        """Up to so many jobs that were not yet compared with one that waits for them and has
        changed; of those that have changed, the highest comes first.
        """


def spread(bases: Bases[J], limit: int) -> int:
    """Let changes reach so many of the jobs they may concern; answers how many more might be."""
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
    """A job that counted with this base was given another priority of its own."""
    own = bases.own_of(job)
    _change(bases, job, own if own >= before else _highest(bases, job, before))


def _let_fall(bases: Bases[J], job: J, before: int) -> None:
    after = _highest(bases, job, before)
    if after != before:
        _change(bases, job, after)


def _highest(bases: Bases[J], job: J, enough: int) -> int:
    """What a job's base is to be; who waits for it is read until somebody is as high as this."""
    highest = bases.own_of(job)
    for _, base in bases.waiting_for(job):
        if highest >= enough:
            break
        highest = max(highest, base)
    return highest


def _change(bases: Bases[J], job: J, base: int) -> None:
    bases.write({job: base})
    bases.changed(job, base)
