"""A server that is away: calls wait for it briefly, and go on as soon as it is back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from leasehold.core.model.job import Draft
from leasehold.errors import StoreUnavailableError
from support.servers import Server, needs_psycopg, own_server

needs_psycopg()

from leasehold.stores.postgres import PostgresStore  # noqa: E402
from leasehold.stores.postgres.server.pulse import Pulse  # noqa: E402

AN_HOUR = 3600
"""The other limits on waiting: a call that has ended did not wait for them."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with own_server() as server:
        yield server


@pytest.fixture
def url(server: Server) -> str:
    return f"{server.url}&pool_timeout_seconds={AN_HOUR}&statement_timeout_seconds={AN_HOUR}"


class Asked:
    """Counts how often the server was asked whether it is there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, times: int, answer: str | None) -> None:
        self.often = threading.Event()
        ask, asked = Pulse._ask, []

        def counted(pulse: Pulse) -> str | None:
            asked.append(1)
            if len(asked) == times:
                self.often.set()
            return answer or ask(pulse)

        monkeypatch.setattr(Pulse, "_ask", counted)


def test_by_default_calls_fail_soon_and_work_at_once_when_it_is_back(
    server: Server, url: str
) -> None:
    with closing(PostgresStore(url)) as store:
        store.submit([Draft(id="before", task="t")])
        server.stop()
        try:
            for _ in range(2):
                with pytest.raises(StoreUnavailableError, match="cannot be reached"):
                    store.submit([Draft(id="meanwhile", task="t")])
        finally:
            server.start()
        store.submit([Draft(id="after", task="t")])
        assert store.get("meanwhile") is None


def test_a_call_that_waits_goes_on_when_it_is_back(
    server: Server, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(PostgresStore(f"{url}&away_seconds=60")) as store, ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(store._database._lending._pulse, "after_seconds", 0.25)
        asked = Asked(monkeypatch, 4, None)
        server.stop()
        try:
            waiting = pool.submit(store.submit, [Draft(id="patient", task="t")])
            assert asked.often.wait(60)
        finally:
            server.start()
        assert waiting.result(60)
        assert store.get("patient") is not None


def test_a_busy_pool_is_waited_for_also_where_the_server_has_no_connection_left(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = "&pool_size=1&away_seconds=0.5"
    with closing(PostgresStore(url + limits)) as store, ThreadPoolExecutor(1) as pool:
        asked = Asked(monkeypatch, 2, "FATAL: sorry, too many clients already")
        with store._database._lending.connection():
            waiting = pool.submit(store.submit, [Draft(id="in-turn", task="t")])
            assert asked.often.wait(60)
        assert waiting.result(60)
