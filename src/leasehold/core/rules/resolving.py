"""How a job's end affects the jobs that wait for it, decided once for every store.

The code that ends a job need not know of this: its store records that the job ended while others
waited for it, and `resolve` handles the dependents in the same write. One write handles a bounded
number of them; an ended job that still blocks others is kept until a later write continues with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from leasehold.core.model.job import DependencyPolicy
from leasehold.core.model.status import Status
from leasehold.core.rules.dependencies import consequence, told

J = TypeVar("J")
"""A store's own handle of a job."""


class Ended(NamedTuple, Generic[J]):
    """A job that has ended, whose dependents are still to be handled."""

    job: J
    id: str
    status: Status
    reason: str | None
    is_purged: bool
    """Whether to delete it once all of them have been handled."""


class Dependent(NamedTuple, Generic[J]):
    """A dependent of a job that has ended."""

    job: J
    policy: DependencyPolicy
    due: int
    waits_for_others: bool


class Links(Protocol[J]):
    """The dependencies of jobs, inside one write."""

    @property
    def now(self) -> int: ...

    def next_ended(self) -> Ended[J] | None:
        """Some job that has ended while others waited for it. A job that was replayed meanwhile is
        unfinished again: the jobs it blocks keep waiting for it.
        """

    def take_dependents(self, ended: Ended[J], limit: int) -> Sequence[Dependent[J]]:
        """Remove and return up to `limit` jobs that wait for it, so that each end counts once."""

    def end(self, dependent: J, after: Status, ended: Ended[J], message: str) -> None:
        """Cancel a dependent, or make a dead letter of it."""

    def free(self, pending: Sequence[J], scheduled: Sequence[J], message: str) -> None:
        """Make dependents pending, or scheduled until they are due."""

    def all_told(self, ended: Ended[J]) -> None:
        """No job waits for it any more: it gets back its own priority, and is deleted if it was
        purged.
        """


def resolve(links: Links[J], budget: int) -> int:
    """Handle a bounded number of dependents of ended jobs; returns what is left of the budget."""
    while budget > 0 and (ended := links.next_ended()) is not None:
        dependents = links.take_dependents(ended, budget)
        _tell(links, ended, dependents)
        if len(dependents) < budget:
            links.all_told(ended)
        # Looking counts too: the jobs that it blocked may all have been ended by others already.
        budget -= max(1, len(dependents))
    return budget


def _tell(links: Links[J], ended: Ended[J], dependents: Sequence[Dependent[J]]) -> None:
    message = told(ended.id, ended.status, ended.reason)
    pending: list[J] = []
    scheduled: list[J] = []
    for each in dependents:
        after = consequence(each.policy, ended.status)
        if after is not None:
            links.end(each.job, after, ended, message)
        elif not each.waits_for_others:
            (pending if each.due <= links.now else scheduled).append(each.job)
    if pending or scheduled:
        links.free(pending, scheduled, message)
