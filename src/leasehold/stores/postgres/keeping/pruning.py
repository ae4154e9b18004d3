"""Pruning: rules.cleaning decides; here it is given a look at the store, and a way to write."""

from __future__ import annotations

from leasehold.core.model.retention import PruneReport, RetentionPolicy, Scope
from leasehold.core.model.settings import retention_by
from leasehold.core.rules import cleaning
from leasehold.stores.postgres.keeping.finding import CleanUpLook
from leasehold.stores.postgres.keeping.removing import Removal
from leasehold.stores.postgres.rules import settings
from leasehold.stores.postgres.writing.database import Database
from leasehold.stores.tables.pruning import cleaned_store


def prune(
    database: Database,
    policy: RetentionPolicy | None,
    run: int | None,
    scope: Scope,
    limit: int,
    actor: str,
) -> PruneReport:
    """Begin a clean-up, or go on with one."""
    order = cleaning.PruneRequest(policy or _policy(database), scope, limit, actor)
    return cleaning.prune(cleaned_store(database, CleanUpLook, Removal), run, order)


def _policy(database: Database) -> RetentionPolicy:
    with database.read() as db:
        return retention_by(settings.load(db).values, RetentionPolicy())
