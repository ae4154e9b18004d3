"""The raw limit: a bare apsw loop that writes the very rows Leasehold writes, and nothing else.

No worker, no threads, no task code, no validation: one connection in one thread, with the store's
own schema and statements. What Leasehold reaches beside it is the price of everything else.
"""

from __future__ import annotations

import time
from typing import Any

import apsw

from leasehold.env import SYSTEM
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.disk.connection import open_writer
from leasehold.stores.sqlite.disk.files import Durability, StoreFiles
from leasehold.stores.sqlite.leasing.ends import END_LEASE, INSERT_ATTEMPT, INSERT_FINISHED
from leasehold.stores.sqlite.leasing.lease import GRANT
from leasehold.stores.sqlite.leasing.order import ENTER_NEW, LEAVE, READY_IN_LANE
from leasehold.stores.sqlite.submitting.submit import INSERT_JOB
from leasehold.stores.sqlite.writing.step import READ_STATE, WRITE_STATE

LEASE = 300_000_000  # microseconds
PAYLOAD = b'{"args":[],"kwargs":{}}'
LANE = "INSERT INTO lane (id, queue, task) VALUES (1, 'default', 'benchmarks.tasks:noop')"
COUNT_SUBMITTED = "UPDATE lane SET pending = pending + ?1, total_submitted = total_submitted + ?1"
COUNT_DRAINED = """
    UPDATE lane SET pending = pending - ?1, running = running + ?1 - ?2, completed = completed + ?2,
                    total_completed = total_completed + ?2
"""


def open_raw(path: str, durability: Durability) -> apsw.Connection:
    """An empty store's file, opened the way the store opens it."""
    SQLiteStore(path, durability=durability).close()
    db = open_writer(StoreFiles.at(path).database, durability)
    db.execute(LANE)
    return db


def submit(path: str, durability: Durability, jobs: int, batch: int) -> float:
    """Jobs per second, inserted `batch` to a transaction."""
    db = open_raw(path, durability)
    started = time.perf_counter()
    for first in range(0, jobs, batch):
        db.execute("BEGIN IMMEDIATE")
        now = time.time_ns() // 1000
        _, _, seq, *_ = db.execute(READ_STATE).fetchone() or (0, 0, 0)
        numbers = range(seq, seq + min(batch, jobs - first))
        db.executemany(INSERT_JOB, [_job(number, now) for number in numbers])
        db.executemany(ENTER_NEW, [(1, 50, now, number, None) for number in numbers])
        db.execute(COUNT_SUBMITTED, (len(numbers),))
        db.execute(WRITE_STATE, (now, 0, numbers.stop))
        db.execute("COMMIT")
    rate = jobs / (time.perf_counter() - started)
    db.close()
    return rate


def single_insert(path: str, durability: Durability, jobs: int) -> float:
    """Transactions per second of one INSERT into one table each: the least there can be."""
    db = open_raw(path, durability)
    started = time.perf_counter()
    for number in range(1, jobs + 1):
        db.execute("BEGIN IMMEDIATE")
        db.execute(INSERT_JOB, _job(number, time.time_ns() // 1000))
        db.execute("COMMIT")
    rate = jobs / (time.perf_counter() - started)
    db.close()
    return rate


def drain(path: str, durability: Durability, jobs: int, batch: int = 100) -> float:
    """Jobs per second, leased and completed `batch` to a transaction, fenced, with history."""
    submit(path, durability, jobs, 10_000)
    db = open_writer(StoreFiles.at(path).database, durability)
    held: list[tuple[int, int]] = []
    started = time.perf_counter()
    while True:
        db.execute("BEGIN IMMEDIATE")
        now = time.time_ns() // 1000
        db.execute(READ_STATE).fetchone()
        ended: list[tuple[Any, ...]] = db.executemany(END_LEASE, held).fetchall()
        db.executemany(
            INSERT_ATTEMPT,
            [
                (s, v, 1, w, a, now, 4, 5, 1, n, e + 1, *(None,) * 7, LEASE)
                for s, v, w, a, _, e, n, *_ in ended
            ],
        )
        db.executemany(
            INSERT_FINISHED,
            [
                (row[0], 5, now, row[3], row[7], 1, 1, row[5] + 1, b"null", None, None)
                for row in ended
            ],
        )
        rows = db.execute(f"{READY_IN_LANE} LIMIT ?", (1, batch)).fetchall()
        db.executemany(LEAVE, [(1, *row[:3]) for row in rows])
        db.executemany(
            GRANT,
            [
                (row[2], 1, "bench", now, now + LEASE, now, 1, 2, 2, row[4], LEASE, 0)
                for row in rows
            ],
        )
        db.execute(COUNT_DRAINED, (len(rows), len(ended)))
        db.execute(WRITE_STATE, (now, 0, jobs + 1))
        db.execute("COMMIT")
        held = [(int(str(row[2])), 1) for row in rows]
        if not held:
            break
    rate = jobs / (time.perf_counter() - started)
    db.close()
    return rate


def _job(number: int, now: int) -> tuple[object, ...]:
    return (
        number,
        SYSTEM.new_id(),
        1,
        50,
        2,
        now,
        3,
        4,
        *(None,) * 10,
        PAYLOAD,
        None,
    )
