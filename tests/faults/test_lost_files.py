"""The file is deleted, replaced or moved away under a store that has it open."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Collection
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from leasehold import TaskQueue
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest
from leasehold.core.model.status import Status
from leasehold.env import Env, ManualClock
from leasehold.errors import StoreLostError, StoreUnavailableError
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.disk import watch
from leasehold.stores.sqlite.disk.continuity import Continuity
from leasehold.stores.sqlite.disk.watch import Notices
from leasehold.worker.stopping import StopReason
from support.lives import enter

pytestmark = pytest.mark.faults

Loss = Callable[[Path], None]


def deleted(path: Path) -> None:
    path.unlink()


def replaced_by_another_store(path: Path) -> None:
    other = path.with_name("other.db")
    store = SQLiteStore(other)
    store.submit([Draft(id="others", task="t")])
    store.close()
    other.rename(path)


def moved_away(path: Path) -> None:
    path.rename(path.with_name("away.db"))


def replaced_by_a_copy(path: Path) -> None:
    shutil.copy(path, path.with_name("copy.db"))
    path.with_name("copy.db").rename(path)


def folder_renamed(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


def folder_deleted(path: Path) -> None:
    shutil.rmtree(path.parent)


def run_folder_deleted(path: Path) -> None:
    shutil.rmtree(path.with_name("jobs.db-run"))


def log_deleted(path: Path) -> None:
    path.with_name("jobs.db-wal").unlink()


def log_index_deleted(path: Path) -> None:
    path.with_name("jobs.db-shm").unlink()


def log_and_index_deleted(path: Path) -> None:
    log_deleted(path)
    log_index_deleted(path)


def log_replaced(path: Path) -> None:
    shutil.copy(path.with_name("jobs.db-wal"), path.with_name("copy"))
    path.with_name("copy").rename(path.with_name("jobs.db-wal"))


def continuity_deleted(path: Path) -> None:
    (path.with_name("jobs.db-run") / "continuity").unlink()


def write_lock_deleted(path: Path) -> None:
    (path.with_name("jobs.db-run") / "write.lock").unlink()


LOSSES: list[Loss] = [
    deleted,
    moved_away,
    replaced_by_another_store,
    replaced_by_a_copy,
    folder_renamed,
    folder_deleted,
    log_deleted,
    log_index_deleted,
    log_and_index_deleted,
    log_replaced,
    run_folder_deleted,
    continuity_deleted,
    write_lock_deleted,
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "place").mkdir()
    return tmp_path / "place" / "jobs.db"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(path: Path, clock: ManualClock) -> SQLiteStore:
    store = SQLiteStore(path, env=Env(clock=clock))
    store.submit([Draft(id="a", task="t")])
    return store


@pytest.mark.parametrize("lose", LOSSES, ids=lambda lose: str(lose.__name__))
@pytest.mark.parametrize("writes_before", [0, 1, 10])
def test_nothing_is_acknowledged_into_a_lost_file(
    store: SQLiteStore, path: Path, lose: Loss, writes_before: int
) -> None:
    """The first writes look at every file, later ones ask the kernel for news."""
    for number in range(writes_before):
        store.submit([Draft(id=f"before-{number}", task="t")])
    lose(path)
    for use in (
        lambda: store.submit([Draft(id="b", task="t")]),
        lambda: store.exchange((), LeaseRequest(worker="w")),
        lambda: store.renew("w", []),
        lambda: store.get("a"),
        store.connect,
    ):
        with pytest.raises(StoreLostError, match=f"{path}.*open the queue again"):
            use()
    store.close()


def folder_above_renamed(path: Path) -> None:
    above = path.parent.parent
    above.rename(above.with_name(f"{above.name}-elsewhere"))


def test_a_folder_further_up_that_is_moved_is_noticed_within_a_second(
    store: SQLiteStore, path: Path, clock: ManualClock
) -> None:
    for number in range(3):
        store.submit([Draft(id=f"before-{number}", task="t")])
    folder_above_renamed(path)
    clock.advance(1)
    with pytest.raises(StoreLostError):
        store.submit([Draft(id="b", task="t")])
    store.close()


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux tells of its own accord")
def test_a_write_looks_at_no_file_of_which_there_is_no_news(
    store: SQLiteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if Notices.of([str(path)]) is None:
        pytest.skip("the kernel tells nobody any more: other stores are open, as many as it allows")
    for number in range(3):
        store.submit([Draft(id=f"before-{number}", task="t")])
    with monkeypatch.context() as patch:
        patch.setattr(watch, "_file_id", lambda path: pytest.fail(f"looked at {path}"))
        for number in range(3):
            store.submit([Draft(id=f"later-{number}", task="t")])
    store.close()


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux tells of its own accord")
def test_what_tells_the_news_is_used_again_without_the_old_news(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.touch()
    other.touch()
    notices = Notices.of([str(one)])
    if notices is None:
        pytest.skip("the kernel tells nobody any more: other stores are open, as many as it allows")
    one.unlink()
    assert notices.have_come()
    notices.close()
    again = Notices.of([str(other)])
    assert again is not None
    assert not again.have_come()
    other.unlink()
    assert again.have_come()
    again.close()


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux tells of its own accord")
def test_a_forked_child_takes_no_news_from_its_parent(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.touch()
    other.touch()
    notices = Notices.of([str(one)])
    if notices is None:
        pytest.skip("the kernel tells nobody any more: other stores are open, as many as it allows")
    child = os.fork()
    if not child:
        notices.close()
        Notices.of([str(other)])
        os._exit(0)
    os.waitpid(child, 0)
    assert not notices.have_come()
    one.unlink()
    assert notices.have_come()
    notices.close()


def test_where_the_kernel_does_not_tell_every_write_looks(
    store: SQLiteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Notices, "of", lambda _: None)
    for number in range(3):
        store.submit([Draft(id=f"before-{number}", task="t")])
    write_lock_deleted(path)
    with pytest.raises(StoreLostError):
        store.submit([Draft(id="b", task="t")])
    store.close()


@pytest.mark.parametrize("lose", [deleted, replaced_by_another_store])
def test_reads_notice_it_within_a_second(
    store: SQLiteStore, path: Path, clock: ManualClock, lose: Loss
) -> None:
    store.get("a")
    lose(path)
    clock.advance(1)
    with pytest.raises(StoreLostError):
        store.get("a")
    store.close()


def test_a_transaction_of_the_application_is_not_committed_into_a_lost_file(
    store: SQLiteStore, path: Path
) -> None:
    connection = store.connect()
    transaction = connection.transaction()
    transaction.__enter__()
    store.submit_within(connection, [Draft(id="b", task="t")])
    deleted(path)
    with pytest.raises(StoreLostError):
        transaction.__exit__(None, None, None)
    connection.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreLostError):
        connection.execute("COMMIT")
    connection.close()
    store.close()


@pytest.mark.parametrize("lose", [log_deleted, log_index_deleted, log_and_index_deleted])
def test_what_was_acknowledged_before_the_log_was_deleted_survives_a_kill(
    path: Path, lose: Loss
) -> None:
    script = """
