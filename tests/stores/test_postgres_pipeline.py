"""Statements sent together: what they give, what goes wrong in one of them, what stays prepared."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.env import Env, ManualClock
from support.servers import Schemas, needs_psycopg
from support.watched import bytecodes_of

needs_psycopg()

import psycopg  # noqa: E402

from leasehold.stores.postgres import PostgresStore  # noqa: E402
from leasehold.stores.postgres.server import pipeline, session  # noqa: E402
from leasehold.stores.postgres.server.address import parse  # noqa: E402
from leasehold.stores.postgres.server.connection import (  # noqa: E402
    CELLS_MAX,
    SqlConnection,
    about,
    open_connection,
    unnested,
)
from leasehold.stores.postgres.writing.remembered import READ  # noqa: E402
from leasehold.stores.postgres.writing.step import PUSHED_ROWS_MIN  # noqa: E402

ADD = ("SELECT $1::bigint + 1", (1,))
BEGIN = ("BEGIN",)
FAIL = ("SELECT 1 / $1::bigint", (0,))
PREPARED = "SELECT count(*) FROM pg_prepared_statements WHERE statement = $1"


@pytest.fixture
def db(schemas: Schemas) -> Iterator[SqlConnection]:
    address = parse(schemas.lend())
    with closing(open_connection(address, application_name="test")) as raw:
        yield SqlConnection(raw)


def send(db: SqlConnection, *statements: Any) -> None:
    with db.pipelined():
        for statement in statements:
            db.execute(*statement)


def prepared(db: SqlConnection, statement: str) -> int:
    with db.pipelined():
        row = db.execute(PREPARED, (statement,)).fetchone()
    assert row is not None
    return int(row[0])


def test_each_statement_gives_its_own_rows_whichever_is_asked_first(db: SqlConnection) -> None:
    with db.pipelined():
        first = db.execute(*ADD)
        second = db.execute("SELECT n, n::text FROM generate_series(1, $1) AS n", (2,))
        assert second.fetchall() == [(1, "1"), (2, "2")]
        third = db.execute(ADD[0], (3,))
        assert first.fetchone() == (2,)
        assert [*third] == [(4,)]
        assert third.fetchone() is None


def test_the_rows_of_a_statement_are_there_after_the_pipeline(db: SqlConnection) -> None:
    with db.pipelined():
        found = db.execute(*ADD)
    assert found.fetchall() == [(2,)]


def test_how_many_rows_were_changed(db: SqlConnection) -> None:
    with db.pipelined():
        db.begin()
        db.execute("CREATE TEMPORARY TABLE numbers (n bigint) ON COMMIT DROP")
        assert db.changed("INSERT INTO numbers SELECT generate_series(1, $1)", (3,)) == 3
        db.execute("COMMIT")


def test_the_first_error_is_raised_and_nothing_after_it_is_done(db: SqlConnection) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero):
        send(db, BEGIN, FAIL, ("SELECT nextval('no_such_sequence')",), ("COMMIT",))
    db.raw.rollback()
    with db.pipelined():
        assert db.execute(*ADD).fetchone() == (2,)


def test_an_error_is_raised_by_who_asks_for_rows_after_it(db: SqlConnection) -> None:
    def ask() -> None:
        with db.pipelined():
            db.execute(*FAIL)
            db.execute(*ADD).fetchone()
            pytest.fail("nothing was raised")

    with pytest.raises(psycopg.errors.DivisionByZero):
        ask()
    assert db.raw.info.transaction_status is psycopg.pq.TransactionStatus.IDLE


def test_an_exception_of_the_caller_leaves_the_connection_usable(db: SqlConnection) -> None:
    def break_off() -> None:
        with db.pipelined():
            db.begin()
            db.execute(*ADD)
            raise KeyError

    with pytest.raises(KeyError):
        break_off()
    db.raw.rollback()
    with db.pipelined():
        assert db.execute(*ADD).fetchone() == (2,)


def test_a_statement_is_prepared_on_its_second_use_and_stays_so(db: SqlConnection) -> None:
    for uses in range(4):
        with db.pipelined():
            db.execute(*ADD)
        assert prepared(db, ADD[0]) == (uses > 0)
    with pytest.raises(psycopg.errors.DivisionByZero):
        send(db, BEGIN, FAIL)
    db.raw.rollback()
    with db.pipelined():
        assert db.execute(*ADD).fetchone() == (2,)
    assert prepared(db, ADD[0]) == 1


def test_a_statement_that_an_error_kept_from_being_prepared_is_prepared_later(
    db: SqlConnection,
) -> None:
    with db.pipelined():
        db.execute(*ADD)
    with pytest.raises(psycopg.errors.DivisionByZero):
        send(db, FAIL, ADD, ADD)
    assert prepared(db, ADD[0]) == 0
    for _ in range(2):
        with db.pipelined():
            assert db.execute(*ADD).fetchone() == (2,)
    assert prepared(db, ADD[0]) == 1


def test_a_connection_keeps_a_bounded_number_of_statements(
    db: SqlConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "PREPARED_MAX", 10)
    for n in range(40):
        for _ in range(2):
            with db.pipelined():
                assert db.execute(f"SELECT {n}").fetchone() == (n,)
    with db.pipelined():
        row = db.execute("SELECT count(*) FROM pg_prepared_statements").fetchone()
    assert row is not None
    assert row[0] <= 11


def test_a_lost_connection_is_told(db: SqlConnection, schemas: Schemas) -> None:
    with psycopg.connect(schemas.url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s)", (db.raw.info.backend_pid,))
    with pytest.raises(psycopg.OperationalError):
        send(db, ADD, ADD)
    assert db.raw.closed


def test_nobody_waits_for_more_than_the_answer_that_is_asked_for(
    db: SqlConnection, schemas: Schemas
) -> None:
    rows = "SELECT n, repeat('x', 1000) FROM generate_series(1, 100) AS n"
    kept = f"{rows} WHERE n < 90 OR pg_advisory_xact_lock_shared(7) IS NOT NULL"
    with psycopg.connect(schemas.url, autocommit=True) as other, db.pipelined():
        other.execute("SELECT pg_advisory_lock(7)")
        db.execute("SELECT set_config('lock_timeout', '5s', false)")
        first, second = db.execute(rows), db.execute(kept)
        assert len(first.fetchall()) == 100
        other.execute("SELECT pg_advisory_unlock(7)")
        assert len(second.fetchall()) == 100


def test_the_server_begins_with_what_is_pushed(db: SqlConnection, schemas: Schemas) -> None:
    taken = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = %s"
    with psycopg.connect(schemas.url, autocommit=True) as other, db.pipelined():
        db.begin()
        db.execute("SELECT pg_advisory_xact_lock(8)")
        db.push()
        for _ in range(500):
            if other.execute(taken, (db.raw.info.backend_pid,)).fetchone() == (1,):
                break
            other.execute("SELECT pg_sleep(0.01)")
        else:
            pytest.fail("the server waits for more")
        db.execute("COMMIT")


@pytest.mark.parametrize(
    "rows",
    [
        [(1, "a", None)],
        [(1, "a", 0.5), (2, None, None)],
        [(n, "a", None if n % 2 else n / 2) for n in range(CELLS_MAX)],
    ],
    ids=["one", "a few", "many"],
)
def test_one_row_a_few_and_many_are_written_alike(
    db: SqlConnection, rows: list[tuple[object, ...]]
) -> None:
    source = unnested("bigint text float8")
    for statement in (
        f"SELECT * FROM {source}",
        f"SELECT first, word, third FROM {source} AS named (first, word, third)",
    ):
        with db.pipelined():
            assert db.execute(*about(statement, rows)).fetchall() == rows


# -- what a lone job costs -------------------------------------------------------------------------


class Meter:
    """Counts the statements of writes, and how often they wait for the server."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.statements: list[str] = []
        self.waits = self.pushes = 0
        execute, communicate = pipeline.Pipeline.execute, pipeline.Pipeline._communicate
        push = pipeline.Pipeline.push

        def counted(own: pipeline.Pipeline, statement: str, *values: Any) -> pipeline.Reply:
            self.statements.append(statement)
            return execute(own, statement, *values)

        def awaited(own: pipeline.Pipeline, *wanted: pipeline.Reply) -> pipeline.Waiting:
            self.waits += 1
            return communicate(own, *wanted)

        def pushed(own: pipeline.Pipeline) -> None:
            self.pushes += 1
            push(own)

        monkeypatch.setattr(pipeline.Pipeline, "execute", counted)
        monkeypatch.setattr(pipeline.Pipeline, "_communicate", awaited)
        monkeypatch.setattr(pipeline.Pipeline, "push", pushed)

    def read(self) -> tuple[int, int]:
        """Statements and waits since the last time."""
        read = len(self.statements), self.waits
        self.statements.clear()
        self.waits = 0
        return read


