"""Proof of death: a worker's session lock that is free and stays free.

A session that takes the locks of its workers again, after its connection was cut, says so in their
entries (`held_since`). So two looks that find a lock free tell whether it was free all the time
between them, however far apart they are.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from leasehold.core.model.lives import Life
from leasehold.env import Clock
from leasehold.stores.postgres.server.connection import SqlConnection

DEAD_SECONDS: Final = 2.0
"""How long a lock must be free: by then a worker that was only cut off has taken it again."""

SERVER_UP_SECONDS: Final = 15.0
"""After a restart of the server, workers first need time to reconnect."""

FREE: Final = """
    SELECT id, life, held_since FROM worker
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
        self._free_since: dict[tuple[Life, int], float] = {}
        """When a lock was first found to be free, by life and since when that had held it."""

    def find(self, db: SqlConnection) -> set[Life]:
        """Lives whose lock is free, as it has been since a look at least DEAD_SECONDS ago."""
        now = self._clock.monotonic()
        free = self._find_free(db)
        with self._mutex:
            known = {key: since for key, since in self._free_since.items() if key in free}
            self._free_since = {key: known.get(key, now) for key in free}
            found = [*self._free_since.items()]
        return {life for (life, _), since in found if now - since >= DEAD_SECONDS}

    def workers(self, db: SqlConnection) -> set[str]:
        """The names of the dead workers."""
        return {life.worker for life in self.find(db)}

    def free(self, db: SqlConnection) -> set[Life]:
        """The lives whose lock is free at this moment."""
        return {life for life, _ in self._find_free(db)}

    def _find_free(self, db: SqlConnection) -> set[tuple[Life, int]]:
        rows = db.execute(FREE, (self._schema, self._up_seconds))
        return {(Life(worker, number), held_since) for worker, number, held_since in rows}


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
        """Leave the registry in an orderly way."""
        if not self._is_over:
            self._leave()
            self._is_over = True
