"""A PostgreSQL server that cuts connections, stops, and comes back."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from leasehold import StoreUnavailableError
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.status import Status
from support.servers import needs_psycopg, own_server

needs_psycopg()

import psycopg  # noqa: E402

from leasehold.stores.postgres import PostgresStore  # noqa: E402
from leasehold.stores.postgres.server import connection  # noqa: E402
from leasehold.stores.postgres.writing import outcome  # noqa: E402

pytestmark = pytest.mark.faults

JOBS = 100
CUTS = 10
CUT = """
    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE application_name LIKE 'leasehold test%' AND xact_start IS NOT NULL
"""


class Cutter:
    """Cuts a connection in the midst of a transaction, once for each time it is asked to."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._over = False
        self._asked = threading.Event()
        self.cuts = 0

    def cut_one(self) -> None:
        self._asked.set()

    def run(self) -> None:
        with psycopg.connect(self._url.partition("&schema")[0], autocommit=True) as db:
            while self._asked.wait() and not self._over:
                row = db.execute(CUT.encode()).fetchone()
                assert row is not None
                if row[0]:
                    self.cuts += row[0]
                    self._asked.clear()

    def stop(self) -> None:
        self._over = True
        self._asked.set()


@contextmanager
def cutter(url: str) -> Iterator[Cutter]:
    cutting = Cutter(url)
    thread = threading.Thread(target=cutting.run)
    thread.start()
    try:
        yield cutting
    finally:
        cutting.stop()
        thread.join()


def run_all(store: PostgresStore, cutting: Cutter | None = None) -> list[str]:
    ran: list[str] = []
    held: list[Settlement] = []
    while True:
        if cutting is not None:
            cutting.cut_one()
        answer = store.exchange(held, LeaseRequest(worker="w", limit=7))
        held = [Settlement(each.job_id, each.version, Complete()) for each in answer.leases]
        ran += [each.job_id for each in answer.leases]
        if not held:
            return ran


def test_cut_connections_are_no_affair_of_the_caller(url: str) -> None:
    """Each write is done once, whatever moment its connection was cut at."""
    with closing(PostgresStore(url)) as store:
        with cutter(url) as cutting:
            submitted: list[str] = []
            # A write may be over before it is seen, more so where the cutter gets little time.
            while len(submitted) < JOBS or (cutting.cuts < CUTS and len(submitted) < 20 * JOBS):
                if len(submitted) % 3 == 0:
                    cutting.cut_one()
                submitted.append(f"job-{len(submitted)}")
                store.submit([Draft(id=submitted[-1], task="work")])
            ran = run_all(store, cutting)
        assert cutting.cuts >= CUTS
        assert sorted(ran) == sorted(submitted)
        assert store.stats().counts[Status.COMPLETED] == len(submitted)
        assert store.check() == []


class Line(connection.SqlConnection):
    """One that is cut when it is told to commit: before the server has, or after."""

    after = False

    def execute(self, statement: str, values: object = None) -> connection.SqlCursor:
        if statement != "COMMIT":
            return super().execute(statement, values)  # type: ignore[arg-type]
        if self.after:
            super().execute(statement)
            assert self._pipeline is not None
            self._pipeline.sync()
        type(self).cuts += 1
        self.raw.pgconn.finish()
        raise psycopg.OperationalError("cut by the test")

    cuts = 0


