"""Stores under test: made on a turned clock, closed and opened again where that loses nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from leasehold.core.contract.store import Store
from leasehold.core.model.records import WorkerInfo, WorkerLife
from leasehold.core.model.retention import RetentionPolicy
from leasehold.env import Env, ManualClock
from leasehold.stores.memory import MemoryStore
from leasehold.stores.sqlite import SQLiteStore
from leasehold.testing.soak.calls import FOLLOW, Call, Followed, call, carry_out

KEEP_ALL = RetentionPolicy(completed_seconds=None, dead_seconds=None, cancelled_seconds=None)
"""A store's own forgetting cannot be compared: only clean-ups forget here."""

Open = Callable[[Env], Store]
"""Opens a store: the same one again, whenever it is called again."""
MakeOpen = Callable[[], Open]
"""Makes the opener of a new, empty store."""


class EvenRandom(Random):
    """Chance without chance: jitter is the same in every store, however often each one draws."""

    def random(self) -> float:
        return 0.5


class Subject:
    """One store of a run."""

    def __init__(self, name: str, open_store: Open, clock: ManualClock, *, outlives: bool) -> None:
        self.name = name
        self._open = open_store
        self._env = Env(clock=clock, random=EvenRandom(7))
        self._outlives = outlives
        self._lives: dict[str, WorkerLife] = {}
        self._cursor: str | None = None
        """How far the change feed was read."""
        self.store = open_store(self._env)

    def carry_out(self, asked: Call) -> Any:
        if asked.method == FOLLOW:
            asked = call(FOLLOW, cursor=self._cursor, **asked.arguments)
        answer = carry_out(self.store, asked)
        if isinstance(answer, Followed):
            self._cursor = answer.cursor
        if asked.method == "register_worker" and not isinstance(answer, Exception):
            worker = asked.arguments["info"].id
            # It keeps its latest sign of life; two at once are two processes of one name.
            before = self._lives.pop(worker, None)
            if before is not None:
                before.close()
            self._lives[worker] = answer
            return "registered"
        return answer

    def restart(self) -> None:
        """Close the store and open it again, if its jobs outlive that."""
        self._end_lives()
        # A write of every store: a time that only looks have shown is forgotten with the process.
        now = self.store.now()
        last = WorkerInfo(
            id="last", host="here", pid=1, queues=(), slots=1, started_at=now, heartbeat_at=now
        )
        self.store.register_worker(last, is_remote=True).close()
        if self._outlives:
            self.store.close()
            self.store = self._open(self._env)

    def close(self) -> None:
        self._end_lives()
        self.store.close()

    def _end_lives(self) -> None:
        for life in self._lives.values():
            life.close()
        self._lives.clear()


class Stage:
    """Makes the stores of each run."""

    def __init__(self, makers: dict[str, tuple[MakeOpen, bool]]) -> None:
        """`makers` has, by name, who makes a store and whether it outlives being closed."""
        self._makers = makers

    @property
    def names(self) -> list[str]:
        return list(self._makers)

    def subjects(self, clock: ManualClock, *, lasting_only: bool = False) -> list[Subject]:
        """New stores; where only lasting ones can serve the run, those, if any."""
        lasting = {name: each for name, each in self._makers.items() if each[1]}
        makers = lasting if lasting_only and lasting else self._makers
        return [
            Subject(name, make(), clock, outlives=outlives)
            for name, (make, outlives) in makers.items()
        ]


@contextmanager
def stage(*names: str) -> Iterator[Stage]:
    """The stores of these names, or all: each run in new ones, all gone in the end."""
    with TemporaryDirectory(prefix="leasehold-soak-") as folder:
        numbers = iter(range(1 << 62))

        def sqlite() -> Open:
            path = Path(folder, f"{next(numbers)}.db")
            return lambda env: SQLiteStore(path, env=env, durability="normal")

        def memory() -> Open:
            return lambda env: MemoryStore(env, retention=KEEP_ALL)

        makers: dict[str, tuple[MakeOpen, bool]] = {
            "sqlite": (sqlite, True),
            "memory": (memory, False),
        }
        yield Stage({name: makers[name] for name in names or makers})
