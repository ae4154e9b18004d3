"""A lone submit leaves in one piece: what it stores, when it does nothing, what became of it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.queue_config import QueueConfig
from leasehold.core.model.retention import RetentionPolicy, Scope
from leasehold.core.model.retry import Constant
from leasehold.env import Env, ManualClock
from leasehold.errors import DuplicateJobError, InvalidJobError, QueueFullError
from support.relay import Relay, relay
from support.servers import Schemas, needs_psycopg

needs_psycopg()

import psycopg  # noqa: E402

from leasehold.stores.postgres import PostgresStore  # noqa: E402
from leasehold.stores.postgres.server import connection  # noqa: E402
from leasehold.stores.postgres.server.connection import RawConnection, SqlConnection  # noqa: E402
from leasehold.stores.postgres.writing import marks  # noqa: E402
from leasehold.stores.postgres.writing.database import Database  # noqa: E402
from leasehold.stores.postgres.writing.marks import Mark, was_left  # noqa: E402

FIRST_SUBMITS = 4
"""The first makes the lane and a mark, the next learns the number of the lane."""
AT_ONCE = RetentionPolicy(completed_seconds=0, archive_seconds=0)
PATIENCE_SECONDS = 30
TIMEOUTS = "&statement_timeout_seconds=5&lock_timeout_seconds=5&connect_timeout=2"


class Pieces:
    """Counts the submits that left in one piece, and those that were submitted so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tried = self.done = 0
        in_one_piece = Database._in_one_piece

        def counted(database: Database, *arguments: Any) -> bool:
            is_done = in_one_piece(database, *arguments)
            self.tried += 1
            self.done += is_done
            return is_done

        monkeypatch.setattr(Database, "_in_one_piece", counted)

    def read(self) -> tuple[int, int]:
        read, self.tried, self.done = (self.tried, self.done), 0, 0
        return read


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(url: str, clock: ManualClock) -> Iterator[PostgresStore]:
    with closing(PostgresStore(url, env=Env(clock=clock))) as opened:
        get_ready(opened)
        yield opened


@pytest.fixture
def other(url: str, clock: ManualClock, store: PostgresStore) -> Iterator[PostgresStore]:
    """Another process."""
    del store  # It is there first.
    with closing(PostgresStore(url, env=Env(clock=clock))) as opened:
        yield opened


@pytest.fixture
def pieces(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> Pieces:
    del store  # Its first submits are not counted.
    return Pieces(monkeypatch)


def get_ready(store: PostgresStore, prefix: str = "first") -> None:
    for n in range(FIRST_SUBMITS):
        submit(store, f"{prefix}-{n}")


def submit(store: PostgresStore, job_id: str) -> None:
    store.submit([Draft(id=job_id, task="work")])


def rows_of(store: PostgresStore, job_id: str) -> list[Any]:
    """All that is stored of a pending job, but for its id and number."""
    with store._database.read() as db:
        job = db.execute("SELECT to_jsonb(job) - 'id' - 'seq' FROM job WHERE id = $1", (job_id,))
        ready = db.execute(
            "SELECT to_jsonb(ready) - 'seq' FROM ready JOIN job USING (seq) WHERE id = $1",
            (job_id,),
        )
        return [*job, *ready]


def ids(store: PostgresStore) -> set[str]:
    with store._database.read() as db:
        return {job_id for (job_id,) in db.execute("SELECT id FROM job")}


# -- what is stored --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {
            "priority": 91,
            "payload": b'[["\xc3\xa4"], {}]',
            "parent_id": "first-0",
            "metadata": {"customer": 7},
            "limit_key": "acme",
            "client": "shop",
            "timeout_seconds": 2,
            "lease_seconds": 60.5,
            "start_within_seconds": 90,
            "result_ttl_seconds": 3600,
            "retry": Constant(3.0),
            "max_retries": 7,
        },
    ],
    ids=["plain", "with all options"],
)
def test_the_same_is_stored_as_by_any_other_submit(
    store: PostgresStore, other: PostgresStore, pieces: Pieces, options: dict[str, Any]
) -> None:
    [answer] = store.submit([Draft(id="lone", task="work", **options)])
    assert pieces.read() == (1, 1)
    [usual] = other.submit([Draft(id="usual", task="work", **options)])
    assert pieces.read() == (0, 0)
    assert rows_of(store, "lone") == rows_of(store, "usual") != []
    assert (answer.status, answer.is_duplicate) == (usual.status, usual.is_duplicate)  # type: ignore[union-attr]
    assert store.stats().submitted == FIRST_SUBMITS + 2
    assert store.check() == []
    # Its number is one of its own, and comes before those of later jobs.
    leases = store.exchange(request=LeaseRequest(worker="w", limit=10)).leases
    assert [each.job_id for each in leases if each.job_id in ("lone", "usual")] == ["lone", "usual"]


