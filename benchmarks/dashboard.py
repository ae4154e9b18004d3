"""How long every page of the dashboard takes on a large store, and what open browsers cost.

    python -m benchmarks.dashboard                        # a million jobs, in a file of its own
    python -m benchmarks.dashboard --jobs 100000 --store postgresql://...
    python -m benchmarks.dashboard --store large.db       # once more on a store that was kept
    python -m benchmarks.dashboard --live live.db         # twenty browsers, on a store of a path

The store gets so many jobs in every status and of five priorities, 5,000 tasks in 500 queues, 200
workers, workflows, failures, deploy marks and figures of a day in which every queue was busy every
minute; then each page is asked for a few times, by a dashboard and a store of its own: the first
answer finds nothing in any cache, the best of the others is what a person who looks on sees. The
processor time of this process, and of a PostgreSQL server's processes that answered it, is told
beside each, which hardly depends on what else the machine does: with --busy, only that decides
which page is slow.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from benchmarks.live import ALLOWED_SHARE, BROWSERS, browsers
from benchmarks.minutes import fill_latest, fill_minutes
from benchmarks.server_time import ServerTime
from leasehold.connect import connect
from leasehold.core.contract.store import Store
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete, Fail, JobError
from leasehold.core.model.records import WorkerInfo
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.dashboard import dashboard
from leasehold.dashboard.app import LOADED_LATE
from leasehold.dashboard.shown import compile_templates
from leasehold.queue.facade import TaskQueue

QUEUES = 500
TASKS_PER_QUEUE = 10
WORKERS = 200
BATCH = 1000
SERVED = 10
"""So many queues each worker serves."""
AGAIN = 4
ALERT_MINUTES = 7
HOUR_MINUTES = 70
ALLOWED_SECONDS = 0.3


def drafts(jobs: int) -> Iterator[Draft]:
    """Jobs of every queue and task; one in fifty belongs to a workflow of ten."""
    for number in range(jobs):
        queue = number % QUEUES
        task = number // QUEUES % TASKS_PER_QUEUE
        workflow = number // 500 * 500 + number % 50 if number % 500 >= 490 else None
        yield Draft(
            id=f"job-{number:09}",
            queue=f"queue-{queue:03}",
            task=f"app.part{queue:03}:task_{task}",
            payload=b'{"order":%d}' % number,
            priority=number // QUEUES % 5 * 25,
            delay_seconds=3600.0 if number % 20 == 0 else 0.0,
            metadata={"tenant": f"t{number % 997}"},
            parent_id=None if workflow is None else f"flow-{workflow}",
            max_retries=0 if number % 3 == 0 else 3,
        )


def fill(store: Store, jobs: int) -> None:
    """Submit them, and let most of them end: one attempt in ten fails."""
    wanted = drafts(jobs)
    while batch := list(islice(wanted, BATCH)):
        store.submit(batch)
    queues = queue_names()
    for start, queue in enumerate(queues):
        left = jobs // QUEUES * 7 // 10
        while left > 0:
            request = LeaseRequest(worker=f"w-{start}", queues=(queue,), limit=min(left, BATCH))
            leases = store.exchange(request=request).leases
            if not leases:
                break
            ends = [Settlement(each.job_id, each.version, _outcome(each)) for each in leases]
            store.exchange(ends)
            left -= len(leases)
    register_workers(store)
    for number in range(WORKERS):
        served = queues[number : number + SERVED]
        request = LeaseRequest(worker=f"worker-{number:03}", queues=served, limit=4)
        store.exchange(request=request)
    store.pin("deploy", "v1.2", "", actor="bench")
    fill_minutes(store, queues)


def register_workers(store: Store) -> None:
    """Workers that give a sign of life now: those of a store that was kept are long silent."""
    for number in range(WORKERS):
        store.register_worker(
            WorkerInfo(
                id=f"worker-{number:03}",
                host=f"host-{number % 20}",
                pid=number + 1,
                queues=queue_names()[number : number + SERVED],
                slots=8,
                started_at=store.now(),
                heartbeat_at=store.now(),
                tasks=tuple(f"app.part{number:03}:task_{task}" for task in range(TASKS_PER_QUEUE)),
            )
        )


def queue_names() -> tuple[str, ...]:
    return tuple(f"queue-{number:03}" for number in range(QUEUES))


def _outcome(lease: Any) -> Any:
    number = int(lease.job_id.rpartition("-")[2])
    if number % 10:
        return Complete(b'"done"')
    kind = f"order {number} was refused by till {number % 7}"
    return Fail(JobError(f"Error{number % 40}", kind), retryable=number % 30 != 0)


def pages(queue: TaskQueue) -> list[str]:
    """Every page, with things that are there."""
    [dead] = queue.store.search(JobFilter(statuses=(Status.DEAD,)), limit=1).jobs
    [failure] = queue.failures(limit=1)
    [child] = queue.store.search(JobFilter(has_parent=True), limit=1).jobs
    return [
        "", "?over=24h", "?over=30d", "queues", "queue?name=queue-007",
        "queue?name=queue-007&over=24h", "queue?name=queue-007&over=30d",
        "queue-rules?name=queue-007", "jobs", "jobs?q=status:dead", "jobs?q=queue:queue-007",
        "jobs?q=task:app.part007:task_3", "jobs?q=meta.tenant:t5", "jobs?q=error:Error7",
        # Nothing is found by these, however far is read.
        "jobs?q=error:Nowhere", "jobs?q=meta.tenant:nobody", "jobs?q=nowhere",
        "jobs?q=nowhere created>-30d", "jobs?q=queue:queue-007 error:Nowhere",
        "jobs?q=status:dead error:Nowhere", "jobs?q=priority:99", "jobs?q=ended>-1s",
        "jobs?q=status:pending error:Nowhere", "jobs?q=key:nobody", "jobs?q=limit_key:nobody",
        "jobs?q=task:nobody", "jobs?q=parent:nobody",
        f"job?id={dead.id}", "failures", "failures?queue=queue-007",
        f"failure?fingerprint={failure.fingerprint}", "dead-letters", "workflows",
        f"workflow?id={child.parent_id}", "schedules", "workers", "operations", "health",
        "settings", "audit", "confirm?order=replay-letters",
        "confirm?order=cancel-found&q=queue:queue-007",
    ]  # fmt: skip


class Took(NamedTuple):
    """How long a page took, in seconds: its first answer, and the best of the next ones."""

    page: str
    first: float
    first_processor: float
    again: float
    processor: float
    size: int


async def measure(store: Store, url: str, server: ServerTime) -> AsyncIterator[Took]:
    """Each page, a few times, from a dashboard of its own: nothing is known from the one before."""
    for name in LOADED_LATE:  # A server does both as soon as it has started.
        import_module(name)
    compile_templates()
    for page in pages(TaskQueue(store, num_workers=0)):
        # The alert rules and the rates are about the last minutes: all queues are busy in them.
        fill_latest(store, queue_names(), ALERT_MINUTES)
        own = connect(url)
        own.now()
        app = dashboard(TaskQueue(own, num_workers=0), insecure=True)
        transport = httpx.ASGITransport(app=app)
        took, processor = [], []
        gc.collect()
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            for _ in range(AGAIN):
                began_work = time.process_time() + server.seconds()
                began = time.perf_counter()
                answer = await client.get(f"/{page}", timeout=600)
                took.append(time.perf_counter() - began)
                processor.append(time.process_time() + server.seconds() - began_work)
                if answer.status_code != 200:
                    print(f"{page}: {answer.status_code}", flush=True)
        own.close()
        best = min(took[1:]), min(processor[1:])
        yield Took(page, took[0], processor[0], *best, len(answer.content))


async def tell(store: Store, url: str, server: ServerTime, *, busy: bool) -> None:
    """A line for each page, as soon as it is known."""
    print(f"{'page':48} {'first':>9} {'of it cpu':>9} {'again':>9} {'of it cpu':>9} {'KiB':>7}")
    async for each in measure(store, url, server):
        longest = max(each.first_processor, each.processor) if busy else max(each.first, each.again)
        slow = "  slow" if longest > ALLOWED_SECONDS else ""
        times = " ".join(f"{seconds * 1e3:6.0f} ms" for seconds in each[1:5])
        print(f"{each.page or 'overview':48} {times} {each.size / 1024:7.0f}{slow}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--store", help="Empty or kept; else a file that is deleted at the end.")
    parser.add_argument("--live", metavar="PATH", help="What browsers cost, on the store at PATH.")
    parser.add_argument("--busy", action="store_true", help="The machine has other work to do.")
    asked = parser.parse_args()
    if asked.live is not None:
        tell_live(asked.live)
        return
    with tempfile.TemporaryDirectory() as folder:
        url = asked.store or str(Path(folder) / "large.db")
        store = connect(url)
        began = time.perf_counter()
        if not store.queues():
            fill(store, asked.jobs)
            print(f"{asked.jobs:,} jobs in {time.perf_counter() - began:.0f} s", flush=True)
        fill_latest(store, queue_names(), HOUR_MINUTES)
        register_workers(store)
        server = ServerTime(asked.store)
        asyncio.run(tell(store, url, server, busy=asked.busy))
        server.close()
        store.close()


def tell_live(path: str) -> None:
    """What browsers cost that have pages of the store at a path open."""
    store = connect(path)
    fill_latest(store, queue_names(), HOUR_MINUTES)
    register_workers(store)
    store.close()
    for pages, cost in browsers(path):
        dear = "  too much" if cost.share > ALLOWED_SHARE else ""
        told = f"{cost.events} events, {cost.looks} looks"
        print(f"{BROWSERS} on {pages}, {cost.name}: {cost.share:.1%} of a core ({told}){dear}")


if __name__ == "__main__":
    main()
