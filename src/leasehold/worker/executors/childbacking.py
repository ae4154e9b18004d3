"""Transactions of a task in a child process: on its own connection, with the worker's consent."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from leasehold.core.model.lease import Lease
from leasehold.errors import LeaseLostError, StoreUnavailableError, UnsupportedError
from leasehold.worker.executors.wire import Favour, Leave

if TYPE_CHECKING:
    from leasehold.core.contract.store import Store
    from leasehold.core.contract.transactions import JobTransaction

_stores: dict[str, Store] = {}
"""Stores by address, opened when the first task of this child needs one."""


class ChildBacking:
    """Asks the worker for what only the worker can do, and does the rest here."""

    def __init__(self, address: str | None, ask: Callable[[Favour], Leave]) -> None:
        self._address = address
        self._ask = ask

    def open(self, lease: Lease) -> JobTransaction:
        # Few tasks open a transaction, and a child starts faster without the whole contract.
        from leasehold.core.contract.local_store import local_part

        store = self._store(lease)
        self._made_way(lease)
        try:
            local = local_part(store, "a transaction of your own")
            return local.open_transaction(lease.job_id, lease.version)
        except BaseException:
            self.gave_up(lease)
            raise

    def claim(self, lease: Lease) -> bool:  # noqa: ARG002 - the worker knows which one runs here.
        return self._ask("claim").granted

    def gave_up(self, lease: Lease) -> None:  # noqa: ARG002
        self._ask("gave_up")

    def _made_way(self, lease: Lease) -> None:
        leave = self._ask("make_way")
        if leave.error is None:
            return
        message = f"job {lease.job_id} cannot begin its transaction: {leave.error.message}"
        if leave.error.type == LeaseLostError.__name__:
            raise LeaseLostError(message)
        raise StoreUnavailableError(message)

    def _store(self, lease: Lease) -> Store:
        address = self._address
        if address is None:
            raise UnsupportedError(
                f"job {lease.job_id} runs in a process of its own, and its store cannot be reached "
                "from there: transactions need a SQLite file"
            )
        if address not in _stores:
            # Imported by name: the module that opens stores is in a layer above workers, and only a
            # child has to reach up.
            _stores[address] = importlib.import_module("leasehold.connect").connect(address)
        return _stores[address]
