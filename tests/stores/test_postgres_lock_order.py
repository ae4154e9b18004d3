"""Every pair of verbs against each other, on the same few jobs, keys and queues.

The order of locks (`stores.postgres.writing.database`) rules out that two writes wait for each
other. The server counts the times it had to end such a wait, also those that a retry hides from
the caller: that number must stay what it was. Each pair races a few times, which is thousands of
races in all. On a machine that is busy, some of the pairs are left out after a while;
LEASEHOLD_TEST_LOCK_ROUNDS=100 runs all of them, and so many times.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import combinations_with_replacement, pairwise
from random import Random

from leasehold.core.contract.store import Store
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import Lease
from leasehold.core.model.queue_config import QueueConfig
from leasehold.env import SYSTEM
from leasehold.errors import LeaseholdError, StoreError
from support.every_verb import every_look
from support.servers import needs_psycopg

needs_psycopg()

import psycopg  # noqa: E402

from leasehold.stores.postgres import PostgresStore  # noqa: E402
from support.contending import (  # noqa: E402
    CALLED,
    JOBS,
    KEYED,
    LIMITED,
    PATIENCE_SECONDS,
    QUEUES,
    RUNNING_MAX,
    VERBS,
    Actor,
)

ROUNDS = int(os.environ.get("LEASEHOLD_TEST_LOCK_ROUNDS", "0"))
RACES = ROUNDS or 3
BUDGET_SECONDS = 30
DEADLOCKS = "SELECT sum(deadlocks) FROM pg_stat_database"
ONLY_LOOK = {verb for verb, _ in every_look()} | {"is_session_over", "pins"}
WITHOUT_STATEMENTS = {"close", "subscribe"}


def test_no_verb_that_writes_is_left_out() -> None:
    verbs = {name for name in dir(Store) if not name.startswith("_")}
    assert verbs - ONLY_LOOK - WITHOUT_STATEMENTS <= CALLED


def perform(actor: Actor, name: str, together: threading.Barrier) -> None:
    """Refusals are part of the game; what the store itself could not do is not."""
    for _ in range(RACES):
        together.wait(PATIENCE_SECONDS)
        try:
            getattr(actor, name)()
            actor.done.add(name)
        except LeaseholdError as error:
            if isinstance(error, StoreError):
                together.abort()
                raise
        except BaseException:
            together.abort()
            raise


def fill(store: PostgresStore) -> None:
    """Let there be jobs again, under the names that all verbs know."""
    drafts = []
    for n, job_id in enumerate(JOBS):
        queue = QUEUES[n % 3]
        key = "red" if queue == KEYED else None
        drafts.append(Draft(id=job_id, task="work", queue=queue, limit_key=key))
    store.replay(JOBS, reset_attempts=True, actor="t")
    store.submit(drafts, partial=True)


def pairs() -> Iterator[tuple[str, str]]:
    """Every pair once, as long as there is time; first some in which every verb occurs."""
    few = list(pairwise(VERBS))
    yield from few
    began = SYSTEM.clock.monotonic()
    rest = [each for each in combinations_with_replacement(VERBS, 2) if each not in few]
    Random(1).shuffle(rest)
    for each in rest:
        if ROUNDS or SYSTEM.clock.monotonic() - began < BUDGET_SECONDS:
            yield each


def test_no_two_verbs_wait_for_each_other(url: str) -> None:
    leases: list[Lease] = []
    with psycopg.connect(url.partition("&schema")[0], autocommit=True) as db:
        (before,) = db.execute(DEADLOCKS.encode()).fetchone() or (0,)
    first, second = Actor(url, 1, leases), Actor(url, 2, leases)
    with (
        closing(first.store),
        closing(second.store),
        ThreadPoolExecutor(2) as pool,
    ):
        first.store.create_queue(LIMITED, QueueConfig(max_concurrency=RUNNING_MAX), actor="t")
        first.store.create_queue(KEYED, QueueConfig(key_concurrency=RUNNING_MAX), actor="t")
        for n, names in enumerate(pairs()):
            if ROUNDS or n % 4 == 0:
                fill(first.store)
            together = threading.Barrier(2)
            running = [
                pool.submit(perform, actor, name, together)
                for actor, name in zip((first, second), names, strict=True)
            ]
            errors = [each.exception(PATIENCE_SECONDS * 2) for each in running]
            assert errors == [None, None], names
        if ROUNDS:
            assert first.done | second.done == set(VERBS)
        assert first.store.check() == []
    with psycopg.connect(url.partition("&schema")[0], autocommit=True) as db:
        (after,) = db.execute(DEADLOCKS.encode()).fetchone() or (0,)
    assert after == before, "the server had to end writes that waited for each other"
