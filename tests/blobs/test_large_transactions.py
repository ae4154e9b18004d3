"""Large payloads and results in transactions: the blob is written first, whatever comes of them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from leasehold import (
    Connection,
    DuplicateJobError,
    InvalidJobError,
    Job,
    JobHandle,
    NewJob,
    QueueFullError,
    RetentionPolicy,
    Status,
    StoreUnavailableError,
    TaskQueue,
    TransactionError,
    chain,
    current_job,
)
from leasehold.blobs.blobs import Blobs
from leasehold.blobs.folder import FolderBlobs
from leasehold.core.model.blob import BLOB_CODEC, decode_reference
from leasehold.core.model.lease import Lease
from leasehold.core.model.status import Event
from leasehold.core.rules.blob_retention import GRACE_SECONDS
from leasehold.env import Env, ManualClock
from leasehold.stores.sqlite import SQLiteStore
from leasehold.testing import drain
from support import large_tasks
from support.transaction_tasks import MAKE_ROWS, ROWS

WAIT = 30
BIG = "0123456789abcdef" * 65536

TASKS: dict[str, Callable[..., Any]] = {
    "thread": large_tasks.double_in_a_transaction,
    "async": large_tasks.double_in_a_transaction_async,
    "process": large_tasks.double_in_a_transaction,
}


class UndoneError(Exception):
    """Raised to have a transaction rolled back."""


class Scene:
    """A queue on a file, the application's connection to it, and the blobs beside it."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.folder = folder / "jobs.db-blobs"
        self.queue = TaskQueue(folder / "jobs.db", retention=RetentionPolicy(), **options)
        for name, task in TASKS.items():
            executor: Any = name
            self.queue.task(name=name, executor=executor, retry=3600.0)(task)
        assert isinstance(self.queue.store, SQLiteStore)
        self.store = self.queue.store

    def open(self) -> Connection:
        self.connection = self.queue.connect()
        self.connection.execute(MAKE_ROWS)
        return self.connection

    def files(self) -> list[str]:
        return sorted(path.name for path in self.folder.rglob("*") if path.is_file())

    def rows(self) -> list[str]:
        return [row[0] for row in self.connection.execute(ROWS)]

    def until_settled(self, job: JobHandle[Any]) -> Job:
        """Wait until its only attempt has ended, however that was."""
        while (snapshot := job.job()).status in (Status.PENDING, Status.RUNNING):
            assert snapshot.attempts <= 1
        return snapshot

    def close(self) -> None:
        self.connection.close()
        assert self.store.check() == []
        self.queue.shutdown()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def still(tmp_path: Path, clock: ManualClock) -> Iterator[Scene]:
    """Where nothing runs, and no time passes by itself."""
    scene = Scene(tmp_path, num_workers=0, env=Env(clock))
    scene.open()
    yield scene
    scene.close()


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[Scene]:
    """Where workers run what is submitted."""
    scene = Scene(tmp_path, num_workers=2)
    scene.open()
    yield scene
    scene.close()


# -- payloads -----------------------------------------------------------------------------------


def submit(queue: TaskQueue, connection: Connection) -> list[str]:
    return [queue.submit("load", BIG, connection=connection).id]


def submit_task(queue: TaskQueue, connection: Connection) -> list[str]:
    task = queue.task(name="load")(large_tasks.double)
    return [task.options(connection=connection).submit(BIG).id]


def submit_many(queue: TaskQueue, connection: Connection) -> list[str]:
    jobs = [NewJob("load", (BIG,)), NewJob("load", ("small",))]
    return [job.id for job in queue.submit_many(jobs, connection=connection)]


def submit_partly(queue: TaskQueue, connection: Connection) -> list[str]:
    jobs = [NewJob("load", (BIG,), job_id="good"), NewJob("load", (BIG,), job_id="bad\nid")]
    good, bad = queue.submit_many(jobs, partial=True, connection=connection)
    assert isinstance(bad, InvalidJobError)
    assert isinstance(good, JobHandle)
    return [good.id]


def submit_workflow(queue: TaskQueue, connection: Connection) -> list[str]:
    workflow = chain(NewJob("load", (BIG,)), NewJob("load", ("small",)))
    return [job.id for job in queue.submit_workflow(workflow, connection=connection).values()]


def submit_command(queue: TaskQueue, connection: Connection) -> list[str]:
    return [queue.submit_command(["cat"], stdin=BIG, connection=connection).id]


def asubmit(queue: TaskQueue, connection: Connection) -> list[str]:
    return [asyncio.run(queue.asubmit("load", BIG, connection=connection)).id]


def asubmit_many(queue: TaskQueue, connection: Connection) -> list[str]:
    jobs = [NewJob("load", (BIG,))]
    return [job.id for job in asyncio.run(queue.asubmit_many(jobs, connection=connection))]


