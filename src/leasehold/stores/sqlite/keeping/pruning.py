"""Pruning: rules.cleaning decides; here it is given a look at the store, and a way to write."""

from __future__ import annotations

from leasehold.core.model.retention import PruneReport, RetentionPolicy, Scope
from leasehold.core.model.settings import retention_by
from leasehold.core.model.stored import UNREADABLE
from leasehold.core.rules import cleaning
from leasehold.errors import LeaseholdError
from leasehold.stores.sqlite.disk import space
from leasehold.stores.sqlite.keeping.finding import CleanUpLook
from leasehold.stores.sqlite.keeping.removing import Removal
from leasehold.stores.sqlite.rules import settings
from leasehold.stores.sqlite.writing.database import Database
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
    store = cleaned_store(database, CleanUpLook, Removal)
    report = None
    try:
        report = cleaning.prune(store, run, order)
    except UNREADABLE as error:
        # The record of an earlier clean-up, as a rule: who only looks has nobody to mend it.
        if isinstance(error, LeaseholdError) or not database.mend():
            raise
    # Not while the error is handled: its traceback keeps alive what the reader saw.
    report = report or cleaning.prune(store, run, order)
    if run is None and report.run is not None:
        # Damage that no write has met yet is looked for once per clean-up.
        database.mend()
    if run is not None:
        with database.read() as db:
            space.checkpoint(db)
    return report


def _policy(database: Database) -> RetentionPolicy:
    with database.read() as db:
        return retention_by(settings.load(db).values, RetentionPolicy())
