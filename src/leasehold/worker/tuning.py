"""A worker's parameters: given in code, otherwise set in the store, otherwise built in.

They are followed while it runs. Every exchange returns the generation of the settings, so a worker
that talks to the store learns for free whether to read them; one whose slots are all taken reads
them with each heartbeat.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from leasehold.core.contract.store import Store
from leasehold.core.contract.worker_leases import ShortWorkerLeases
from leasehold.core.model.settings import DEFINITIONS, SettingValue
from leasehold.errors import StoreError
from leasehold.worker.safelog import safe_logger

logger = safe_logger("leasehold.worker")


class Tuning:
    """The present parameters of one worker; `on_change` is called with the names of changed ones,
    `on_stop` when somebody asked the worker to stop.
    """

    def __init__(
        self,
        store: Store,
        given: Mapping[str, SettingValue],
        on_change: Callable[[frozenset[str]], None] | None = None,
        worker: str = "",
        on_stop: Callable[[], None] | None = None,
    ) -> None:
        self._store = store
        self._given = dict(given)
        self._on_change = on_change
        self._worker = worker
        self._on_stop = on_stop
        self._stop_seen: str | None = None
        self.heeds_stops = False
        """True once it is registered; earlier orders were for an earlier worker with its id."""
        self._lock = threading.RLock()
        # Before the first change of a store's settings there is nothing to read.
        self._generation = 0
        self._stored: Mapping[str, SettingValue] = {}
        self._values = self._effective()

    def seconds(self, name: str) -> float:
        """A setting that is a duration and never None."""
        value = self._values[name]
        assert value is not None
        return value

    def count(self, name: str) -> int:
        return int(self.seconds(name))

    @property
    def lease_seconds_asked(self) -> float | None:
        """The length of leases for jobs without one of their own; None leaves it to the store."""
        is_said = "lease_seconds" in self._given or "lease_seconds" in self._stored
        if not is_said and isinstance(self._store, ShortWorkerLeases):
            return self._store.worker_lease_seconds
        return self._given.get("lease_seconds")

    def note(self, generation: int) -> None:
        """Note the store's generation of settings, and read them if it is a new one."""
        if generation != self._generation:
            self.look()

    def look(self) -> None:
        """Read the settings. If the store cannot be reached, the last known ones stay in force."""
        try:
            stored = self._store.settings()
        except StoreError as error:
            logger.warning("the settings could not be read; the last known ones apply: %s", error)
            return
        with self._lock:
            if stored.generation <= self._generation:
                return
            self._generation = stored.generation
            self._note_stop(stored.stops.get(self._worker))
            self._stored = stored.values
            before, self._values = self._values, self._effective()
            changed = frozenset(name for name in before if before[name] != self._values[name])
            if changed and self._on_change is not None:
                logger.info("settings changed: %s", ", ".join(sorted(changed)))
                self._on_change(changed)

    def _note_stop(self, stop: str | None) -> None:
        is_new, self._stop_seen = stop not in (None, self._stop_seen), stop
        if is_new and self.heeds_stops and self._on_stop is not None:
            logger.info("worker %s was asked to stop, through the store", self._worker)
            self._on_stop()

    def _effective(self) -> dict[str, SettingValue]:
        built_in = {name: definition.default for name, definition in DEFINITIONS.items()}
        return {**built_in, **self._stored, **self._given}
