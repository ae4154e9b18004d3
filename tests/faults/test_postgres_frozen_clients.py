"""A client that stops in the midst of a write, or is cut off then, keeps nobody waiting."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from leasehold import StoreBusyError
from leasehold.core.model.job import Draft
from leasehold.core.model.queue_config import QueueConfig
from support.servers import Schemas, needs_psycopg

needs_psycopg()

import psycopg  # noqa: E402

from leasehold.stores.postgres import PostgresStore  # noqa: E402
from leasehold.stores.postgres.server.connection import SqlConnection  # noqa: E402
from leasehold.stores.postgres.writing.turn import Holder, Turn  # noqa: E402

pytestmark = pytest.mark.faults

CLIENT = Path(__file__).parent.parent / "support" / "frozen_client.py"


@pytest.fixture
def url(schemas: Schemas) -> Iterator[str]:
    lent = schemas.lend()
    yield f"{lent}&lock_timeout_seconds=0.5"
    schemas.take_back(lent)


@pytest.mark.parametrize("how", ["alone", "side by side"])
def test_whoever_waits_for_a_frozen_client_goes_on_without_it(url: str, how: str) -> None:
    with closing(PostgresStore(url)) as store:
        store.create_queue("limited", QueueConfig(max_concurrency=1), actor="test")
        command = [sys.executable, str(CLIENT), url, how]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
            try:
                os.waitpid(client.pid, os.WUNTRACED)
                assert store.submit([Draft(id="plain", task="t")])
                assert store.submit([Draft(id="mine", task="t", queue="limited")])
            finally:
                client.send_signal(signal.SIGCONT)
            answer, _ = client.communicate()
        # Its write was undone, and it has done it again.
        assert answer.startswith("Submitted(id='frozen'")
        assert store.stats().submitted == 3
        assert store.check() == []


def test_whoever_waited_goes_on_if_another_has_freed_the_turn(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    holders = Turn.holders
    with (
        closing(PostgresStore(url)) as store,
        psycopg.connect(url.partition("&schema")[0]) as frozen,
    ):
        key = store._database.turn.key
        frozen.execute("SELECT pg_advisory_xact_lock(%s)", (key,))

        def freed_meanwhile(turn: Turn, db: SqlConnection) -> list[Holder]:
            frozen.rollback()
            return holders(turn, db)

        monkeypatch.setattr(Turn, "holders", freed_meanwhile)
        assert store.submit([Draft(id="mine", task="t")])


def test_a_lock_that_is_not_the_turn_is_waited_for_twice_at_most(url: str) -> None:
    with (
        closing(PostgresStore(url)) as store,
        psycopg.connect(url.partition("&schema")[0]) as own,
    ):
        schema = url.partition("schema=")[2].partition("&")[0]
        own.execute(f"LOCK TABLE {schema}.job".encode())
        with pytest.raises(StoreBusyError, match=r"waited 0.5 s .* nothing was written"):
            store.submit([Draft(id="mine", task="t")])


def test_an_application_that_has_the_turn_is_named_and_left_alone(url: str) -> None:
    with closing(PostgresStore(url)) as store, psycopg.connect(url.partition("&schema")[0]) as own:
        store.submit_within(own, [Draft(id="theirs", task="t", idempotency_key="key")])
        pid = own.info.backend_pid
        with pytest.raises(StoreBusyError, match=rf"nothing was written.* Process {pid} "):
            store.submit([Draft(id="mine", task="t")])
        (holder,) = store.describe()["writing"]
        assert (holder["pid"], holder["end"]) == (pid, f"SELECT pg_terminate_backend({pid})")
        own.commit()
        assert store.submit([Draft(id="mine", task="t")])
        assert store.describe()["writing"] == []
        assert store.stats().submitted == 2