def test_it_happens_by_the_clock_of_the_server(url: str, pieces: Pieces) -> None:
    with closing(PostgresStore(url)) as store:
        # While the server's clock is behind the store's, as here, nothing goes in one piece.
        get_ready(store, "behind")
        pieces.read()
        submit(store, "also behind")
        assert pieces.read()[1] == 0
        store.repair_clock(actor="me")
        get_ready(store, "server")
        pieces.read()
        before = store.now()
        submit(store, "lone")
        assert pieces.read() == (1, 1)
        job = store.get("lone")
        assert job is not None
        assert before <= job.created_at <= store.now()


@pytest.mark.parametrize(
    "options", [{"delay_seconds": 5}, {"idempotency_key": "key"}, {"depends_on": ("first-0",)}]
)
def test_what_is_to_be_judged_is_submitted_as_usual(
    store: PostgresStore, pieces: Pieces, options: dict[str, Any]
) -> None:
    store.submit([Draft(id="judged", task="work", **options)])
    assert pieces.read() == (0, 0)
    assert "judged" in ids(store)


def test_an_id_that_is_taken_is_told(store: PostgresStore, pieces: Pieces) -> None:
    submit(store, "lone")
    with pytest.raises(DuplicateJobError, match="'lone'"):
        submit(store, "lone")
    assert pieces.read() == (1, 1)
    # Its mark is as it was.
    submit(store, "next")
    assert pieces.read() == (1, 1)
    assert store.stats().submitted == FIRST_SUBMITS + 2
    assert store.check() == []


@pytest.mark.parametrize("options", [{"priority": 101}, {"priority": -1}, {"max_retries": -1}])
def test_a_bad_job_is_refused_as_by_any_other_submit(
    store: PostgresStore, pieces: Pieces, options: dict[str, Any]
) -> None:
    with pytest.raises(InvalidJobError, match=next(iter(options))):
        store.submit([Draft(id="bad", task="work", **options)])
    assert pieces.read() == (0, 0)


# -- what has changed ------------------------------------------------------------------------------


def spoil_mark(other: PostgresStore) -> None:
    with other._database.beside_all() as db:
        db.execute(f"UPDATE mark SET writes = {marks.SPOILED}")


def delete_mark(other: PostgresStore) -> None:
    with other._database.beside_all() as db:
        db.execute("DELETE FROM mark")


CHANGES: dict[str, Callable[[PostgresStore, ManualClock], object]] = {
    "setting": lambda other, _: other.set_setting("max_retries", 9, actor="test"),
    "minute": lambda _, clock: clock.advance(60),
    "mark spoiled": lambda other, _: spoil_mark(other),
    "mark gone": lambda other, _: delete_mark(other),
}


@pytest.mark.parametrize("change", CHANGES)
def test_where_something_has_changed_it_is_submitted_as_usual(
    store: PostgresStore, other: PostgresStore, clock: ManualClock, pieces: Pieces, change: str
) -> None:
    CHANGES[change](other, clock)
    submit(store, "lone")
    assert pieces.read() == (1, 0)
    other.submit([Draft(id="usual", task="work")])
    assert rows_of(store, "lone") == rows_of(store, "usual") != []
    assert store.stats().submitted == FIRST_SUBMITS + 2
    assert store.check() == []


