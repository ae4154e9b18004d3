"""PostgreSQL: the walk along all lanes finds the same oldest jobs as a walk of each lane."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from random import Random

import pytest

from leasehold.connect import connect
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete, Fail, JobError
from leasehold.core.model.queue_config import QueueConfig
from leasehold.env import Env, ManualClock
from support.servers import needs_psycopg

needs_psycopg()

from leasehold.stores.postgres import PostgresStore  # noqa: E402  # needs psycopg
from leasehold.stores.postgres.reading.figures import OLDEST  # noqa: E402
from leasehold.stores.postgres.server.connection import SqlConnection  # noqa: E402
from leasehold.stores.tables.sampling import EVERY_KEY  # noqa: E402

QUEUES = ("plain", "strict", "keyed", "urgent", "emptied")


@pytest.mark.parametrize("seed", range(4))
def test_one_walk_finds_what_a_walk_of_each_lane_finds(url: str, seed: int) -> None:
    random, clock = Random(seed), ManualClock()
    with closing(connect(url, env=Env(clock))) as store:
        assert isinstance(store, PostgresStore)
        store.create_queue("strict", QueueConfig(fifo_mode=True), actor="test")
        store.create_queue("keyed", QueueConfig(key_concurrency=1), actor="test")
        compared = 0
        for number in range(60):
            queue = random.choice(QUEUES)
            store.submit(
                [
                    Draft(
                        id=f"job-{number}-{each}",
                        task=f"t{random.randrange(3)}",
                        queue=queue,
                        priority=random.choice((0, 50, 75, 100)),
                        delay_seconds=random.choice((0.0, 0.0, 5.0)),
                        limit_key=f"k{random.randrange(3)}" if queue == "keyed" else None,
                        deadline=store.now() + timedelta(hours=random.choice((1, 5, 90)))
                        if queue == "urgent"
                        else None,
                    )
                    for each in range(random.randrange(3))
                ]
            )
            served = random.choice((("emptied",), QUEUES))
            leases = store.exchange(request=LeaseRequest(worker="w", queues=served, limit=2)).leases
            ends = (Complete(), Fail(JobError("Odd", "no")))
            store.exchange([Settlement(x.job_id, x.version, random.choice(ends)) for x in leases])
            clock.advance(random.choice((0.5, 3.0, 90.0)))
            compared += compare(store)
    assert compared > 60


def compare(store: PostgresStore) -> int:
    """Compare both; how many queues had pending jobs."""

    def look(db: SqlConnection) -> int:
        reader = store._metrics(db, lambda: 0)
        each = {
            str(queue): min(at for at in moments if at is not None)
            for queue, *moments in reader._db.execute(OLDEST, (None, EVERY_KEY))
            if any(at is not None for at in moments)
        }
        assert reader.available_since(None) == each
        return len(each)

    return store._database.look(look)
