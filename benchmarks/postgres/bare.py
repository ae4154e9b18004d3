"""The bare limit: the rows that a life cycle writes, by hand, many to a statement.

As in the store, each transaction settles what was leased before and leases what comes next, in a
pipeline; there is an index of what is ready, a table of what runs, one of what has ended, the
attempt, two events, and the counters. There are no checks, no fences and no tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import RawCursor

TABLES = b"""
    CREATE TABLE bare_job (seq bigint PRIMARY KEY, id text UNIQUE, payload text);
    CREATE TABLE bare_ready (turn bigint, seq bigint, PRIMARY KEY (turn, seq));
    CREATE TABLE bare_running (seq bigint PRIMARY KEY, version bigint, worker text, expires bigint);
    CREATE TABLE bare_finished (seq bigint PRIMARY KEY, at bigint, result text);
    CREATE TABLE bare_attempt (seq bigint, number int, worker text, began bigint, ended bigint,
        PRIMARY KEY (seq, number));
    CREATE TABLE bare_event (seq bigint, n int, at bigint, event int, worker text,
        PRIMARY KEY (seq, n));
    CREATE TABLE bare_count (leased bigint, completed bigint);
    CREATE SEQUENCE bare_version;
"""
FILL = (
    b"""INSERT INTO bare_job SELECT n, md5(n::text), '{"args":[],"kwargs":{}}'
        FROM generate_series(1, $1) AS n""",
    b"INSERT INTO bare_ready SELECT n, n FROM generate_series(1, $1) AS n",
)
LEASE = b"""
    WITH best AS (SELECT turn, seq FROM bare_ready ORDER BY turn, seq LIMIT $1
                  FOR UPDATE SKIP LOCKED),
    taken AS (DELETE FROM bare_ready USING best WHERE bare_ready.turn = best.turn
              AND bare_ready.seq = best.seq RETURNING bare_ready.seq)
    INSERT INTO bare_running SELECT seq, nextval('bare_version'), 'bare', 0 FROM taken RETURNING seq
"""
READ = b"SELECT seq, id, payload FROM bare_job WHERE seq = ANY($1)"
NOTE = b"INSERT INTO bare_event SELECT seq, $2, 0, $3, 'bare' FROM unnest($1::bigint[]) AS seq"
SETTLE = (
    b"DELETE FROM bare_running WHERE seq = ANY($1)",
    b"INSERT INTO bare_finished SELECT seq, 0, 'null' FROM unnest($1::bigint[]) AS seq",
    b"INSERT INTO bare_attempt SELECT seq, 1, 'bare', 0, 0 FROM unnest($1::bigint[]) AS seq",
)
COUNT = b"INSERT INTO bare_count VALUES ($1, $2)"


def fill(url: str, jobs: int) -> None:
    """The tables, and so many jobs in them."""
    with psycopg.connect(url) as db:
        db.execute(TABLES)
        for statement in FILL:
            RawCursor(db).execute(statement, (jobs,))


class Worker:
    """A loop that does nothing else."""

    def __init__(self, db: psycopg.Connection[Any]) -> None:
        self._db = db

    def work(self, batch: int) -> None:
        """Until nothing is left."""
        held: list[int] = []
        while True:
            with self._db.pipeline():
                self._send(b"BEGIN")
                if held:
                    for statement in SETTLE:
                        self._send(statement, (held,))
                    self._send(NOTE, (held, 3, 2))
                leased = [seq for (seq,) in self._send(LEASE, (batch,))]
                if leased:
                    self._send(READ, (leased,)).fetchall()
                    self._send(NOTE, (leased, 2, 1))
                self._send(COUNT, (len(leased), len(held)))
                self._send(b"COMMIT")
            held = leased
            if not held:
                return

    def _send(self, statement: bytes, values: Any = None) -> Any:
        return RawCursor(self._db).execute(statement, values, prepare=True, binary=True)


@contextmanager
def opened(url: str) -> Iterator[Worker]:
    with psycopg.connect(url, autocommit=True) as db:
        yield Worker(db)