def test_a_mark_that_is_gone_is_replaced(
    store: PostgresStore, other: PostgresStore, pieces: Pieces
) -> None:
    delete_mark(other)
    for n in range(3):
        submit(store, f"lone-{n}")
    assert pieces.read() == (3, 2)
    assert len(ids(store)) == FIRST_SUBMITS + 3


def test_a_rule_of_the_queue_counts_at_once(
    store: PostgresStore, other: PostgresStore, pieces: Pieces
) -> None:
    other.create_queue("default", QueueConfig(max_depth=FIRST_SUBMITS), actor="test")
    with pytest.raises(QueueFullError):
        submit(store, "lone")
    assert pieces.read() == (1, 0)
    assert "lone" not in ids(store)


def test_marks_that_nobody_uses_any_more_are_forgotten(
    store: PostgresStore, other: PostgresStore, clock: ManualClock
) -> None:
    def marks_left() -> list[int]:
        with store._database.read() as db:
            return [mark for (mark,) in db.execute("SELECT id FROM mark ORDER BY id")]

    before = marks_left()
    assert len(before) == 1
    clock.advance(marks.KEPT_MICROS / 1e6 + 60)
    get_ready(other, "other")
    assert len(marks_left()) == 1
    assert marks_left() != before
    # The other one finds that its own is gone.
    submit(store, "lone")
    assert "lone" in ids(store)


# -- what became of it -----------------------------------------------------------------------------


def connection_of(store: PostgresStore) -> RawConnection:
    """The one that its next write goes by."""
    kept = store._database._lending._kept
    assert kept is not None
    return kept[1]


def mark_of(store: PostgresStore) -> Mark:
    [mark] = store._database.marks._free
    return mark


def test_a_mark_tells_whether_a_write_is_kept(
    store: PostgresStore, other: PostgresStore, pieces: Pieces
) -> None:
    mark = mark_of(store)
    with other._database._lending.connection() as db:
        submit(store, "lone")
        assert was_left(db, mark.next)
        assert was_left(db, mark.next)  # However often it is asked.
        # One that has done nothing will do nothing any more.
        assert not was_left(db, mark.next.next)
        pieces.read()
        submit(store, "next")
        assert pieces.read() == (1, 0)
        assert not was_left(db, mark.next.next)


def test_a_new_mark_tells_as_well(store: PostgresStore, other: PostgresStore) -> None:
    """Also while the write that makes it is under way, and where that never came."""
    new, never = other._database.marks.take(), other._database.marks.take()
    assert new.is_new
    assert never.is_new
    with other._database._lending.connection() as db, store._database._lending.connection() as its:
        with its.transaction():
            make(its, new)
            with pytest.raises(psycopg.errors.LockNotAvailable):
                was_left(db, new.next)
        assert was_left(db, new.next)
        assert not was_left(db, never.next)
        with pytest.raises(psycopg.errors.UniqueViolation), its.transaction():
            make(its, never)


def make(db: SqlConnection, mark: Mark) -> None:
    db.execute("SELECT pg_current_xact_id()")  # As if something had been written.
    db.execute(marks.MAKE, (mark.id, mark.next.writes, 0))


def test_who_only_looks_leaves_no_mark(store: PostgresStore) -> None:
    before = mark_of(store)
    assert store.exchange(request=LeaseRequest(worker="w", queues=("none",))).leases == []
    assert mark_of(store) == before


def test_a_server_that_has_lost_its_marks_is_written_to_with_others(
    store: PostgresStore, other: PostgresStore
) -> None:
    delete_mark(other)
    before = mark_of(store)
    store.submit([Draft(id=f"more-{n}", task="work") for n in range(2)])
    assert {"more-0", "more-1"} <= ids(store)
    assert mark_of(store).id != before.id


