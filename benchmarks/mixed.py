"""What a lease costs in a queue where everything counts: priorities, deadlines, ages, attempts."""

from __future__ import annotations

import random
import statistics
import time
from datetime import UTC, datetime, timedelta

from benchmarks.bench import Bench, Row
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest
from leasehold.env import SYSTEM, Env, ManualClock
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.disk.files import Durability

AGE_HOURS = 60
BATCH = 1000
FEW = 1000


def fill(path: str, durability: Durability, jobs: int) -> None:
    """Jobs of all priorities, up to 60 hours old; half of them with a deadline around now."""
    chance = random.Random(1)
    clock = ManualClock(datetime.now(UTC) - timedelta(hours=AGE_HOURS))
    end = clock.now() + timedelta(hours=AGE_HOURS)
    store = SQLiteStore(path, env=Env(clock=clock), durability=durability)
    batches = -(-jobs // BATCH) if jobs > BATCH else 10
    for _ in range(batches):
        drafts = [_draft(chance, end) for _ in range(jobs // batches)]
        store.submit(drafts)
        clock.advance(AGE_HOURS * 3600 / batches)
    for _ in range(jobs // 1000 + 1):
        store.recover()  # What crossed while it was filled is placed anew.
    store.close()


def _draft(chance: random.Random, end: datetime) -> Draft:
    deadline = None
    if chance.random() < 0.5:
        deadline = end + timedelta(seconds=chance.uniform(-3600, 3 * 3600))
    return Draft(id=SYSTEM.new_id(), task="work", priority=chance.randrange(101), deadline=deadline)


def lease_micros(path: str, durability: Durability, leases: int) -> float:
    """What it takes to lease one job, the median."""
    store = SQLiteStore(path, durability=durability)
    request = LeaseRequest(worker="bench")
    store.exchange(request=request)
    taken = []
    for _ in range(leases):
        started = time.perf_counter()
        assert store.exchange(request=request).leases
        taken.append(time.perf_counter() - started)
    store.close()
    return 1e6 * statistics.median(taken)


def mixed(bench: Bench, durability: Durability) -> None:
    """The same lease from few and from many pending jobs."""
    name = "lease among mixed jobs"
    if not bench.wants(name):
        return
    found = {}
    for label, jobs in ((f"{FEW:,}", FEW), (f"{bench.sizes.pending:,}", bench.sizes.pending)):
        place = bench.fresh()
        bench.measure(fill, durability, jobs, store=place)
        found[label] = bench.measure(lease_micros, durability, 200, store=place)
    few, many = found.values()
    row = Row(name, durability, "us a lease", found, {"many : few": many / few})
    row.target, row.met = "flat: at most 1.5", many / few <= 1.5
    bench.add(row)