def test_a_lone_job_costs_so_many_statements_and_waits(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    env = Env(clock=clock)
    with closing(PostgresStore(url, env=env)) as store:
        request = LeaseRequest(worker="w", limit=1)

        def submit(job_id: str) -> None:
            store.submit([Draft(id=job_id, task="work")])

        def settle() -> None:
            for lease in held:
                done = Settlement(lease.job_id, lease.version, Complete(b"null"))
                held[:] = store.exchange([done], request).leases

        # What the process has to learn of the store, and of its own worker, is known by then.
        for n in range(4):
            submit(f"first-{n}")
        held = store.exchange(request=request).leases
        while held:
            settle()
        meter = Meter(monkeypatch)
        # A lone submit leaves in one piece.
        submit("alone")
        assert meter.read() == (4, 1)
        # A process that had no news for a moment sends them behind the commit, by no thread.
        clock.advance(session.NEWS_GAP_SECONDS)
        submit("later")
        assert meter.statements[-2:] == ["COMMIT", session.NOTIFY]
        assert meter.read() == (5, 1)
        # One that has to look first says the rest when it knows.
        store.submit([Draft(id="delayed", task="work", delay_seconds=1000)])
        assert meter.read() == (9, 2)
        held = store.exchange(request=request).leases
        assert meter.read() == (9, 2)
        settle()
        assert meter.read() == (11, 2)
        settle()
        assert (held, meter.read()) == ([], (10, 2))
        assert store.exchange(request=request).leases == []
        assert READ not in meter.statements
        assert meter.read() == (7, 2)
        assert meter.pushes == 0
        # What takes the server a while it does while the client goes on.
        many = LeaseRequest(worker="w", limit=PUSHED_ROWS_MIN)
        store.submit([Draft(id=f"many-{n}", task="work") for n in range(2 * many.limit)])
        held = store.exchange(request=many).leases
        assert meter.pushes == 1
        done = [Settlement(each.job_id, each.version, Complete(b"null")) for each in held]
        assert len(store.exchange(done, many).leases) == many.limit
        assert meter.pushes == 3


def test_a_lone_job_costs_so_many_bytecodes(url: str) -> None:
    """With Python 3.11 they were 3,618 and 7,417; another version may count otherwise."""
    with closing(PostgresStore(url, env=Env(clock=ManualClock()))) as store:
        request = LeaseRequest(worker="w", limit=1)
        for n in range(8):
            store.submit([Draft(id=f"first-{n}", task="work")])
        for _ in range(4):
            store.exchange(request=request)
        drafts = [Draft(id="lone", task="work")]
        assert bytecodes_of(lambda: store.submit(drafts)) < 4_400
        assert bytecodes_of(lambda: store.exchange(request=request)) < 8_600