@pytest.mark.parametrize("after", [False, True])
def test_a_connection_lost_at_commit_is_resolved_by_looking_up(
    url: str, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    with closing(PostgresStore(url)) as store:
        store.submit([Draft(id="first", task="work")])
        send = outcome.Outcome.send
        cuts = [0]

        def cut(self: object, db: connection.SqlConnection, answer: object, hints: object) -> None:
            if cuts[0] == 0:
                cuts[0] += 1
                line = Line(db.raw)
                line.after, line._pipeline = after, db._pipeline
                db = line
            send(self, db, answer, hints)  # type: ignore[arg-type]

        monkeypatch.setattr(outcome.Outcome, "send", cut)
        (answer,) = store.submit([Draft(id="second", task="work")])
        assert cuts == [1]
        assert not isinstance(answer, Exception)
        assert store.stats().submitted == 2
        assert store.check() == []


@pytest.mark.parametrize("after", [False, True])
def test_leases_that_nobody_was_told_of_are_handed_back(
    url: str, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    """The server is away for too long to be asked what became of the commit."""
    request = LeaseRequest(worker="w", limit=1, lease_seconds=9999)
    with closing(PostgresStore(url)) as store:
        store.submit([Draft(id=f"job-{n}", task="work") for n in range(2)])
        # The first of a worker.
        (first,) = store.exchange(request=request).leases
        send = outcome.Outcome.send

        def cut(self: object, db: connection.SqlConnection, *given: object) -> None:
            line = Line(db.raw)
            line.after, line._pipeline = after, db._pipeline
            send(self, line, *given)  # type: ignore[arg-type]

        def say_nothing(*_: object) -> bool:
            raise StoreUnavailableError("the outcome could not be determined")

        with monkeypatch.context() as patch:
            patch.setattr(outcome.Outcome, "send", cut)
            patch.setattr(outcome.Outcome, "was_committed", say_nothing)
            ended = [Settlement(first.job_id, first.version, Complete())]
            with pytest.raises(StoreUnavailableError):
                store.exchange(ended, request)
        answer = store.exchange(ended, request)
        assert not isinstance(answer.settled[0], Exception)
        (second,) = answer.leases
        assert {first.job_id, second.job_id} == {"job-0", "job-1"}
        assert second.attempt == 1
        assert store.check() == []


def test_a_server_that_stops_and_comes_back() -> None:
    with own_server(durable=True) as server:
        url = f"{server.url}&schema=jobs&pool_timeout_seconds=1"
        with closing(PostgresStore(url)) as store:
            store.submit([Draft(id="before", task="work")])
            kinds = (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL)
            for how in kinds:
                server.stop(how)
                with pytest.raises(StoreUnavailableError):
                    store.submit([Draft(id="meanwhile", task="work")])
                server.start()
                store.submit([Draft(id=f"after-{how.name}", task="work")])
            assert sorted(run_all(store)) == [
                "after-SIGINT",
                "after-SIGKILL",
                "after-SIGQUIT",
                "before",
            ]
            assert store.check() == []


def test_a_transaction_that_a_crash_has_forgotten_is_not_taken_for_another_of_its_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A crash forgets numbers of transactions whose log was not written, and gives them again."""
    with (
        own_server(durable=True) as server,
        closing(PostgresStore(f"{server.url}&schema=jobs")) as store,
    ):
        store.submit([Draft(id=f"before-{n}", task="work") for n in range(2)])
        send = outcome.Outcome.send
        numbers: list[int] = []

        def crash(self: object, db: connection.SqlConnection, *given: object) -> None:
            if not numbers:
                row: Any = db.execute("SELECT pg_current_xact_id()::text").fetchone()
                number = int(row[0])
                server.stop(signal.SIGQUIT)
                server.start()
                # Otherwise the server has just written its log: the store tries again, and so does
                # this.
                if status_in_another_history(server.url, number) == "committed":
                    numbers.append(number)
            send(self, db, *given)  # type: ignore[arg-type]

        monkeypatch.setattr(outcome.Outcome, "send", crash)
        store.submit([Draft(id=f"after-{n}", task="work") for n in range(2)])
        assert len(numbers) == 1
        assert sorted(run_all(store)) == ["after-0", "after-1", "before-0", "before-1"]
        assert store.check() == []


def status_in_another_history(url: str, number: int) -> str:
    """Use the numbers of transactions up to this one; what the server says of it then."""
    with psycopg.connect(url, autocommit=True) as db:
        used: Any = (0,)
        while int(used[0]) <= number:
            used = db.execute("SELECT pg_current_xact_id()::text").fetchone()
        row: Any = db.execute("SELECT pg_xact_status(%s::text::xid8)", (str(number),)).fetchone()
        return str(row[0])
