"""`migrate-store`: everything from one SQL store to another, however often it is cut short."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from leasehold.connect import connect
from leasehold.core.contract.store import Store
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.records import WorkerInfo
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.core.rules import moving
from leasehold.core.rules.moving import MovableStore, Moved, RowStore
from leasehold.env import Env, ManualClock
from leasehold.errors import (
    InvalidTransitionError,
    StoreError,
    StoreMovedError,
    StoreVersionError,
    UnsupportedError,
)
from leasehold.stores.memory import MemoryStore
from leasehold.stores.sqlite import SQLiteStore
from support.everything import BETWEEN_WRITES, QUEUES, make_everything
from support.servers import Schemas, needs_psycopg

needs_psycopg()

from leasehold.stores.postgres import PostgresStore  # noqa: E402
from leasehold.stores.postgres.keeping import moving as postgres_moving  # noqa: E402
from leasehold.stores.postgres.server import lending  # noqa: E402
from leasehold.stores.sqlite.keeping import moving as sqlite_moving  # noqa: E402

Make = Callable[[str], Any]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ManualClock]:
    """A store with at least one row in every table, and the clock that it goes by."""
    path, clock = tmp_path_factory.mktemp("image") / "jobs.db", ManualClock()
    make_everything(path, clock)
    return path, clock


@pytest.fixture
def env(image: tuple[Path, ManualClock]) -> Env:
    return Env(clock=image[1])


@pytest.fixture
def make(
    tmp_path: Path, schemas: Schemas, env: Env, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Make]:
    """Make an empty store, of the kind that the name begins with."""
    monkeypatch.setattr(lending, "open_pool", schemas.open_pool)
    opened: list[Store] = []
    lent: list[str] = []

    def made(name: str) -> Any:
        store: Store
        if name.startswith("sqlite"):
            store = SQLiteStore(tmp_path / f"{name}.db", env=env, durability="normal")
        else:
            lent.append(schemas.lend())
            store = PostgresStore(lent[-1], env=env)
        opened.append(store)
        return store

    yield made
    for store in opened:
        store.close()
    for url in lent:
        schemas.take_back(url)


@pytest.fixture
def full(image: tuple[Path, ManualClock], tmp_path: Path, env: Env) -> Iterator[SQLiteStore]:
    shutil.copy(image[0], tmp_path / "full.db")
    store = SQLiteStore(tmp_path / "full.db", env=env, durability="normal")
    with store._database.alone() as db:
        db.execute("DELETE FROM worker")
    yield store
    store.close()


def move(source: Any, target: Any, env: Env, **options: Any) -> Moved:
    return moving.move(source, target, env=env, actor="me", **{"running": "copy", **options})


def told(store: Any) -> dict[str, Any]:
    """Everything that a store tells, but for who works on it."""
    jobs = {job.id: job for job in store.search(JobFilter(), limit=1000).jobs}
    return {
        "jobs": jobs,
        "history": {each: store.history(each) for each in jobs},
        "attempts": {each: store.attempts(each) for each in jobs},
        "logs": {each: store.log(each) for each in jobs},
        "positions": {each: store.position(each) for each in jobs},
        "graph": store.graph(sorted(jobs)),
        "stats": {queue: store.stats(queue) for queue in QUEUES},
        "queues": store.list_queues(),
        "keys": store.key_info("keyed", "k"),
        "schedules": store.schedules(),
        "settings": store.settings(),
        "tokens": store.tokens(),
        "pins": store.pins("deploy"),
        "archive": store.search_archive(JobFilter()),
        "cleanups": store.cleanups(),
        "audit": [each for each in store.audit_page().records if each.action != "migrate_store"],
        "metrics": store.metrics(),
        "series": store.series(),
        "daily": store.daily(),
        "failures": store.failures(),
        "workers' totals": store.worker_totals(),
        "lifetimes": store.lifetimes(),
        "versions": [job.lease_version for job in jobs.values()],
    }


@pytest.mark.parametrize("way", [("postgres", "sqlite"), ("sqlite", "sqlite2"), ("postgres", "p2")])
def test_everything_arrives_and_comes_back(
    full: SQLiteStore, make: Make, env: Env, way: tuple[str, str]
) -> None:
    before = told(full)
    assert all(before.values()), [name for name, each in before.items() if not each]
    with full._database.alone() as db:
        for statement in BETWEEN_WRITES:
            db.execute(statement.replace("INSERT", "INSERT OR IGNORE"))
    there, back = map(make, way)
    moved = move(full, there, env)
    assert told(there) == before
    assert {table.name for table in moved.tables if table.rows} == {
        table.name for table in moved.tables
    }, "the store must have a row in every table, or this test proves less than it says"
    move(there, back, env)
    assert told(back) == before
    assert {each.count for each in back.audit_page().records if each.action == "migrate_store"} == {
        len(before["jobs"])
    }
    assert {each.signing_key() for each in (full, there, back)} == {full.signing_key()}
    assert not back.check()


def test_the_target_works_on(full: SQLiteStore, make: Make, env: Env) -> None:
    target = make("postgres")
    versions = [job.lease_version for job in full.search(JobFilter(), limit=1000).jobs]
    granted = full.row_store().counters().version
    target.submit([])
    move(full, target, env)
    target.submit([Draft(id="new", task="t", priority=100)])
    (lease,) = target.exchange(request=LeaseRequest(worker="w", limit=1)).leases
    assert lease.version > granted >= max(versions)
    target.exchange([Settlement(lease.job_id, lease.version, Complete(b"1"))])
    assert target.get(lease.job_id).status is Status.COMPLETED
    # What ran is taken back when its lease ends, whatever became of its worker in the source.
    assert target.get("held").status is Status.RUNNING
    assert target.recover().recovered == 0
    env.clock.advance(31)  # type: ignore[attr-defined]
    assert target.recover().recovered == 2
    target.set_setting("max_retries", 3, actor="me")
    target.create_queue("more", target.queue_info("other").config, actor="me")
    assert target.audit_page().records[0].action == "create_queue"


def test_versions_and_numbers_go_on_after_those_of_the_source(make: Make, env: Env) -> None:
    """Also those of what is gone: nothing but the counters tells of them."""
    for source, target in (make("postgres"), make("sqlite")), (make("sqlite1"), make("p2")):
        source.submit([Draft(id="gone", task="t")])
        (lease,) = source.exchange(request=LeaseRequest(worker="w", limit=1)).leases
        source.exchange([Settlement(lease.job_id, lease.version, Complete(b"1"))])
        source.discard(["gone"], actor="me")
        before = source.row_store().counters()
        assert before.version >= lease.version
        move(source, target, env)
        after = target.row_store().counters()
        assert after.store_id == before.store_id
        assert after.next_seq >= before.next_seq
        assert after.version >= before.version
        assert after.audit > before.audit
        target.submit([Draft(id="next", task="t")])
        (second,) = target.exchange(request=LeaseRequest(worker="w", limit=1)).leases
        assert second.version > lease.version


def test_one_store_takes_writes_at_a_time(
    full: SQLiteStore, make: Make, env: Env, tmp_path: Path
) -> None:
    target = make("postgres")
    tried = []

    def progress(phase: str, table: str, rows: int) -> None:  # its own names
        for store in (full, target):
            with pytest.raises(StoreMovedError, match="migrate-store"):
                store.submit([Draft(id="no", task="t")])
        tried.append(table)

    move(full, target, env, progress=progress)
    assert tried
    target.submit([Draft(id="yes", task="t")])
    for verb in (
        lambda: full.submit([Draft(id="no", task="t")]),
        lambda: full.exchange(request=LeaseRequest(worker="w", limit=1)),
        lambda: full.cancel(["plain"], reason="", actor="me"),
    ):
        with pytest.raises(StoreMovedError, match="was moved to postgresql://"):
            verb()
    assert full.get("plain") is not None
    # A copy may still be made of it, though that is not written down any more.
    full.backup(str(tmp_path / "copy.db"), actor="me")
    # Whoever did not see its end may run it again.
    again = move(full, target, env)
    assert (again.tables, again.target) == ([], target.row_store().shown)
    with pytest.raises(StoreMovedError, match="was moved to"):
        move(full, make("sqlite2"), env)


@pytest.mark.parametrize(("kind", "other"), [("sqlite", "sqlite2"), ("postgres", "sqlite")])
def test_a_source_that_is_reopened_grants_no_version_of_the_target(
    make: Make, env: Env, kind: str, other: str
) -> None:
    source, target = make(kind), make(other)
    source.submit([Draft(id="job", task="t")])
    move(source, target, env)
    (theirs,) = target.exchange(request=LeaseRequest(worker="w", limit=1)).leases
    with pytest.raises(InvalidTransitionError, match="which replaced it"):
        moving.reopen(source, actor="me")
    with pytest.raises(StoreMovedError):
        source.submit([Draft(id="no", task="t")])
    moving.reopen(source, actor="me", force=True)
    audited = source.audit_page().records[0]
    assert (audited.actor, audited.action, audited.count) == ("me", "reopen_store", 1)
    (ours,) = source.exchange(request=LeaseRequest(worker="w", limit=1)).leases
    assert ours.job_id == theirs.job_id
    # Far above: the target goes on granting, too.
    assert ours.version > theirs.version + 1_000_000


class Cut(BaseException):
    """As a kill would end it."""


class CutStore:
    """A store whose rows are cut off at a write."""

    def __init__(self, store: Any, fuse: list[int]) -> None:
        self._store = store
        self._fuse = fuse

    def row_store(self) -> RowStore:
        return CutRows(self._store.row_store(), self._fuse)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class CutRows:
    def __init__(self, rows: Any, fuse: list[int]) -> None:
        self._rows = rows
        self._fuse = fuse

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._rows, name)
        if name not in ("change_seal", "add", "take_over"):
            return found

        def write(*given: Any, **named: Any) -> Any:
            self._fuse[0] -= 1
            if self._fuse[0] == 0:
                raise Cut
            answer = found(*given, **named)
            self._fuse[0] -= 1
            if self._fuse[0] == 0:
                raise Cut
            return answer

        return write


@pytest.mark.parametrize(("kind", "writes"), [("sqlite", 1), ("postgres", 6)])
def test_cut_short_before_and_after_every_write_it_goes_on(
    full: SQLiteStore,
    make: Make,
    env: Env,
    kind: str,
    writes: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Some more writes each time, until it is through: never doubled, nothing left out."""
    monkeypatch.setattr(moving, "ROWS_AT_ONCE", 7)
    before, target = told(full), make(kind)
    for cuts in range(1, 500):
        # Each try takes up both seals, then it is cut after a new write, or before the next, or
        # after that. (The last two writes are made in one try, or the last one never.)
        fuse = [min(cuts, 4 + 2 * writes + cuts % 3)]
        try:
            move(CutStore(full, fuse), CutStore(target, fuse), env)
            break
        except Cut:
            continue
        except StoreMovedError:
            break  # It was cut short after the last write.
    assert cuts > 30 // writes
    assert told(target) == before


