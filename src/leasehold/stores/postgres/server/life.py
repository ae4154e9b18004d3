"""Proof of death: whose session lock is free, and stays so."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from leasehold.core.model.lives import Life
from leasehold.env import Clock
from leasehold.stores.postgres.server.connection import SqlConnection

DEAD_SECONDS: Final = 2.0
"""A lock that is free for so long is not taken again by a worker that was only cut off."""

SERVER_UP_SECONDS: Final = 15.0
"""A server that was started a moment ago has not heard of anybody yet."""

FREE: Final = """
    SELECT id, life FROM worker
    WHERE life > 0
        AND extract(epoch FROM clock_timestamp() - pg_postmaster_start_time()) >= $2::float8
        AND NOT EXISTS (
            SELECT 1 FROM pg_locks
            WHERE locktype = 'advisory' AND objsubid = 2 AND objid::bigint = worker.life
                AND classid::bigint = hashtext('leasehold life ' || $1)::bigint & 4294967295
                AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
"""


class Deaths:
    """Finds the lives of workers that are proved to be over."""

    def __init__(self, schema: str, clock: Clock, up_seconds: float = SERVER_UP_SECONDS) -> None:
        self._schema = schema
        self._up_seconds = up_seconds
        self._clock = clock
        self._mutex = threading.Lock()
        self._free_since: dict[Life, float] = {}

    def find(self, db: SqlConnection) -> set[Life]:
        """Lives whose lock was free when this was asked DEAD_SECONDS ago or more, and is."""
        now = self._clock.monotonic()
        free = self.free(db)
        with self._mutex:
            known = {key: since for key, since in self._free_since.items() if key in free}
            self._free_since = {key: known.get(key, now) for key in free}
            return {life for life, since in self._free_since.items() if now - since >= DEAD_SECONDS}

    def workers(self, db: SqlConnection) -> set[str]:
        """The names of the dead."""
        return {life.worker for life in self.find(db)}

    def free(self, db: SqlConnection) -> set[Life]:
        """The lives whose lock is free at this moment."""
        return set(map(Life._make, db.execute(FREE, (self._schema, self._up_seconds))))


class SessionLife:
    """A registered worker's sign of life."""

    def __init__(self, fileno: Callable[[], int | None], leave: Callable[[], None]) -> None:
        self._fileno = fileno
        self._leave = leave
        self._is_over = False

    @property
    def lock_fd(self) -> int | None:
        """The socket of the session: while a child has it open, the server keeps the lock."""
        return None if self._is_over else self._fileno()

    def close(self) -> None:
        """Leave the registry in order."""
        if not self._is_over:
            self._leave()
            self._is_over = True
