"""The file is deleted, replaced or moved away under a store that has it open."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Collection
from contextlib import closing
from pathlib import Path

import pytest

from leasehold import TaskQueue
from leasehold.core.job import Draft
from leasehold.core.lease import LeaseRequest
from leasehold.env import Env, ManualClock
from leasehold.errors import StoreLostError
from leasehold.stores.sqlite import SQLiteStore
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


def replaced_by_a_copy(path: Path) -> None:
    shutil.copy(path, path.with_name("copy.db"))
    path.with_name("copy.db").rename(path)


def folder_renamed(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


def folder_deleted(path: Path) -> None:
    shutil.rmtree(path.parent)


def run_folder_deleted(path: Path) -> None:
    shutil.rmtree(path.with_name("jobs.db-run"))


LOSSES: list[Loss] = [
    deleted,
    replaced_by_another_store,
    replaced_by_a_copy,
    folder_renamed,
    folder_deleted,
    run_folder_deleted,
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
def test_nothing_is_acknowledged_into_a_lost_file(
    store: SQLiteStore, path: Path, clock: ManualClock, lose: Loss
) -> None:
    lose(path)
    if lose is run_folder_deleted:
        clock.advance(1)  # Looked at once a second; until then it still holds all it needs.
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
    with TaskQueue(SQLiteStore(path), num_workers=0) as queue:
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
