"""Read-only calls for people and figures, which a store may answer from a replica.

Such an answer may be slightly out of date, so nothing may be decided by it: workers, waits, orders,
submits and clean-ups do not use these calls.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from leasehold.core.contract.store import Store


@runtime_checkable
class HasReplica(Protocol):
    """A store that may have a replica."""

    def looking(self) -> Store:
        """The same store, whose reads go to its replica if it has one."""


def looking(store: Store) -> Store:
    """The store to use for reads that only show something."""
    return store.looking() if isinstance(store, HasReplica) else store
