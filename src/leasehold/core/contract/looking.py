"""Calls that only look, for people and figures: a store may answer them from a replica.

What such a call shows may be some moments old, so nothing may be decided by it: no worker, wait,
order, submit or clean-up looks here.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from leasehold.core.contract.store import Store


@runtime_checkable
class HasReplica(Protocol):
    """A store of which there may be a replica."""

    def looking(self) -> Store:
        """The same store; what only reads is read from its replica, if it has one."""


def looking(store: Store) -> Store:
    """The store to ask on behalf of somebody who only looks."""
    return store.looking() if isinstance(store, HasReplica) else store
