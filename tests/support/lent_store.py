"""A PostgreSQL store whose schema is lent, and used again when it is closed."""

from __future__ import annotations

from leasehold.env import Env
from leasehold.stores.postgres import PostgresStore
from support.servers import Schemas


class LentStore(PostgresStore):
    """One for a test that makes many. Its connections come from `Schemas.open_pool`."""

    def __init__(self, schemas: Schemas, env: Env) -> None:
        self._schemas = schemas
        self._url = schemas.lend()
        super().__init__(self._url, env=env)

    def close(self) -> None:
        super().close()
        self._schemas.take_back(self._url, "DROP TABLE IF EXISTS public.app_row")
