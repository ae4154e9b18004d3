"""An id of its own for every store, by which its blobs are told from those of others.

It stays with the file, and with every copy of it: a restored backup still knows its blobs.
"""

from __future__ import annotations

from typing import Final

import apsw

from leasehold.env import Env

READ: Final = "SELECT value FROM meta WHERE key = 'store_id'"
# Guard: the first to open the store names it, for good.
NAME: Final = "INSERT INTO meta VALUES ('store_id', ?) ON CONFLICT DO NOTHING"


def ensure_store_id(db: apsw.Connection, env: Env) -> None:
    """Give a store its id, inside the transaction of its opening."""
    if not has_store_id(db):
        db.execute(NAME, (env.new_secret(),))


def has_store_id(db: apsw.Connection) -> bool:
    """Whether its making was completed: a killed one may have left the tables alone."""
    return bool(db.execute(READ).fetchall())


def read_store_id(db: apsw.Connection) -> str:
    """The id that it was given."""
    return str(db.execute(READ).fetchall()[0][0])
