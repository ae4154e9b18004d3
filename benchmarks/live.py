"""What browsers that have the dashboard open cost the server.

Each follows the stream of events as a page does, and looks at its page again when something has
changed, at most every three seconds. The server's own processor time is told, while nothing happens
and while jobs come and end. What a server does when it starts is not theirs: it takes back the jobs
of a store that was kept, and cleans up.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import httpx

from benchmarks.served import Served, served
from benchmarks.server_time import ServerTime
from leasehold.connect import connect
from leasehold.core.contract.store import Store
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.worker.pruner import Pruner

BROWSERS = 20
PAGES = ("", "queues", "jobs", "failures", "workers")
REFRESH_SECONDS = 3.0
JOBS_PER_SECOND = 20
ALLOWED_SHARE = 0.05


SETTLED_SHARE = 0.01
"""A server that takes no more of a core has done what it does when it starts."""
SETTLED_WITHIN = 300
LOOK_SECONDS = 5.0


@dataclass
class Cost:
    """What a number of browsers cost in some time."""

    name: str
    share: float
    """Of one core."""
    events: int
    looks: int


@dataclass
class _Seen:
    events: int = 0
    looks: int = 0


async def _browse(address: str, page: str, cookie: str, seen: _Seen) -> None:
    """One browser, until it is closed."""
    headers = {"Cookie": cookie}
    again = {"X-Leasehold-Again": "1"}
    loop = asyncio.get_running_loop()
    async with httpx.AsyncClient(base_url=address, headers=headers, timeout=None) as client:
        looked_at = 0.0
        async with client.stream("GET", "events") as stream:
            async for line in stream.aiter_lines():
                if not line.startswith("event:"):
                    continue
                seen.events += 1
                # Between two looks a page hears of any number of changes, and looks once.
                if loop.time() - looked_at >= REFRESH_SECONDS:
                    looked_at = loop.time()
                    (await client.get(page, headers=again)).raise_for_status()
                    seen.looks += 1


async def _work(store: Store, seconds: float) -> None:
    """Jobs that come one by one, and end."""
    for number in range(int(seconds * JOBS_PER_SECOND)):
        store.submit([Draft(id=f"live-{store.now().timestamp()}-{number}", task="t", queue="live")])
        found = store.exchange(request=LeaseRequest(worker="live", queues=("live",), limit=5))
        store.exchange([Settlement(each.job_id, each.version, Complete()) for each in found.leases])
        await asyncio.sleep(1 / JOBS_PER_SECOND)


async def _measure(
    service: Served, server: ServerTime, store: Store, pages: Sequence[str], seconds: float
) -> list[Cost]:
    address = f"http://127.0.0.1:{service.port}/dashboard/"
    async with httpx.AsyncClient(base_url=address) as client:
        answer = await client.post(
            "login", data={"token": service.token}, headers={"Sec-Fetch-Site": "same-origin"}
        )
        cookie = "; ".join(f"{name}={value}" for name, value in answer.cookies.items())
    seen = _Seen()
    browsers = [
        asyncio.create_task(_browse(address, pages[number % len(pages)], cookie, seen))
        for number in range(BROWSERS)
    ]
    costs = []
    await asyncio.sleep(2)
    for name, task in (("idle", asyncio.sleep(seconds)), ("busy", _work(store, seconds))):
        loop = asyncio.get_running_loop()
        events, looks, began = seen.events, seen.looks, loop.time()
        cpu = service.cpu_seconds() + server.seconds()
        await task
        took = loop.time() - began
        share = (service.cpu_seconds() + server.seconds() - cpu) / took
        costs.append(Cost(name, share, seen.events - events, seen.looks - looks))
    for each in browsers:
        each.cancel()
        with suppress(asyncio.CancelledError):
            await each
    return costs


def _let_settle(service: Served, server: ServerTime) -> None:
    """Wait until the service rests: it takes back lost jobs and cleans up when it starts."""
    for _ in range(int(SETTLED_WITHIN / LOOK_SECONDS)):
        began = service.cpu_seconds() + server.seconds()
        time.sleep(LOOK_SECONDS)
        used = service.cpu_seconds() + server.seconds() - began
        if used <= SETTLED_SHARE * LOOK_SECONDS:
            return


def browsers(path: str, *, seconds: float = 30) -> list[tuple[str, Cost]]:
    """What BROWSERS cost that all have the overview open, and that have different pages open."""
    found = []
    store = connect(path)
    # The clean-up of the day, which the server would make at some moment of its first minute.
    Pruner(store, actor="bench").prune_once()
    store.close()
    with served(path) as service:
        server = ServerTime(path)
        _let_settle(service, server)
        served_by = server.pids()
        store = connect(path)
        asyncio.run(_work(store, 1 / JOBS_PER_SECOND))
        # Who submits and runs the jobs is another client of the database, and is not counted.
        server.ignore(server.pids() - served_by)
        for name, pages in (("the overview", PAGES[:1]), ("five pages", PAGES)):
            costs = asyncio.run(_measure(service, server, store, pages, seconds))
            found += [(name, cost) for cost in costs]
        store.close()
        server.close()
    return found
