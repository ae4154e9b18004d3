"""The registry of workers, whose lives are locks of a session; see `tables.recover`."""

from __future__ import annotations

from leasehold.core.model.lives import Life
from leasehold.core.model.records import WorkerInfo
from leasehold.stores.postgres.server.connection import unnested
from leasehold.stores.postgres.server.failures import translated
from leasehold.stores.postgres.server.life import SessionLife
from leasehold.stores.postgres.writing.database import Database
from leasehold.stores.tables.recover import TableRegistry


class Registry(TableRegistry):
    """The registry of a store's workers."""

    add = """
        INSERT INTO worker VALUES ($1, $2, $3, $4, $5, $6, $7, $7, $8, false, $9)
        ON CONFLICT (id) DO UPDATE SET host = excluded.host, pid = excluded.pid,
            queues = excluded.queues, tasks = excluded.tasks, slots = excluded.slots,
            started_at = excluded.started_at, heartbeat_at = excluded.heartbeat_at,
            life = excluded.life, is_consumer = false, app_version = excluded.app_version
    """
    forget = f"""
        DELETE FROM worker USING {unnested("text integer")} AS over (id, life)
        WHERE worker.id = over.id AND worker.life = over.life
    """  # noqa: S608  # our own names
    _database: Database

    def register(self, info: WorkerInfo) -> SessionLife:
        database = self._database
        # Held before it is in the registry, so that it is never seen there with its lock free.
        with translated(database.address):
            life = Life(info.id, database.session.begin_life())

        def leave() -> None:
            self._leave(life)
            database.session.let_go(life.number)

        try:
            self._enter(info, life)
        except BaseException:
            database.session.let_go(life.number)
            raise
        database.lives.begin(life)
        return SessionLife(database.session.fileno, leave)
