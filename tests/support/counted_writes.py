"""A store whose writes are counted one by one, for the cases that put budgets into play."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import pairwise
from typing import Any, Final

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import Lease, LeaseRequest
from leasehold.core.model.status import Status
from leasehold.env import ManualClock
from leasehold.stores.memory import MemoryStore

IN_ONE_CALL: Final = 5000


class Scene:
    """A store of one kind, and what one of its writes did."""

    def __init__(self, store: Store, clock: ManualClock, patch: pytest.MonkeyPatch) -> None:
        self.store = store
        self.clock = clock
        self.patch = patch
        self.counted = 0
        """By whatever `count` was told to count."""
        self._figures: list[int] = []
        self._figure: Callable[[], int] | None = None

    @property
    def is_in_memory(self) -> bool:
        return isinstance(self.store, MemoryStore)

    # -- counting ----------------------------------------------------------------------------

    @contextmanager
    def watching(self, figure: Callable[[], int]) -> Iterator[list[int]]:
        """How much the figure grew or fell by in each write of the block."""
        growth: list[int] = []
        self._figures, self._figure = [], figure
        self._begin_writes()
        try:
            yield growth
        finally:
            self._figure = None
        self._figures.append(figure())
        growth += [abs(after - before) for before, after in pairwise(self._figures)]

    def count(self, owner: Any, name: str, how_many: Callable[..., int]) -> None:
        """Count what a function is given, or answers (the first argument)."""
        original = getattr(owner, name)

        def counted(*args: Any, **named: Any) -> Any:
            answer = original(*args, **named)
            self.counted += how_many(answer, *args)
            return answer

        self.patch.setattr(owner, name, counted)

    def _begin_writes(self) -> None:
        if isinstance(self.store, MemoryStore):
            self.patch.setattr(self.store, "_lock", _Lock(self.store._lock, self._write_begins))
            return
        self._tell_of(self.own("writing.step").Step)

    def own(self, module: str) -> Any:
        """A module of the database that the store is on."""
        database = "postgres" if "postgres" in type(self.store).__module__ else "sqlite"
        return import_module(f"leasehold.stores.{database}.{module}")

    def _tell_of(self, step: Any) -> None:
        original = step.__init__

        def begin(*args: Any, **named: Any) -> None:
            self._write_begins()
            original(*args, **named)

        self.patch.setattr(step, "__init__", begin)

    def _write_begins(self) -> None:
        figure, self._figure = self._figure, None  # To look is no write.
        if figure is not None:
            self._figures.append(figure())
            self._figure = figure

    # -- filling -----------------------------------------------------------------------------

    def fill(self, count: int, **options: Any) -> None:
        self.submit([Draft(id=f"{n}", task="t", **options) for n in range(count)])

    def submit(self, drafts: Sequence[Draft]) -> None:
        for first in range(0, len(drafts), IN_ONE_CALL):
            self.store.submit(drafts[first : first + IN_ONE_CALL])

    def lease(self, **options: Any) -> list[Lease]:
        return self.store.exchange(request=LeaseRequest(worker="w", **options)).leases

    def jobs(self, status: Status) -> Callable[[], int]:
        return lambda: self.store.stats().counts[status]

    def rows(self, table: str) -> int:
        database: Any = self.store
        with database._database.read() as db:
            return int(next(iter(db.execute(f"SELECT count(*) FROM {table}")))[0])  # our own names

    def write(self, work: Callable[[Any], object]) -> None:
        """Do something inside a write of a store of tables."""
        store: Any = self.store
        store._database.write(work)


class _Lock:
    """The memory store's lock, which tells when somebody is about to hold it."""

    def __init__(self, lock: Any, tell: Callable[[], None]) -> None:
        self._lock = lock
        self._tell = tell

    def __enter__(self) -> None:
        self._tell()
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()