DOORS = [
    submit,
    submit_task,
    submit_many,
    submit_partly,
    submit_workflow,
    submit_command,
    asubmit,
    asubmit_many,
]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("commits", [True, False])
def test_after_a_rollback_the_clean_up_finds_the_blob(
    still: Scene,
    clock: ManualClock,
    door: Callable[[TaskQueue, Connection], list[str]],
    commits: bool,
) -> None:
    with suppress(UndoneError), still.connection.transaction():
        job_ids = door(still.queue, still.connection)
        assert len(still.files()) == 1
        if not commits:
            raise UndoneError
    assert {job.id for job in still.queue.search()} == (set(job_ids) if commits else set())
    still.queue.prune(force=True)
    assert len(still.files()) == 1, "it may be about to be submitted"
    clock.advance(GRACE_SECONDS + 60)
    still.queue.prune(force=True)
    assert len(still.files()) == int(commits)
    if commits:
        lease = still.queue.lease(wait=0)
        assert lease is not None
        assert BIG in str(still.queue.arguments(lease))


def test_the_blob_is_there_before_the_row(still: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    submit_within, seen = still.store.submit_within, []

    def look(connection: Connection, drafts: Any, *, partial: bool) -> Any:
        key = decode_reference(drafts[0].payload).key
        seen.append(key.rpartition("/")[2] in still.files())
        return submit_within(connection, drafts, partial=partial)

    monkeypatch.setattr(still.store, "submit_within", look)
    with still.connection.transaction():
        still.queue.submit("load", BIG, connection=still.connection)
    assert seen == [True]


def test_what_is_refused_leaves_no_blob_and_the_rest_goes_on(still: Scene) -> None:
    queue, connection = still.queue, still.connection
    queue.create_queue("narrow", max_depth=1)
    with pytest.raises(TransactionError, match="no open transaction"):
        queue.submit("load", BIG, connection=connection)
    assert still.files() == []
    with connection.transaction():
        first = queue.submit("load", BIG, queue="narrow", connection=connection)
        with pytest.raises(DuplicateJobError):
            queue.submit("load", BIG, job_id=first.id, connection=connection)
        with pytest.raises(QueueFullError):
            queue.submit("load", BIG, queue="narrow", connection=connection)
        keyed = [
            queue.submit("load", BIG, idempotency_key="key", connection=connection)
            for _ in range(2)
        ]
    assert [job.is_duplicate for job in keyed] == [False, True]
    assert len(still.files()) == 2
    leases = [queue.lease(name, wait=0) for name in ("narrow", "default")]
    assert [queue.arguments(lease)[0] for lease in leases if lease] == [[BIG], [BIG]]


def test_a_place_out_of_reach_undoes_the_submit_alone(still: Scene) -> None:
    still.folder.write_text("in the way")
    with still.connection.transaction():
        small = still.queue.submit("load", "small", connection=still.connection)
        with pytest.raises(Exception, match="blobs"):
            still.queue.submit("load", BIG, connection=still.connection)
    still.folder.unlink()
    assert [job.id for job in still.queue.search()] == [small.id]


@pytest.mark.parametrize("fails", [True, False])
def test_submitted_inside_a_tasks_own_transaction(still: Scene, fails: bool) -> None:
    queue = still.queue

    @queue.task(name="parent", max_retries=0)
    def parent() -> str:
        with current_job().transaction():
            job = queue.submit("child", BIG, delay=3600)
        if fails:
            raise OSError
        return job.id

    job = parent.submit()
    assert drain(queue).completed == int(not fails)
    assert len(still.files()) == 1
    children = list(queue.search(task="child"))
    assert [child.id for child in children] == ([] if fails else [job.result(0)])
    for child in children:
        assert queue.payload_of(child)["args"] == [BIG]


# -- clean-ups and transactions that stay open --------------------------------------------------


def test_no_clean_up_gets_past_an_open_transaction(still: Scene, clock: ManualClock) -> None:
    still.store._database.side.db.set_busy_timeout(50)
    raised: list[Exception] = []

    def prune() -> None:
        try:
            still.queue.prune(force=True)
        except StoreUnavailableError as error:
            raised.append(error)

    with still.connection.transaction():
        still.queue.submit("load", BIG, connection=still.connection)
        clock.advance(2 * GRACE_SECONDS)
        with pytest.raises(TransactionError):
            still.queue.prune(force=True)
        another = threading.Thread(target=prune)
        another.start()
        another.join(WAIT)
        assert len(raised) == 1
        assert len(still.files()) == 1
    still.queue.prune(force=True)
    assert len(still.files()) == 1


def test_a_transaction_that_opens_during_a_clean_up_is_safe_however_long(
    still: Scene, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    still.queue.submit("load", BIG)
    transaction = still.connection.transaction()
    list_keys, calls = FolderBlobs.list, iter(range(100))

    def list_late(blobs: FolderBlobs, *args: Any) -> list[str]:
        if next(calls) == 1:  # The first only asks whether there is anything.
            transaction.__enter__()
            still.queue.submit("load", BIG, connection=still.connection)
            clock.advance(2 * GRACE_SECONDS)
        return list_keys(blobs, *args)

    monkeypatch.setattr(FolderBlobs, "list", list_late)
    assert still.queue.blobs is not None
    cleaned = still.queue.blobs.clean_up()
    transaction.__exit__(None, None, None)
    assert (cleaned.looked_at, cleaned.deleted) == (2, 0)
    for lease in still.queue.lease_many(2, wait=0):
        assert still.queue.arguments(lease)[0] == [BIG]


# -- results ------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_a_large_result_is_kept_before_the_commit(
    busy: Scene, monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    keep_result = Blobs.keep_result
    seen: list[tuple[Status, list[str]]] = []

    def look(blobs: Blobs, lease: Lease, data: bytes, codec: str) -> tuple[bytes, str]:
        kept = keep_result(blobs, lease, data, codec)
        seen.append((busy.queue.get_status(lease.job_id), busy.rows()))
        return kept

    monkeypatch.setattr(Blobs, "keep_result", look)
    # The connection is this thread's; the look is another's.
    application, busy.connection = busy.connection, busy.queue.connect()
    large, small = busy.queue.submit(task, BIG), busy.queue.submit(task, "small")
    assert large.result(WAIT) == BIG + BIG
    assert small.result(WAIT) == "smallsmall"
    assert [status for status, _ in seen] == [Status.RUNNING]
    assert large.id not in seen[0][1]
    assert sorted(busy.rows()) == sorted([large.id, small.id])
    job = large.job()
    assert (job.result_codec, job.attempts) == (BLOB_CODEC, 1)
    history = [event.event for event in busy.queue.history(large)]
    assert history == [Event.CREATED, Event.LEASED, Event.COMPLETED]
    application.close()


@pytest.mark.parametrize("task", TASKS)
def test_a_result_that_cannot_be_kept_rolls_back(busy: Scene, task: str) -> None:
    busy.folder.write_text("in the way")
    half = BIG[:200_000]
    job = busy.queue.submit(task, half)
    snapshot = busy.until_settled(job)
    assert snapshot.error is not None
    assert (snapshot.status, snapshot.error.type) == (Status.FAILED, "BlobUnavailableError")
    assert busy.rows() == []
    busy.folder.unlink()
    assert busy.queue.submit(task, half).result(WAIT) == half + half


@pytest.mark.parametrize("task", TASKS)
def test_a_result_above_all_limits_rolls_back(tmp_path: Path, task: str) -> None:
    scene = Scene(tmp_path, num_workers=1)
    scene.queue._workers._blobs = Blobs(scene.store, bytes_max=len(BIG))
    scene.open()
    job = scene.queue.submit(task, BIG[:-1000])
    snapshot = scene.until_settled(job)
    assert snapshot.error is not None
    assert (snapshot.status, snapshot.error.type) == (Status.DEAD, "PayloadError")
    assert scene.rows() == []
    scene.close()


def test_a_timeout_while_the_result_is_kept_rolls_back(
    busy: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_result, over = Blobs.keep_result, threading.Event()

    def wait(blobs: Blobs, lease: Lease, data: bytes, codec: str) -> tuple[bytes, str]:
        assert over.wait(WAIT)
        return keep_result(blobs, lease, data, codec)

    monkeypatch.setattr(Blobs, "keep_result", wait)
    task = busy.queue.task(name="late", retry=3600.0)(TASKS["async"])
    job = task.options(timeout_seconds=0.1).submit(BIG)
    snapshot = busy.until_settled(job)
    over.set()
    assert snapshot.error is not None
    assert (snapshot.status, snapshot.error.type) == (Status.FAILED, "JobTimeoutError")
    assert busy.rows() == []
    # Its transaction is over: the next one has its turn.
    again = busy.queue.submit("async", BIG)
    assert again.result(WAIT) == BIG + BIG
    assert busy.rows() == [again.id]


def test_a_result_whose_commit_failed_goes_with_the_clean_up(
    still: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError("no")

    job = still.queue.submit("thread", BIG[:200_000])
    with monkeypatch.context() as patch:
        patch.setattr(
            "leasehold.stores.sqlite.writing.transaction_verbs.HeldTransaction.complete", refuse
        )
        assert drain(still.queue).failed == 1
    assert (still.rows(), len(still.files())) == ([], 1)
    still.queue.prune(force=True)
    assert still.files() == []
    still.queue.cancel(job)
    still.queue.replay(job)
    assert drain(still.queue).completed == 1
    assert job.result(0) == BIG[:200_000] * 2
    assert (still.rows(), len(still.files())) == ([job.id], 1)
