"""PgQueuer on PostgreSQL, in batches of a hundred."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries

from benchmarks.rivals import effects

_queries: Any = None


async def _open() -> Any:
    global _queries  # noqa: PLW0603
    if _queries is None:
        _queries = Queries(AsyncpgDriver(await asyncpg.connect(effects.URL)))
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
        queue: Any = PgQueuer(AsyncpgDriver(await asyncpg.connect(effects.URL)))

        @queue.entrypoint("effect")  # type: ignore[untyped-decorator]
        async def effect(job: Any) -> None:
            effects.run(*json.loads(job.payload))

        await queue.run(batch_size=100)

    asyncio.run(serve())
