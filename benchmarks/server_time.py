"""The processor time of a database server of this machine, as far as it worked for its clients.

A page on PostgreSQL costs two processes: this one, and the server's that answers its connection.
"""

from __future__ import annotations

from pathlib import Path

BACKENDS = """
    SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'
        AND pid <> pg_backend_pid() AND datname = current_database()
"""


class ServerTime:
    """What the server's processes have used that answer connections; nothing without a server."""

    def __init__(self, store: str | None) -> None:
        self._db = None
        self._known: dict[int, int] = {}
        self._ignored: set[int] = set()
        if store is not None and store.startswith("postgres"):
            import psycopg

            self._db = psycopg.connect(store, autocommit=True)

    def pids(self) -> set[int]:
        """Those processes."""
        return set() if self._db is None else {pid for (pid,) in self._db.execute(BACKENDS)}

    def ignore(self, pids: set[int]) -> None:
        """Do not count these: they answer somebody else."""
        self._ignored |= pids

    def seconds(self) -> float:
        """So far; that of processes that have ended stays counted."""
        if self._db is not None:
            for pid in self.pids() - self._ignored:
                used = Path(f"/proc/{pid}/schedstat").read_text().split()[0]
                self._known[pid] = int(used)
        return sum(self._known.values()) / 1e9

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
