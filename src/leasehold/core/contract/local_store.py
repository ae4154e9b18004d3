"""Operations that only a store on this machine has, with files, a clock and connections of its own.

A store behind a network implements `core.contract.store` and nothing in this file. Callers get the
local part from `local_part`, which raises a clear error when there is none.
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

        The copy gets its name only when it is complete. An existing file is kept and
        BackupExistsError raised, unless `replace` is set: then the file is replaced in one step. A
        backup is audited after it is written, if the store still accepts writes.
        """


class LocalStore(Store, LocalVerbs, Protocol):
    """A store on this machine, with the local operations."""


def local_part(store: Store, wanted: str, instead: str = "") -> LocalStore:
    """The store as a local one; raises UnsupportedError if it is not on this machine.

    `wanted` names the purpose in a few words, such as "backup"; `instead` says what to do
    otherwise.
    """
    if isinstance(store, LocalVerbs):
        return cast("LocalStore", store)
    rest = f": {instead}" if instead else ""
    raise UnsupportedError(f"{wanted} works only where the database is; this store is remote{rest}")
