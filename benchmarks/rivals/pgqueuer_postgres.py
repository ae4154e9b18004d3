"""PgQueuer on PostgreSQL, as it is fastest: on asyncpg and uvloop, in batches of a hundred."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Sequence
from typing import Any

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries

from benchmarks.rivals import effects

_queries: Any = None


async def connected(url: str) -> Any:
    """What PgQueuer calls a driver."""
    return AsyncpgDriver(await asyncpg.connect(url))


def run(work: Coroutine[Any, Any, None]) -> None:
    """Until it is done."""
    uvloop.run(work)


async def _open() -> Any:
    global _queries  # noqa: PLW0603
    if _queries is None:
        _queries = Queries(await connected(effects.URL))
    return _queries


def set_up() -> None:
    async def install() -> None:
        await (await _open()).install()

    asyncio.run(install())


def _payload(*arguments: float) -> bytes:
    return json.dumps(arguments).encode()


async def submit(number: int, sent: float, seconds: float) -> None:
    await (await _open()).enqueue("effect", _payload(number, sent, seconds))


async def submit_many(numbers: Sequence[int]) -> None:
    payloads = [_payload(number, 0.0, 0.0) for number in numbers]
    await (await _open()).enqueue(["effect"] * len(numbers), payloads, [0] * len(numbers))


def work() -> None:
    async def serve() -> None:
        queue: Any = PgQueuer(await connected(effects.URL))

        @queue.entrypoint("effect")  # type: ignore[untyped-decorator]
        async def effect(job: Any) -> None:
            effects.run(*json.loads(job.payload))

        await queue.run(batch_size=100)

    run(serve())
