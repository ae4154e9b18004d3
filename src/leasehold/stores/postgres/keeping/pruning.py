"""Pruning: rules.cleaning decides; here it is given a look at the store, and a way to write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from leasehold.core.model.retention import PruneReport, RetentionPolicy, Scope
from leasehold.core.model.settings import retention_by
from leasehold.core.rules import cleaning
from leasehold.core.rules.cleanup_store import CleanedStore, CleanUpLook, CleanUpWrite
from leasehold.stores.postgres.keeping.finding import Look
from leasehold.stores.postgres.keeping.removing import Removal
from leasehold.stores.postgres.rules import settings
from leasehold.stores.postgres.writing.database import Database


def prune(
    database: Database,
    policy: RetentionPolicy | None,
    run: int | None,
    scope: Scope,
    limit: int,
    actor: str,
) -> PruneReport:
    """Begin a clean-up, or go on with one."""

    @contextmanager
    def look() -> Iterator[CleanUpLook[int]]:
        with database.read() as db:
            yield Look(db, database.now(db))

    def remove(operation: Callable[[CleanUpWrite[int]], PruneReport]) -> PruneReport:
        return database.write(lambda step: operation(Removal(step)))

    order = cleaning.Order(policy or _policy(database), scope, limit, actor)
    return cleaning.prune(CleanedStore(look, remove, database.env.clock.monotonic), run, order)


def _policy(database: Database) -> RetentionPolicy:
    with database.read() as db:
        return retention_by(settings.load(db).values, RetentionPolicy())