import sys
from leasehold.core.model.job import Draft
from leasehold.errors import StoreLostError
from leasehold.stores.sqlite import SQLiteStore
store = SQLiteStore(sys.argv[1])
store.submit([Draft(id="a", task="t")])
print("submitted", flush=True)
sys.stdin.readline()
try:
    store.submit([Draft(id="b", task="t")])
except StoreLostError:
    print("lost", flush=True)
sys.stdin.readline()
"""
    with subprocess.Popen(
        [sys.executable, "-c", script, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"submitted\n"
        lose(path)
        process.stdin.write(b"\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        process.kill()
    assert answer == b"lost\n"
    with closing(SQLiteStore(path)) as store:
        assert store.get("a") is not None
        assert store.get("b") is None
        assert store.check() == []


@pytest.mark.parametrize("lose", [log_deleted, log_index_deleted, log_and_index_deleted])
def test_nobody_opens_a_store_whose_log_was_deleted_under_others(
    store: SQLiteStore, path: Path, lose: Loss
) -> None:
    assert store.exchange((), LeaseRequest(worker="w")).leases
    lose(path)
    with pytest.raises(StoreUnavailableError, match=f"{path}: its -wal or its -shm .* deleted"):
        SQLiteStore(path)
    store.close()
    with closing(SQLiteStore(path)) as again:
        job = again.get("a")
        assert job is not None
        assert job.status is Status.RUNNING


@pytest.mark.parametrize("lose", [moved_away, deleted, replaced_by_another_store])
def test_nobody_opens_a_store_whose_file_is_not_that_of_others(
    store: SQLiteStore, path: Path, lose: Loss
) -> None:
    log = path.with_name("jobs.db-wal")
    lose(path)
    held = log.read_bytes()
    for _ in range(2):
        with pytest.raises(StoreUnavailableError, match="moved away, deleted or replaced while"):
            SQLiteStore(path)
    assert log.read_bytes() == held, "it may have the only copy of what was acknowledged"
    assert path.exists() == (lose is replaced_by_another_store)
    store.close()


def test_a_file_that_is_put_back_has_all_that_was_acknowledged(
    store: SQLiteStore, path: Path
) -> None:
    moved_away(path)
    with pytest.raises(StoreUnavailableError):
        SQLiteStore(path)
    with pytest.raises(StoreLostError):
        store.submit([Draft(id="b", task="t")])
    store.close()
    path.with_name("away.db").rename(path)
    with closing(SQLiteStore(path)) as again:
        assert again.get("a") is not None
        assert again.check() == []


def test_who_has_lost_the_index_does_not_write_over_another_program_by_closing(
    store: SQLiteStore, path: Path
) -> None:
    log_index_deleted(path)
    script = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(sys.argv[2])"
    make = "CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)"
    subprocess.run([sys.executable, "-c", script, path, make], check=True)
    with pytest.raises(StoreLostError, match="its -wal or its -shm file"):
        store.submit([Draft(id="b", task="t")])
    store.close()
    with closing(apsw.Connection(str(path))) as db:
        assert db.execute("SELECT x FROM theirs").fetchall() == [(1,)]
        assert db.execute("SELECT id FROM job").fetchall() == [("a",)]


def test_an_opener_waits_for_whoever_is_just_closing_the_store(path: Path) -> None:
    """The log goes a moment before the hold on the store does."""
    SQLiteStore(path).close()
    hold = Continuity(path.with_name("jobs.db-run") / "continuity")
    opened: list[SQLiteStore] = []
    opening = threading.Thread(target=lambda: opened.append(SQLiteStore(path)))
    opening.start()
    hold.close()
    opening.join(30)
    [store] = opened
    store.submit([Draft(id="a", task="t")])
    store.close()


def test_a_file_that_was_moved_back_stays_lost_until_it_is_opened_again(
    store: SQLiteStore, path: Path
) -> None:
    away = path.with_name("away.db")
    path.rename(away)
    with pytest.raises(StoreLostError, match="deleted or moved away"):
        store.submit([Draft(id="b", task="t")])
    away.rename(path)
    with pytest.raises(StoreLostError):
        store.submit([Draft(id="b", task="t")])
    store.close()
    again = SQLiteStore(path)
    assert again.submit([Draft(id="b", task="t")])
    assert again.get("a") is not None
    again.close()


def test_a_worker_whose_file_is_lost_stops_and_says_so(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    queue = TaskQueue(path, num_workers=0, poll_interval=0.05)
    reasons: list[StopReason] = []
    is_ready = threading.Event()
    worker = threading.Thread(
        target=lambda: reasons.append(queue.run_worker(on_ready=lambda _: is_ready.set()))
    )
    worker.start()
    assert is_ready.wait(30)
    path.unlink()
    worker.join(30)
    assert reasons == [StopReason.STORE_LOST]
    assert f"{path} was deleted" in caplog.text
    queue.shutdown()


def test_a_wait_for_a_job_of_a_lost_store_ends(path: Path) -> None:
    # A store that is handed over is the caller's to close.
    with closing(SQLiteStore(path)) as store, TaskQueue(store, num_workers=0) as queue:
        job = queue.submit("work")
        deleted(path)
        with pytest.raises(StoreLostError):
            job.result(timeout=60)


@pytest.mark.parametrize("name", ["workers", "wake"])
def test_a_folder_below_the_run_folder_that_was_deleted_is_made_anew(
    tmp_path: Path, name: str
) -> None:
    with closing(SQLiteStore(tmp_path / "jobs.db")) as store:
        store.submit([Draft(id="a", task="t")])
        shutil.rmtree(tmp_path / "jobs.db-run" / name)
        end = store.subscribe(Quiet())
        with closing(enter(store, "w")):
            store.submit([Draft(id="b", task="t")])
            assert len(store.exchange((), LeaseRequest(worker="w", limit=9)).leases) == 2
            assert store.dead_workers() == set()
        end()
        assert store.check() == []


class Quiet:
    """A listener that does nothing."""

    def on_ready(self) -> None: ...
    def on_ended(self, job_ids: Collection[str] | None) -> None: ...
    def on_cancel_requested(self, job_ids: Collection[str] | None) -> None: ...
