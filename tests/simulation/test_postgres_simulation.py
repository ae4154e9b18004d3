"""The production code in the simulator, on PostgreSQL: no promise is broken, and the answers are
those of the other stores; also where leases find all jobs through Redis.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from leasehold.testing.simulator import Scenario, replay, simulate
from leasehold.testing.simulator.runner import MakeStore
from leasehold.testing.simulator.stores import memory_store
from support.effort import drawn
from support.redis_servers import needs_redis, redis_server
from support.servers import Schemas, needs_psycopg

needs_psycopg()
needs_redis()

from leasehold.stores.postgres.keeping import index_keeper  # noqa: E402
from leasehold.stores.postgres.server import lending  # noqa: E402
from leasehold.stores.redis import address  # noqa: E402
from support.indexed_store import IndexedStore  # noqa: E402
from support.lent_store import LentStore  # noqa: E402

SEEDS = range(3000, 3000 + drawn(4))
TRACE_SEEDS = range(4000, 4000 + drawn(12))


@pytest.fixture(scope="module", params=["plain", "indexed"])
def make_store(schemas: Schemas, request: pytest.FixtureRequest) -> Iterator[MakeStore]:
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(lending, "open_pool", schemas.open_pool)
        if request.param == "plain":
            yield lambda env: LentStore(schemas, env)
            return
        # A busy machine is not to be taken for a server that is away.
        patch.setattr(address, "TIMEOUT_SECONDS", 20.0)
        # Most lanes are then known up to some spot only, and read on from there.
        patch.setattr(index_keeper, "SPOTS_KEPT", 3)
        server = stack.enter_context(redis_server())
        yield lambda env: IndexedStore(schemas, server, env)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_promise_is_broken(seed: int, make_store: MakeStore) -> None:
    report = simulate(Scenario(seed), make_store)
    assert report.violation is None, report.explain()


# Faults set the clock back, too: this store goes by that of its server, which is another thing.
@pytest.mark.parametrize("seed", TRACE_SEEDS)
def test_the_same_trace_has_the_same_answers(seed: int, make_store: MakeStore) -> None:
    log = simulate(Scenario(seed, faults=False), memory_store).log
    in_memory, in_postgres = replay(log, memory_store), replay(log, make_store)
    assert not next(in_memory.differences(in_postgres), None)