def test_as_long_as_a_write_is_under_way_nobody_can_say(
    store: PostgresStore, other: PostgresStore
) -> None:
    mark = mark_of(store)
    with other._database._lending.connection() as db, store._database._lending.connection() as its:
        with its.transaction():
            its.execute("UPDATE mark SET writes = writes + 1 WHERE id = $1", (mark.id,))
            with pytest.raises(psycopg.errors.LockNotAvailable):
                was_left(db, mark.next)
        assert was_left(db, mark.next)


@pytest.fixture
def way(schemas: Schemas, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, str, Relay]]:
    """The URL of a store, the same behind a relay, and the relay."""
    lent = schemas.lend() + TIMEOUTS
    (server,) = parse_qs(urlsplit(lent).query).get("host", [""])
    if not server:
        pytest.skip("the relay of the tests is for a server on a local socket")
    monkeypatch.setattr(connection, "patience_seconds", lambda _: 0.5)
    # A socket's path must be short.
    with (
        tempfile.TemporaryDirectory(prefix="leasehold-relay-") as folder,
        relay(Path(folder), server) as carrying,
    ):
        yield lent, lent.replace(server, folder).replace(quote(server), folder), carrying
    schemas.take_back(lent.removesuffix(TIMEOUTS))


@pytest.mark.parametrize("when", ["before", "after"])
def test_silence_before_and_after_the_commit(
    way: tuple[str, str, Relay], monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    _, url, relay = way
    pieces = Pieces(monkeypatch)
    with closing(PostgresStore(url)) as store:
        get_ready(store)
        pieces.read()
        relay.sign, relay.silent_at_commit = b"lone", when
        submit(store, "lone")
        assert relay.silent_at_commit is None
        submit(store, "next")
        assert ids(store) == {f"first-{n}" for n in range(FIRST_SUBMITS)} | {"lone", "next"}
        assert store.stats().submitted == FIRST_SUBMITS + 2
        assert store.check() == []


def test_a_write_that_arrives_late_does_nothing_even_where_its_job_is_gone_again(
    way: tuple[str, str, Relay],
) -> None:
    direct, url, relay = way
    with closing(PostgresStore(url)) as store, closing(PostgresStore(direct)) as other:
        get_ready(store)
        process = connection_of(store).info.backend_pid
        relay.sign, relay.silent_at_commit = b"lone", "before"
        # It is not heard of, and submitted as usual; then it runs, and nothing is left of it.
        submit(store, "lone")
        [lone] = [
            each
            for each in other.exchange(request=LeaseRequest(worker="w", limit=9)).leases
            if each.job_id == "lone"
        ]
        other.exchange([Settlement(lone.job_id, lone.version, Complete())])
        report = other.prune(AT_ONCE, scope=Scope(force=True), actor="test")
        while report.more:
            report = other.prune(AT_ONCE, scope=Scope(force=True), run=report.run, actor="test")
        assert other.get("lone") is None
        with other._database.read() as db:
            (before,) = db.execute("SELECT last_value FROM job_seq")
        relay.let_go()
        until_gone(other, process)
        assert other.get("lone") is None
        with other._database.read() as db:
            assert [*db.execute("SELECT last_value FROM job_seq")] == [before]
        assert other.check() == []


def until_gone(store: PostgresStore, process: int) -> None:
    """Wait until a process of the server has done all that was sent to it, and ended."""
    with store._database._lending.connection() as db:
        for _ in range(500):
            if not [*db.execute("SELECT 1 FROM pg_stat_activity WHERE pid = $1", (process,))]:
                return
            db.execute("SELECT pg_sleep(0.01)")
    pytest.fail("it still waits for its client")


def test_a_mark_is_used_for_so_many_writes(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marks, "USED_BY_WRITES", 3)
    store._database.marks.drop()
    for number in range(FIRST_SUBMITS + 12):
        store.submit([Draft(id=f"job-{number}", task="work")])
    with store._database.read() as db:
        used = [writes for (writes,) in db.execute("SELECT count(*) FROM mark")]
    assert used[0] >= 4
    assert store.check() == []
