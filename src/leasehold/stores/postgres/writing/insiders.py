"""Callers inside a transaction on a connection of `queue.connect()`.

A write outside the transaction would be kept if the transaction is rolled back, which a caller
inside it never wants. The application's own psycopg connections are not known here.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from typing import Final, Protocol

from leasehold.errors import TransactionError
from leasehold.forking import at_fork
from leasehold.stores.postgres.server.address import Address

Caller = tuple[int, int]


class Connection(Protocol):
    """A connection of `queue.connect()`."""

    store: Address
    user: Caller
    """Its last user."""

    @property
    def closed(self) -> bool: ...
    @property
    def in_transaction(self) -> bool: ...


def caller() -> Caller:
    """The current thread and asyncio task; several tasks share a thread."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # There is no event loop in this thread.
        task = None
    return threading.get_ident(), id(task)


class Insiders:
    """The open connections of this process."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._opened: list[weakref.ref[Connection]] = []

    def add(self, connection: Connection) -> None:
        with self._mutex:
            there = (each for each in self._opened if (known := each()) and not known.closed)
            self._opened = [*there, weakref.ref(connection)]

    def check_outside(self, address: Address) -> None:
        """Refuse a write of a caller who has a transaction of this store open."""
        if not self._opened:
            return
        here = caller()
        for each in self._opened:
            known = each()
            if (
                known is not None
                and known.user == here
                and known.store == address
                and not known.closed
                and known.in_transaction
            ):
                raise TransactionError(
                    f"this thread has a transaction open on {address.shown}, and this call would "
                    "write outside that transaction: submit with connection=..., or do it after "
                    "the commit"
                )

    def forget(self) -> None:
        """Forget them in a forked child: they are the parent's."""
        self._mutex = threading.Lock()
        self._opened = []


INSIDERS: Final = Insiders()
at_fork(after_in_child=INSIDERS.forget)
