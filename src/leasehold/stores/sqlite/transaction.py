"""A write transaction outside the writer: when a store is opened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import apsw


@contextmanager
def transaction(db: apsw.Connection) -> Iterator[None]:
    """Commit what is done inside, or nothing of it. Call it under the store's file lock."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        # Where the disk is full or failing, SQLite has already rolled back.
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
