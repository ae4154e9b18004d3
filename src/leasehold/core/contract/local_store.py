"""What only a store on this machine can do: it has files, a clock and connections of its own.

A store behind a network keeps `core.contract.store` and nothing of this. Callers ask for the local
part with `local_part`, and get a clear error when there is none.
"""

from __future__ import annotations

from typing import Protocol, cast, runtime_checkable

from leasehold.core.contract.clock_store import ClockStore
from leasehold.core.contract.store import Store
from leasehold.core.contract.transactions import TransactionStore
from leasehold.errors import UnsupportedError


@runtime_checkable
class LocalVerbs(TransactionStore, ClockStore, Protocol):
    """The abilities of a store in the same process.

    The clauses about the application's own transactions are in `core.contract.transactions`, those
    about a clock that was wrong in `core.contract.clock_store`.
    """

    def backup(self, path: str, *, actor: str, replace: bool = False) -> None:
        """Write a consistent copy while the store is in use.

        The copy has its name only when it is complete. A file that is there already stays and is
        refused with BackupExistsError, or is replaced in one step with `replace`. A backup is
        audited, after it was written, wherever the store still takes writes.
        """


class LocalStore(Store, LocalVerbs, Protocol):
    """A store on this machine."""


def local_part(store: Store, wanted: str, instead: str = "") -> LocalStore:
    """A store as one on this machine; raises UnsupportedError where it is none.

    `wanted` says in a few words what for, such as "backup", and `instead` what to do elsewhere.
    """
    if isinstance(store, LocalVerbs):
        return cast("LocalStore", store)
    rest = f": {instead}" if instead else ""
    raise UnsupportedError(f"{wanted} works only where the database is; this store is remote{rest}")
