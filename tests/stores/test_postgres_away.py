"""A server that is away: calls wait for it briefly, and go on as soon as it is back."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from leasehold import TaskQueue
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
    with own_server(durable=True) as server:
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


def lines_of(caplog: pytest.LogCaptureFixture, logger: str) -> list[tuple[str, str]]:
    return [
        (each.levelname, each.getMessage())
        for each in caplog.records
        if each.name.startswith(logger) and each.levelno >= logging.INFO
    ]


def test_the_log_of_a_process_that_submits_has_one_line_for_each_change(
    server: Server, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(PostgresStore(f"{url}&away_seconds=0.5")) as store:
        store.submit([Draft(id="log-before", task="t")])
        caplog.set_level(logging.INFO, "leasehold")
        server.stop()
        try:
            for _ in range(3):
                with pytest.raises(StoreUnavailableError):
                    store.submit([Draft(id="log-meanwhile", task="t")])
        finally:
            server.start()
        store.submit([Draft(id="log-after", task="t")])
        lost, back = lines_of(caplog, "leasehold")
    assert lost[0] == "WARNING"
    assert "cannot be reached" in lost[1]
    assert "\n" not in lost[1]
    assert back == ("INFO", f"{store} can be reached again")
    assert lines_of(caplog, "psycopg.pool") == []


def test_the_log_of_a_worker_has_one_line_of_its_own_for_each_change(
    server: Server, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    queue = TaskQueue(f"{url}&away_seconds=0.5", num_workers=1)
    lines = Lines()
    logging.getLogger("leasehold").addHandler(lines)

    @queue.task(name="work")
    def work() -> str:
        return "done"

    with queue, caplog.at_level(logging.DEBUG, "leasehold"):
        assert work.submit().result(60) == "done"
        server.stop()
        try:
            assert lines.tries.wait(60)
        finally:
            server.start()
        assert lines.over.wait(60)
    logging.getLogger("leasehold").removeHandler(lines)
    own = [text for _, text in lines_of(caplog, "leasehold.worker") if ": " in text]
    assert len([text for text in own if "cannot reach the store; retrying" in text]) == 1
    assert len([text for text in own if "the store answers again" in text]) == 1
    store = [text for _, text in lines_of(caplog, "leasehold.store")]
    assert len(store) == 2, store
    assert lines_of(caplog, "psycopg.pool") == []


class Lines(logging.Handler):
    """Waits for a worker that has tried three times, and for its end of the trouble."""

    def __init__(self) -> None:
        super().__init__()
        self.tries, self.over = threading.Event(), threading.Event()
        self._tried = 0

    def emit(self, record: logging.LogRecord) -> None:
        self._tried += "cannot reach the store" in record.msg
        if self._tried == 3:
            self.tries.set()
        if "answers again" in record.msg:
            self.over.set()


def test_pools_of_others_are_heard(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("psycopg.pool")
    logger.warning("error connecting in %r: %s", "leasehold jobs", "refused")
    logger.warning("error connecting in %r: %s", "pool-1", "refused")
    assert lines_of(caplog, "psycopg.pool") == [
        ("WARNING", "error connecting in 'pool-1': refused")
    ]
