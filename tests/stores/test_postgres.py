"""The PostgreSQL store keeps the contract: the conformance suite, on a real server."""

from __future__ import annotations

import pytest

from leasehold.testing.conformance import MakeStore, StoreConformance
from support.servers import Schemas, needs_psycopg

needs_psycopg()

from leasehold.stores.postgres.clauses import NOT_KEPT  # noqa: E402
from leasehold.stores.postgres.reading import feed  # noqa: E402
from leasehold.stores.postgres.server import lending  # noqa: E402
from support.lent_store import LentStore  # noqa: E402

FEW_CHANGES = 2000


class TestPostgresStore(StoreConformance):
    not_kept = NOT_KEPT

    @pytest.fixture
    def make_store(self, schemas: Schemas, monkeypatch: pytest.MonkeyPatch) -> MakeStore:
        monkeypatch.setattr(lending, "open_pool", schemas.open_pool)
        return lambda env: LentStore(schemas, env)

    @pytest.fixture
    def changes_kept(self, monkeypatch: pytest.MonkeyPatch) -> int:
        """To write a hundred thousand takes long, and the bound is the same whatever it is."""
        monkeypatch.setattr(feed, "CHANGES_KEPT", FEW_CHANGES)
        return FEW_CHANGES
