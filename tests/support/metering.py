"""Counting how much SQLite does in each write, which no busy machine can change.

A step of SQLite's machine is one instruction: some ten of them read a row, some more write one. So
a bound on the steps of one write bounds the rows that it reads and writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import apsw

from leasehold.stores.sqlite import SQLiteStore

COUNTED_AT_ONCE: Final = 10
"""Steps are counted by tens, for each statement over all its runs: so no small one gets away."""


class Meter:
    """The steps of each write while it is on, rolled back or committed."""

    def __init__(self) -> None:
        self.writes: list[int] = []
        self._steps = 0

    @property
    def largest(self) -> int:
        """The steps of the write that took most of them."""
        return max([*self.writes, self._steps])

    def count(self) -> bool:
        """Count some steps; never interrupts."""
        self._steps += COUNTED_AT_ONCE
        return False

    def write_ended(self) -> bool:
        """Begin to count anew; the commit is not refused."""
        self.writes.append(self._steps)
        self._steps = 0
        return False


@contextmanager
def metered(store: SQLiteStore) -> Iterator[Meter]:
    """Count the steps of every write that the store does inside this block."""
    meter = Meter()
    store._database.open_to_write()
    db = store._database.side.db

    def rolled_back() -> None:
        meter.write_ended()

    db.set_progress_handler(meter.count, COUNTED_AT_ONCE)
    db.set_commit_hook(meter.write_ended)
    db.set_rollback_hook(rolled_back)
    try:
        yield meter
    finally:
        db.set_progress_handler(None)
        db.set_commit_hook(None)
        db.set_rollback_hook(None)


def steps_on(connection: apsw.Connection, work: Callable[[], object]) -> int:
    """How many steps something takes on a connection of the application's own."""
    meter = Meter()
    connection.set_progress_handler(meter.count, COUNTED_AT_ONCE)
    try:
        work()
    finally:
        with suppress(apsw.ConnectionClosedError):
            connection.set_progress_handler(None)
    return meter.largest
