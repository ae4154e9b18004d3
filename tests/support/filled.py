"""A PostgreSQL store with very many jobs, and a planner that knows nothing, or nothing true."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.effort import drawn

if TYPE_CHECKING:
    import psycopg

JOBS = drawn(100_000)
RUNNING = 500
"""Leases are few, so that a statement may read all of them; but not all of them for each job."""

# Jobs of other people, in a queue of their own: a quarter of them pending, waiting and blocked, the
# rest ended. With each goes all that may go with a job.
FILL = f"""
    CREATE TEMPORARY TABLE other ON COMMIT DROP AS
        SELECT g AS seq, (g % 4)::integer AS kind, 'other-' || g AS id
        FROM generate_series(1000001, 1000000 + {JOBS}) AS g;
    INSERT INTO lane (queue, task, made_at) VALUES ('others', 'work', 0);
    INSERT INTO job (seq, id, lane, priority, born, created_at, max_retries, allowance, parent_id,
                     payload, limit_key, start_by, idempotency_key)
        SELECT seq, id, (SELECT id FROM lane WHERE queue = 'others'), 50, 2, 0, 3, 3,
               CASE WHEN kind = 0 THEN 'group-' || seq % 100 END, 'x', 'key-' || seq % 1000,
               CASE WHEN kind = 3 THEN 9e15::bigint END, id
        FROM other;
    INSERT INTO ready SELECT (SELECT id FROM lane WHERE queue = 'others'), 0, seq, seq, 0, 0, 1,
                             seq, 'group-' || seq % 100
        FROM other WHERE kind = 0;
    INSERT INTO place SELECT seq, 0, seq, NULL, NULL, seq % 1000 FROM other WHERE kind = 0;
    INSERT INTO waiting SELECT seq, 1, 9e15::bigint, 0, 0, 0, 1, NULL FROM other WHERE kind = 1;
    INSERT INTO waiting SELECT seq, 1, NULL, 0, 0, 0, 1, NULL FROM other WHERE kind = 2;
    INSERT INTO blocker SELECT seq + 1, seq FROM other WHERE kind = 2;
    INSERT INTO dependent SELECT seq, 0, 0, NULL FROM other WHERE kind = 2;
    INSERT INTO dependency SELECT seq, 0, seq + 1, 'other-' || seq + 1 FROM other WHERE kind = 2;
    INSERT INTO raised SELECT seq, 90 FROM other WHERE kind = 0;
    INSERT INTO running SELECT seq, seq, 'someone', 0, 9e15::bigint, 9e15::bigint, 1, 1, 1, 0, NULL,
                               1, 0
        FROM other WHERE kind = 3 AND seq <= 1000000 + 4 * {RUNNING};
    INSERT INTO finished SELECT seq, 5, 9e15::bigint + seq, 0, 0, seq, 1, 3, NULL, NULL, NULL
        FROM other WHERE kind = 3 AND seq > 1000000 + 4 * {RUNNING};
    INSERT INTO attempt
        SELECT seq, seq, 1, 'someone', 0, 0, 5, 5, 1, 2, 3, NULL, NULL, NULL, NULL, NULL, NULL,
               NULL, 1
        FROM other WHERE kind = 3;
    INSERT INTO event SELECT seq, 2, 0, 1, 1, 2, 0, NULL, 0, NULL FROM other;
    INSERT INTO failed_job SELECT seq, 1, 0, 0 FROM other;
    INSERT INTO progress SELECT seq, '{{}}' FROM other;
    INSERT INTO log SELECT seq, 1, 0, 'line' FROM other;
    INSERT INTO key_lane (queue, key, lane) SELECT 'others', 'key-' || g, -g
        FROM generate_series(1, 10000) AS g;
    INSERT INTO idempotency SELECT 'others', id, seq, '', 9e15::bigint FROM other;
"""
TABLES = """
    SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace
        AND relkind = 'r' AND relname NOT IN ('migration', 'store_state')
"""
# By itself the server counts live rows a second later.
COUNT_NOW = b"SELECT pg_stat_force_next_flush()"
COUNTS_WHEN_TOLD = 15_00_00
"""The first version that has it."""


def fill(db: psycopg.Connection, *, was_vacuumed_empty: bool) -> None:
    """Fill a store's tables, which nobody analyzes; they may have been vacuumed while empty."""
    if db.info.server_version < COUNTS_WHEN_TOLD:
        pytest.skip("this server counts live rows when it likes: nothing can be said of its plans")
    tables = [table for (table,) in db.execute(TABLES)]
    for table in tables:
        db.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)".encode())
    if was_vacuumed_empty:
        with db.transaction():
            db.execute(FILL.encode())
        for table in tables:
            db.execute(f"DELETE FROM {table}".encode())
        db.execute(COUNT_NOW)
        for table in tables:
            # Its pages stay, as when others look at it meanwhile.
            db.execute(f"VACUUM (TRUNCATE off, ANALYZE) {table}".encode())
    with db.transaction():
        db.execute(FILL.encode())
    db.execute(COUNT_NOW)