@pytest.mark.parametrize(("kind", "phase"), [("sqlite", "copy"), ("postgres", "verify")])
def test_of_two_runs_at_once_one_is_refused(
    full: SQLiteStore, make: Make, env: Env, kind: str, phase: str
) -> None:
    """Whichever is later goes on, and the one it overtook writes nothing more."""
    before, target = told(full), make(kind)
    done: list[Moved] = []

    def overtake(now: str, table: str, rows: int) -> None:  # its own names
        if now == phase and not done:
            done.append(move(full, target, env))

    with pytest.raises(StoreMovedError, match=r"(?i)another .*migrate-store.* this one stops here"):
        move(full, target, env, progress=overtake)
    assert done
    assert told(target) == before
    with pytest.raises(StoreMovedError, match="was moved to"):
        full.submit([Draft(id="no", task="t")])
    assert target.submit([Draft(id="yes", task="t")])


def test_two_sources_do_not_mix_in_one_target(
    full: SQLiteStore, make: Make, env: Env, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, target = make("sqlite"), make("postgres")
    other.submit([Draft(id="theirs", task="t")])
    seal_source = moving._seal_source
    first: list[None] = []

    def slowly(*given: Any) -> int:
        """Between its look at the target and its seal there, another move of it begins."""
        if not first:
            first.append(None)
            fuse = [8]
            with pytest.raises(Cut):
                move(CutStore(full, fuse), CutStore(target, fuse), env)
        return seal_source(*given)

    monkeypatch.setattr(moving, "_seal_source", slowly)
    with pytest.raises(StoreMovedError, match="is being filled from"):
        move(other, target, env)
    other.submit([Draft(id="goes on", task="t")])
    move(full, target, env)
    assert target.get("theirs") is None


def test_a_move_that_is_given_up_while_it_runs_does_not_go_on(
    full: SQLiteStore, make: Make, env: Env
) -> None:
    target = make("postgres")

    def give_up(phase: str, table: str, rows: int) -> None:  # its own names
        moving.reopen(full, actor="me")

    with pytest.raises(StoreMovedError, match="abandoned it with --reopen"):
        move(full, target, env, progress=give_up)
    full.submit([Draft(id="goes on", task="t")])
    with pytest.raises(StoreMovedError, match="is being filled"):
        target.submit([Draft(id="no", task="t")])


def test_killed_it_goes_on(full: SQLiteStore, make: Make, tmp_path: Path, env: Env) -> None:
    before, target = told(full), make("postgres")
    full.close()
    script = Path(__file__).parent.parent / "support" / "moving_children.py"
    path = tmp_path / "full.db"
    command = [sys.executable, str(script), str(path), target.address(), "25"]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    again = SQLiteStore(path, env=env, durability="normal")
    assert "is being moved to" in again.describe()["seal"]
    assert "is being filled from" in target.describe()["seal"]
    move(again, target, env)
    again.close()
    assert told(target)["jobs"] == before["jobs"]


# -- what is refused -----------------------------------------------------------------------------


def test_refused_while_somebody_works(full: SQLiteStore, make: Make, env: Env) -> None:
    target = make("postgres")
    now = full.now()
    info = WorkerInfo(
        id="w", host="h", pid=1, queues=("q",), slots=1, started_at=now, heartbeat_at=now
    )
    full.register_worker(info, is_remote=True)
    with pytest.raises(InvalidTransitionError, match=r"workers are running .*w \(pid 1 on h\)"):
        move(full, target, env, running="refuse")
    source = make("sqlite")
    source.submit([Draft(id="a", task="t")])
    source.exchange(request=LeaseRequest(worker="w", limit=1))
    with pytest.raises(InvalidTransitionError, match=r"the source has 1 running job"):
        move(source, target, env, running="refuse")
    # Nothing was changed in either.
    for store in (source, target):
        store.submit([Draft(id="b", task="t")])


def test_a_worker_that_is_silent_for_long_does_not_live(make: Make, env: Env) -> None:
    source = make("sqlite")
    now = source.now()
    info = WorkerInfo(id="w", queues=("q",), slots=1, started_at=now, heartbeat_at=now)
    source.register_worker(info, is_remote=True)
    env.clock.advance(121)  # type: ignore[attr-defined]
    assert move(source, make("sqlite2"), env, running="refuse").running == 0


def test_a_target_in_use_is_refused(full: SQLiteStore, make: Make, env: Env) -> None:
    target = make("postgres")
    target.set_setting("max_retries", 2, actor="me")
    with pytest.raises(InvalidTransitionError, match="rows in audit and setting"):
        move(full, target, env)
    with pytest.raises(InvalidTransitionError, match="same store"):
        move(full, full, env)
    full.submit([Draft(id="goes on", task="t")])


def test_a_move_that_was_begun_goes_to_the_same_target_or_is_given_up(
    full: SQLiteStore, make: Make, env: Env
) -> None:
    first, second = make("postgres"), make("sqlite")
    fuse = [10]
    with pytest.raises(Cut):
        move(CutStore(full, fuse), CutStore(first, fuse), env)
    with pytest.raises(StoreMovedError, match="finish that move"):
        move(full, second, env)
    with pytest.raises(StoreMovedError, match="is being filled from"):
        move(second, first, env)
    with pytest.raises(StoreMovedError, match="is being filled from"):
        move(first, second, env)
    with pytest.raises(InvalidTransitionError, match="holds only part"):
        moving.reopen(first, actor="me")
    moving.reopen(full, actor="me")
    move(full, second, env)


def test_other_stores_cannot_be_moved(make: Make, env: Env) -> None:
    with pytest.raises(UnsupportedError, match="not a service"):
        move(make("sqlite"), MemoryStore(env), env)
    with pytest.raises(UnsupportedError):
        move(connect("memory://"), make("sqlite2"), env)


def test_a_difference_is_found(full: SQLiteStore, make: Make, env: Env) -> None:
    target = make("postgres")

    def spoil(phase: str, table: str, rows: int) -> None:  # its own names
        if (phase, table) == ("copy", "worker_total"):
            with target._database.alone() as db:
                db.execute("UPDATE finished SET result = 'x' WHERE result IS NOT NULL")

    with pytest.raises(StoreError, match="table 'finished' has"):
        move(full, target, env, progress=spoil)
    with pytest.raises(StoreMovedError):
        target.submit([Draft(id="no", task="t")])


def test_text_that_postgresql_cannot_hold_is_replaced(make: Make, env: Env) -> None:
    source, target = make("sqlite"), make("postgres")
    source.submit([Draft(id="a", task="t")])
    source.cancel(["a"], reason="one\x00two", actor="me")
    move(source, target, env)
    assert target.get("a").reason == "one�two"


# -- no column is forgotten ----------------------------------------------------------------------


def test_every_table_and_column_is_moved_or_named(make: Make) -> None:
    sqlite, postgres = make("sqlite"), make("postgres")
    ours, theirs = (each.row_store().tables() for each in (sqlite, postgres))
    assert [(each.name, set(each.columns), each.key) for each in ours] == [
        (each.name, set(each.columns), each.key) for each in theirs
    ]
    with sqlite._database.read() as db:
        found = {name for (name,) in db.execute(sqlite_moving.TABLES)}
    assert found == {each.name for each in ours} | sqlite_moving.NOT_MOVED.keys()
    with postgres._database.read() as db:
        found = {name for name, _ in db.execute(postgres_moving.COLUMNS)}
    assert found == {each.name for each in theirs} | postgres_moving.NOT_MOVED.keys()


def test_tables_of_the_application_stay_where_they_are(make: Make, env: Env) -> None:
    source, target, back = make("sqlite"), make("postgres"), make("sqlite2")
    source.submit([Draft(id="a", task="t")])
    with source._database.alone() as db:
        db.execute("CREATE TABLE app_order (id INTEGER PRIMARY KEY)")
        db.execute("ANALYZE")
    move(source, target, env)
    with target._database.alone() as db:
        db.execute("CREATE TABLE app_order (id bigint PRIMARY KEY)")
    try:
        move(target, back, env)
    finally:
        with target._database.alone() as db:
            db.execute("DROP TABLE app_order")
    assert back.get("a") is not None


def test_stores_whose_tables_differ_are_refused(full: SQLiteStore, make: Make, env: Env) -> None:
    with full._database.alone() as db:
        db.execute("ALTER TABLE job ADD COLUMN more TEXT")
    with pytest.raises(StoreVersionError, match="same release"):
        move(full, make("postgres"), env)


def test_stores_can_be_moved() -> None:
    assert issubclass(SQLiteStore, MovableStore)
    assert issubclass(PostgresStore, MovableStore)
