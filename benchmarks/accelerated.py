"""`python -m benchmarks.accelerated`: what Redis beside PostgreSQL buys, and what is left of that
while Redis is away: the tables of docs/redis.md.

One server of each, started for it, on this machine. Everything is measured without Redis, with it,
and after it was killed. Ratios within one run mean something, rates do not.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import threading
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import redis

from benchmarks.server_time import ServerTime
from leasehold.connect import connect
from leasehold.core.contract.store import Store
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.queue_config import QueueConfig
from leasehold.env import SYSTEM
from leasehold.stores.postgres import PostgresStore
from support.poolers import pgbouncer
from support.redis_servers import RedisServer, redis_server
from support.servers import postgres

WAYS = ("without Redis", "with Redis", "while Redis is down")
THREADS = 8
NO_LIMIT_PER_SECOND = 1_000_000
BATCHES = (1, 10, 100)
DEAD_ROWS = (30_000, 300_000)
EXCHANGES = 200
# Both lock as a lease does, and undo it.
FIND = """
    SELECT lane, tier, turn, seq FROM {0}.ready WHERE lane = 1 ORDER BY tier, turn, seq LIMIT %s
    FOR UPDATE SKIP LOCKED
"""
CONFIRM = """
    SELECT ready.seq FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[])
        AS given (lane, tier, turn, seq) JOIN {0}.ready USING (lane, tier, turn, seq)
    FOR UPDATE OF ready SKIP LOCKED
