"""An application's transaction that has submitted, and is open for long, stops no worker."""

from __future__ import annotations

from contextlib import closing
from threading import Thread

import pytest

from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Renewal, Settled, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.search import JobFilter
from leasehold.env import Env, ManualClock
from support.servers import needs_psycopg

needs_psycopg()

import psycopg  # noqa: E402

from leasehold.stores.postgres import PostgresStore  # noqa: E402
from leasehold.stores.postgres.writing import turn  # noqa: E402

WAITING = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


def work_through(store: PostgresStore, job_id: str) -> None:
    """What a worker does with a job."""
    store.submit([Draft(id=job_id, task="t")])
    (lease,) = store.exchange(request=LeaseRequest(worker="w")).leases
    store.renew("w", [Renewal(lease.job_id, lease.version, 60)])
    (settled,) = store.exchange([Settlement(lease.job_id, lease.version, Complete())]).settled
    assert isinstance(settled, Settled)


def test_jobs_run_while_somebody_waits_for_a_turn_alone(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn, "FIRST_WAIT_SECONDS", 0.2)
    monkeypatch.setattr(turn, "LAST_WAIT_SECONDS", 0.2)
    with (
        closing(PostgresStore(f"{url}&lock_timeout_seconds=60")) as patient,
        closing(PostgresStore(f"{url}&lock_timeout_seconds=3")) as store,
        psycopg.connect(url.partition("&schema")[0]) as own,
        psycopg.connect(url.partition("&schema")[0], autocommit=True) as watcher,
    ):
        work_through(store, "before")
        store.submit_within(own, [Draft(id="theirs", task="t")])
        keyed = Draft(id="keyed", task="t", idempotency_key="key")
        waiter = Thread(target=patient.submit, args=([keyed],))
        waiter.start()
        while watcher.execute(WAITING).fetchone() == (0,):
            pass
        work_through(store, "plain")
        own.commit()
        waiter.join()
        assert store.count(JobFilter()).jobs == 4
        assert store.check() == []


def test_jobs_run_when_the_minute_is_over(url: str) -> None:
    clock = ManualClock()
    with (
        closing(PostgresStore(f"{url}&lock_timeout_seconds=2", env=Env(clock))) as store,
        psycopg.connect(url.partition("&schema")[0]) as own,
    ):
        work_through(store, "before")
        clock.advance(61)
        # It would have the turn alone, and keep it, if it had to end the minute.
        store.submit_within(own, [Draft(id="theirs", task="t")])
        work_through(store, "plain")
        own.commit()
        clock.advance(61)
        work_through(store, "after")
        assert store.stats().submitted == 4
        assert store.check() == []
