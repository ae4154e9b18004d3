"""A client of a PostgreSQL store that stops in the midst of a write: `... URL HOW`.

It goes on when it is told to (SIGCONT), and says how its write ended.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from leasehold.core.model.job import Draft
from leasehold.stores.postgres import PostgresStore
from leasehold.stores.postgres.server.connection import SqlConnection, SqlCursor
from leasehold.stores.postgres.writing.turn import ALONE, SHARED


def main(url: str, how: str) -> None:
    store = PostgresStore(url)
    execute, has_stopped = SqlConnection.execute, False

    def stop_after_turn(db: SqlConnection, statement: str, values: Any = None) -> SqlCursor:
        nonlocal has_stopped
        cursor = execute(db, statement, values)
        if statement in (ALONE, SHARED) and not has_stopped:
            has_stopped = True
            cursor.fetchone()
            os.kill(os.getpid(), signal.SIGSTOP)
        return cursor

    SqlConnection.execute = stop_after_turn  # type: ignore[assignment, method-assign]
    key = "key" if how == "alone" else None
    (answer,) = store.submit([Draft(id="frozen", task="t", idempotency_key=key)])
    sys.stdout.write(f"{answer}\n")
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
