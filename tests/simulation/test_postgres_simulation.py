"""The production code in the simulator, on PostgreSQL: no promise is broken, and the answers are
those of the other stores.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from leasehold.testing.simulator import Scenario, replay, simulate
from leasehold.testing.simulator.runner import MakeStore
from leasehold.testing.simulator.stores import memory_store
from support.effort import drawn
from support.servers import Schemas, needs_psycopg

needs_psycopg()

from leasehold.stores.postgres.server import lending  # noqa: E402
from support.lent_store import LentStore  # noqa: E402

SEEDS = range(3000, 3000 + drawn(4))
TRACE_SEEDS = range(4000, 4000 + drawn(12))


@pytest.fixture(scope="module")
def make_store(schemas: Schemas) -> Iterator[MakeStore]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lending, "open_pool", schemas.open_pool)
        yield lambda env: LentStore(schemas, env)


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
