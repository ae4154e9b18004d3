"""A PostgreSQL store whose leases find all jobs through Redis, in a schema that is lent."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from leasehold.core.model.lease import Exchange, LeaseRequest, Settlement
from leasehold.env import Env
from leasehold.stores.postgres import PostgresStore
from leasehold.stores.redis import RedisAccelerator
from support.redis_servers import RedisServer
from support.servers import Schemas

NOT_INDEXED = "SELECT id FROM lane WHERE id NOT IN (SELECT lane FROM indexed_lane)"


def index_all(store: PostgresStore) -> None:
    """Index every lane that is not, as if leases were slow there."""
    with store._database.read() as db:
        new = [lane for (lane,) in db.execute(NOT_INDEXED)]
    if new:
        store._index_keeper.change(new, [])


class IndexedStore(PostgresStore):
    """One for a test that makes many. Its connections come from `Schemas.open_pool`."""

    def __init__(self, schemas: Schemas, server: RedisServer, env: Env) -> None:
        self._schemas = schemas
        self._url = schemas.lend()
        # The id of a store whose schema was used before is the same, and so are its keys.
        server.command("FLUSHALL")
        super().__init__(self._url, env=env, accelerator=RedisAccelerator(server.url, env=env))
        # No thread does anything that the test has not asked for.
        self._index_keeper._thread = threading.current_thread()

    def exchange(
        self, settlements: Sequence[Settlement] = (), request: LeaseRequest | None = None
    ) -> Exchange:
        index_all(self)
        return super().exchange(settlements, request)

    def exchange_once(
        self,
        request_id: str,
        settlements: Sequence[Settlement] = (),
        request: LeaseRequest | None = None,
    ) -> Exchange:
        index_all(self)
        return super().exchange_once(request_id, settlements, request)

    def fill(self) -> None:
        """Have Redis learn all lanes anew, as it regularly does."""
        self._index_keeper.look(0.0)

    def close(self) -> None:
        super().close()
        self._schemas.take_back(self._url, "DROP TABLE IF EXISTS public.app_row")