"""


class Ear:
    """A listener that notes when it was last told to look for jobs."""

    def __init__(self) -> None:
        self.told_at = 0.0
        self.told = threading.Event()

    def on_ready(self) -> None:
        self.told_at = time.perf_counter()
        self.told.set()

    def on_ended(self, job_ids: Collection[str] | None) -> None:
        """Nothing is known of these."""

    def on_cancel_requested(self, job_ids: Collection[str] | None) -> None:
        """Nor of these."""


class Run:
    """One run: both servers, and what came of it."""

    def __init__(self, url: str, accelerator: RedisServer, share: float) -> None:
        self.url = url
        self.accelerator = accelerator
        self._share = share
        self._made = 0
        self.rows: list[dict[str, Any]] = []

    def count(self, number: int) -> int:
        return max(2, int(number * self._share))

    def row(self, what: str, unit: str, found: dict[str, float]) -> None:
        """Note figures, and show them as a line of docs/redis.md."""
        print(f"| {what}, {unit} | {' | '.join(f'{each:,.2f}' for each in found.values())} |")
        self.rows.append({"what": what, "unit": unit, "found": found})

    def fresh(self) -> str:
        self._made += 1
        return f"schema=accelerated_{self._made}"

    @contextmanager
    def stores(self, place: str, way: str, number: int) -> Iterator[list[Store]]:
        """So many, as many processes would have them, in this state of Redis."""
        url = f"{place}&{self.fresh()}"
        if way != WAYS[0]:
            self.accelerator.kill()
            self.accelerator.start()
            url += f"&redis={self.accelerator.url}"
        opened = [connect(url) for _ in range(number)]
        try:
            opened[0].submit([_draft()])
            if way == WAYS[2]:
                self.accelerator.kill()
            yield opened
        finally:
            for each in opened:
                each.close()


def _draft() -> Draft:
    return Draft(id=SYSTEM.new_id(), task="work")


def noticed(run: Run) -> None:
    """From a commit to a listener of another store object."""
    with pgbouncer(run.url) as pooled:
        for what, place in (("behind a pooler", pooled), ("on a direct connection", run.url)):
            found = {}
            for way in WAYS:
                with run.stores(place, way, 2) as (sender, hearer):
                    waits = _noticed_millis(sender, hearer, run.count(100))
                found[way] = statistics.median(waits)
            run.row(f"a new job is noticed {what}, p50", "ms", found)


def _noticed_millis(sender: Store, hearer: Store, count: int) -> list[float]:
    ear = Ear()
    end = hearer.subscribe(ear)
    waits = []
    for _ in range(count):
        time.sleep(random.uniform(0.02, 0.1))
        ear.told.clear()
        sender.submit([_draft()])
        committed = time.perf_counter()
        ear.told.wait()
        # News may be quicker than the answer to the commit.
        waits.append(1000 * max(0.0, ear.told_at - committed))
    end()
    return waits


def rates(run: Run) -> None:
    """Threads that submit one job at a time to a queue with an enqueue rate that refuses none."""
    limits = {"a queue with `rate_per_second`": NO_LIMIT_PER_SECOND, "a plain queue": None}
    for what, limit in limits.items():
        rate, processor = {}, {}
        for way in WAYS:
            rate[way], processor[way] = _submitted(run, way, limit)
        run.row(f"submits to {what}", "per second", rate)
        run.row(f"processor time of the database for one to {what}", "ms", processor)


def _submitted(run: Run, way: str, limit: float | None) -> tuple[float, float]:
    jobs = run.count(800)
    with run.stores(run.url, way, 1) as (store,):
        if limit is not None:
            store.create_queue("default", QueueConfig(rate_per_second=limit), actor="bench")
        with closing(ServerTime(run.url)) as server, ThreadPoolExecutor(THREADS) as pool:
            before, began = server.seconds(), time.perf_counter()
            list(pool.map(lambda _: store.submit([_draft()]), range(jobs)))
            took = time.perf_counter() - began
            return jobs / took, 1000 * (server.seconds() - before) / jobs


def order(run: Run) -> None:
    """The best jobs of a deep queue: found by PostgreSQL, or found by Redis and confirmed."""
    depth = run.count(200_000)
    schema = run.fresh().partition("=")[2]
    with closing(connect(f"{run.url}&schema={schema}")) as store:
        _fill(store, depth)
    run.accelerator.kill()
    run.accelerator.start()
    with (
        psycopg.connect(run.url, autocommit=True) as db,
        redis.Redis.from_url(run.accelerator.url) as client,
        closing(ServerTime(run.url)) as server,
    ):
        db.execute(f"ANALYZE {schema}.ready".encode())
        ready = db.execute(f"SELECT lane, tier, turn, seq FROM {schema}.ready".encode()).fetchall()
        for first in range(0, len(ready), 10_000):
            keys = {repr(each): first + n for n, each in enumerate(ready[first : first + 10_000])}
            client.zadd("ready", keys)
        times = run.count(2_000)
        for batch in BATCHES:
            best: Any = db.execute(FIND.format(schema).encode(), (batch,)).fetchall()
            columns = [list(column) for column in zip(*best, strict=True)]
            found = {
                "PostgreSQL finds": _micros(server, db, times, FIND.format(schema), (batch,)),
                "PostgreSQL confirms": _micros(server, db, times, CONFIRM.format(schema), columns),
                "Redis finds, client included": _micros_here(
                    times, partial(client.zrange, "ready", 0, batch - 1)
                ),
            }
            run.row(f"{batch} of {depth:,}: {', '.join(found)}", "us", found)


def old_transaction(run: Run) -> None:
    """Leases while a transaction has been open since before so many jobs ended: PostgreSQL may not
    remove their rows, and reads past them. With Redis, the order of jobs is asked of it.
    """
    for dead in (0, *(run.count(each) for each in DEAD_ROWS)):
        for jobs in (1, 100):
            found, processor = {}, {}
            for way in WAYS:
                found[way], processor[way] = _leased_millis(run, way, dead, jobs)
            row = f"lease and completion of {jobs} after {dead:,} jobs"
            run.row(row, "ms", found)
            run.row(f"processor time of the database for {row}", "ms", processor)


def _leased_millis(run: Run, way: str, dead: int, jobs: int) -> tuple[float, float]:
    """The median time, and the mean processor time, of an exchange about so many jobs."""
    times = run.count(EXCHANGES)
    with run.stores(run.url, way, 1) as (store,), psycopg.connect(run.url) as old:
        old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT count(*) FROM pg_class")
        _fill(store, dead + times * jobs)
        ended: list[Settlement] = []
        while dead > 0:
            ended = _exchanged(store, ended, min(dead, 1000))
            dead -= len(ended)
        # As the thread of a worker does every two seconds.
        assert isinstance(store, PostgresStore)
        store._index_keeper.look()  # noqa: SLF001
        waits = []
        with closing(ServerTime(run.url)) as server:
            before = server.seconds()
            for _ in range(times):
                began = time.perf_counter()
                ended = _exchanged(store, ended, jobs)
                waits.append(1000 * (time.perf_counter() - began))
            took = server.seconds() - before
    return statistics.median(waits), 1000 * took / times


def _fill(store: Store, depth: int) -> None:
    for first in range(0, depth, 10_000):
        store.submit([_draft() for _ in range(min(10_000, depth - first))])


def _exchanged(store: Store, ended: list[Settlement], jobs: int) -> list[Settlement]:
    """Complete those and lease others; how these are to be completed."""
    leases = store.exchange(ended, LeaseRequest(worker="w", limit=jobs)).leases
    return [Settlement(each.job_id, each.version, Complete()) for each in leases]


def _micros(server: ServerTime, db: Any, times: int, statement: str, values: Any) -> float:
    before = server.seconds()
    for _ in range(times):
        with db.transaction(force_rollback=True):
            db.execute(statement.encode(), values)
    return 1e6 * (server.seconds() - before) / times


def _micros_here(times: int, call: Callable[[], object]) -> float:
    before = time.process_time()
    for _ in range(times):
        call()
    return 1e6 * (time.process_time() - before) / times


PARTS: dict[str, Callable[[Run], None]] = {
    "noticed": noticed,
    "rates": rates,
    "order": order,
    "old_transaction": old_transaction,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accelerated", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART",
                        help=f"of {', '.join(PARTS)}")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, to try it")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows there")
    options = parser.parse_args()
    with postgres(durable=True) as url, redis_server() as accelerator:
        run = Run(url, accelerator, 0.1 if options.quick else 1.0)
        print(f"| | {' | '.join(WAYS)} |\n| --- | --- | --- | --- |")
        for part in options.only:
            PARTS[part](run)
        if options.json is not None:
            options.json.write_text(json.dumps(run.rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
