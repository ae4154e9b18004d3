"""Large payloads and results end to end: nobody who submits, runs or waits sees a difference."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold import (
    AsyncTaskQueue,
    BlobDamagedError,
    BlobLostError,
    BlobUnavailableError,
    DuplicateJobError,
    Every,
    IdempotencyConflictError,
    InvalidJobError,
    JobFailedError,
    JobFilter,
    LeaseLostError,
    NewJob,
    PayloadError,
    PayloadTooLargeError,
    QueueFullError,
    RetentionPolicy,
    Status,
    TaskQueue,
    UnsupportedError,
    Workflow,
)
from leasehold.blobs.blobs import Blobs
from leasehold.blobs.folder import FolderBlobs
from leasehold.blobs.memory import memory_blobs_of
from leasehold.core.model.blob import BLOB_CODEC, decode_reference
from leasehold.core.model.job import Draft, Job
from leasehold.core.model.lease import Lease
from leasehold.core.model.limits import PAYLOAD_BYTES_MAX
from leasehold.env import Env, ManualClock
from leasehold.stores.memory import MemoryStore
from leasehold.testing import InlineQueue, assert_submitted, drain
from leasehold.worker.hooks import Hooks
from support import large_tasks
from support.effort import drawn

MIB = 1024 * 1024
WAIT = 30
BIG = "0123456789abcdef" * (MIB // 16)


class MakeQueue(Protocol):
    def __call__(self, **options: Any) -> TaskQueue: ...


@pytest.fixture
def made() -> Iterator[list[TaskQueue]]:
    queues: list[TaskQueue] = []
    yield queues
    for queue in queues:
        queue.shutdown(wait=False)


@pytest.fixture(params=["memory", "folder", "s3"])
def make_queue(request: pytest.FixtureRequest, tmp_path: Path, made: list[TaskQueue]) -> MakeQueue:
    """Makes queues that keep blobs in every kind of place."""
    place = None
    if request.param == "s3":
        place = request.getfixturevalue("new_bucket")("jobs")
    url = "memory://" if request.param == "memory" else str(tmp_path / "jobs.db")

    def make(**options: Any) -> TaskQueue:
        made.append(TaskQueue(url, **{"blobs": place, **options}))
        return made[-1]

    return make


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def still(make_queue: MakeQueue, clock: ManualClock) -> TaskQueue:
    """A queue where nothing runs and no time passes by itself."""
    return make_queue(num_workers=0, env=Env(clock), retention=RetentionPolicy())


@pytest.fixture
def on_disk(tmp_path: Path, made: list[TaskQueue]) -> Callable[..., TaskQueue]:
    def make(**options: Any) -> TaskQueue:
        made.append(TaskQueue(tmp_path / "jobs.db", num_workers=0, **options))
        return made[-1]

    return make


def blob_files(tmp_path: Path) -> list[Path]:
    return [path for path in (tmp_path / "jobs.db-blobs").rglob("*") if path.is_file()]


# -- everybody's way ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("func", "executor"),
    [
        (large_tasks.double, "thread"),
        (large_tasks.double_async, "async"),
        (large_tasks.double_in_a_child, "process"),
    ],
)
def test_a_worker_runs_a_large_job(
    make_queue: MakeQueue, func: Callable[[str], str], executor: Any
) -> None:
    queue = make_queue(num_workers=2)
    task = queue.task(executor=executor)(func)
    jobs = [task.submit(BIG), task.submit("small")]
    assert jobs[0].result(WAIT) == BIG + BIG
    assert jobs[1].result(WAIT) == "smallsmall"
    assert jobs[0].job().codec == jobs[0].job().result_codec == BLOB_CODEC
    assert jobs[1].job().codec == jobs[1].job().result_codec == "json"
    rows = queue.store.search(JobFilter()).jobs
    assert all(len(row.payload_data) + len(row.result_data or b"") < 1000 for row in rows)


def test_a_result_alone_may_be_large(make_queue: MakeQueue) -> None:
    queue = make_queue(num_workers=1)
    half = BIG[: PAYLOAD_BYTES_MAX // 2 + 100]
    job = queue.submit(large_tasks.double, half)
    assert job.result(WAIT) == half + half
    assert (job.job().codec, job.job().result_codec) == ("json", BLOB_CODEC)


def test_many_parts_pass_to_a_child_and_back(on_disk: Callable[..., TaskQueue]) -> None:
    queue = on_disk()
    task = queue.task(executor="process")(large_tasks.double_in_a_child)
    job = task.submit(BIG * 9)
    worker = queue._workers.new(1, Hooks())
    worker.start()
    try:
        assert job.result(WAIT) == BIG * 18
    finally:
        worker.stop()


def test_signed_pickles_may_be_large(make_queue: MakeQueue) -> None:
    queue = make_queue(num_workers=1, pickle_key=b"k" * 32)
    data = bytes(range(256)) * 4096
    assert queue.submit(large_tasks.backwards, data).result(WAIT) == data[::-1]


def test_a_command_may_have_a_large_input(on_disk: Callable[..., TaskQueue]) -> None:
    queue = on_disk(allow_commands=True)
    job = queue.submit_command(["wc", "-c"], stdin=BIG)
    worker = queue._workers.new(1, Hooks())
    worker.start()
    try:
        assert job.result(WAIT)["stdout_tail"].strip() == str(MIB)
    finally:
        worker.stop()


def test_a_consumer_sees_no_difference(still: TaskQueue) -> None:
    job = still.submit("thumbnails", BIG, size=3)
    lease = still.lease(wait=0)
    assert lease is not None
    assert still.arguments(lease) == ([BIG], {"size": 3})
    assert still.ack(lease, {"picture": BIG}).status is Status.COMPLETED
    assert job.result(0) == {"picture": BIG}


def test_documents_batches_and_replays(still: TaskQueue) -> None:
    jobs = still.submit_many([NewJob("load", document={"rows": BIG}), NewJob("load", ["small"])])
    lease = still.lease(wait=0)
    assert lease is not None
    still.nack(lease, "not yet", requeue=False)
    still.replay(jobs[0])
    leases = still.lease_many(2, wait=0)
    documents = [still.arguments(lease)[0] for lease in leases]
    # One that has failed before stands behind its equals.
    assert documents == [["small"], [{"rows": BIG}]]


def test_dependencies_pass_large_results_on(make_queue: MakeQueue) -> None:
    queue = make_queue(num_workers=2)
    double = queue.task(large_tasks.double)
    here = queue.task(name="here")(large_tasks.join_dependencies)
    child = queue.task(executor="process")(large_tasks.join_dependencies)
    workflow = Workflow()
    workflow.add("one", double.job(BIG))
    workflow.add("two", double.job("small"))
    workflow.add("here", here.job(), after=["one", "two"])
    workflow.add("child", child.job(), after=["one", "two"])
    run = queue.submit_workflow(workflow)
    for name in ("here", "child"):
        assert run[name].result(WAIT) == BIG + BIG + "smallsmall"
        assert list(queue.dependency_results(run[name]).values()) == [BIG + BIG, "smallsmall"]


def test_everything_can_be_awaited(tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncTaskQueue(tmp_path / "jobs.db", num_workers=1) as queue:
            job = await queue.submit(large_tasks.double, BIG)
            assert await job.result(WAIT) == BIG + BIG
            assert await queue.get_result(job.id, WAIT) == BIG + BIG
            waiting = await queue.submit("elsewhere", BIG, queue="other")
            lease = await queue.lease("other", wait=0)
            assert lease is not None
            assert lease.job_id == waiting.id
            [[argument], _] = await queue.arguments(lease)
            await queue.ack(lease, argument)
            assert await waiting.result(WAIT) == BIG

    asyncio.run(main())


def test_neither_is_read_or_written_in_an_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[str] = set()
    fetch, put = Blobs.fetch, Blobs.put

    def note_fetch(blobs: Blobs, document: bytes) -> tuple[bytes, str]:
        threads.add(threading.current_thread().name)
        return fetch(blobs, document)

    def note_put(blobs: Blobs, *args: Any) -> bytes:
        threads.add(threading.current_thread().name)
        return put(blobs, *args)

    monkeypatch.setattr(Blobs, "fetch", note_fetch)
    monkeypatch.setattr(Blobs, "put", note_put)

    async def main() -> None:
        async with AsyncTaskQueue(tmp_path / "jobs.db", num_workers=1) as queue:
            job = await queue.submit(large_tasks.double_async, BIG)
            assert await job.result(WAIT) == BIG + BIG

    asyncio.run(main())
    assert threads
    assert "MainThread" not in threads
    assert not [name for name in threads if name.endswith("-asyncio")]


def test_the_testing_kit_knows_them(clock: ManualClock) -> None:
    queue = InlineQueue(clock)
    assert queue.submit(large_tasks.double, BIG).result() == BIG + BIG
    assert_submitted(queue, large_tasks.double, args=[BIG], count=1)
    with pytest.raises(AssertionError, match=r"expected 2 matching jobs of .*, found 1"):
        assert_submitted(queue, large_tasks.double, args=[BIG], count=2)


# -- schedules ----------------------------------------------------------------------------------


def test_a_schedules_jobs_share_its_payload(still: TaskQueue, clock: ManualClock) -> None:
    double = still.task(large_tasks.double)
    for _ in range(2):  # As every start of a program says it again.
        still.schedule("hourly", double, Every(3600), args=(BIG,))
    assert len([each for each in still.audit_log() if "schedule" in each.action]) == 1
    clock.advance(3600)
    assert drain(still).completed == 1
    clock.advance(3600)
    assert drain(still).completed == 1
    [one, two] = still.search()
    assert one.payload_data == two.payload_data
    assert still.result_of(one) == still.result_of(two) == BIG + BIG
    clock.advance(2 * 3600)
    still.prune(force=True)
    drained = drain(still)
    assert (drained.completed, drained.dead) == (1, 0)


def test_a_schedules_payload_goes_when_no_job_names_it(
    still: TaskQueue, clock: ManualClock
) -> None:
    double = still.task(large_tasks.double)
    still.schedule("hourly", double, Every(3600), args=(BIG,))
    clock.advance(3600)
    drain(still)
    still.schedule("hourly", double, Every(3600), args=(BIG + "changed",))
    assert still.blobs is not None
    clock.advance(3601)
    assert still.blobs.clean_up().deleted == 0
    [ended] = still.search()
    # Its result, and the payload that only this job still named.
    still.discard(ended)
    assert still.blobs.clean_up().deleted == 1
    drained = drain(still)
    assert (drained.completed, drained.dead) == (1, 0)


# -- idempotency --------------------------------------------------------------------------------


def test_a_key_is_for_the_same_data_wherever_it_is_kept(
    on_disk: Callable[..., TaskQueue], tmp_path: Path
) -> None:
    queue = on_disk()
    first = queue.submit("load", BIG, idempotency_key="key")
    again = queue.submit("load", BIG, idempotency_key="key")
    assert (again.id, again.is_duplicate) == (first.id, True)
    with pytest.raises(IdempotencyConflictError):
        queue.submit("load", BIG + "!", idempotency_key="key")
    assert len(blob_files(tmp_path)) == 1
    lease = queue.lease(wait=0)
    assert lease is not None
    assert queue.arguments(lease)[0] == [BIG]


def test_a_refused_job_leaves_nothing_and_harms_nothing(
    on_disk: Callable[..., TaskQueue], tmp_path: Path
) -> None:
    queue = on_disk()
    queue.create_queue("small", max_depth=1)
    queue.submit("load", BIG, job_id="mine", queue="small")
    with pytest.raises(DuplicateJobError):
        queue.submit("load", BIG + "!", job_id="mine")
    with pytest.raises(QueueFullError):
        queue.submit("load", BIG, queue="small")
    answers = queue.submit_many(
        [NewJob("load", [BIG], job_id="mine"), NewJob("load", [BIG], job_id="other")], partial=True
    )
    assert isinstance(answers[0], DuplicateJobError)
    assert len(blob_files(tmp_path)) == 2
    lease = queue.lease(wait=0)
    assert lease is not None
    assert queue.arguments(lease)[0] == [BIG]


def test_a_stale_acknowledgement_changes_no_result(on_disk: Callable[..., TaskQueue]) -> None:
    queue = on_disk()
    job = queue.submit("load")
    lease = queue.lease(wait=0)
    assert lease is not None
    first = queue.ack(lease, BIG)
    assert queue.ack(lease, BIG) == first
    with pytest.raises(LeaseLostError, match="another result"):
        queue.ack(lease, BIG + "again")
    with pytest.raises(LeaseLostError):
        queue.nack(lease, "stale")
    assert job.result(0) == BIG


@pytest.mark.parametrize("job_id", ["../../../etc/passwd", "A", "a/b", "ü" * 255, "x" * 255, ".."])
def test_any_id_will_do(on_disk: Callable[..., TaskQueue], tmp_path: Path, job_id: str) -> None:
    queue = on_disk()
    job = queue.submit("load", BIG, job_id=job_id)
    lease = queue.lease(wait=0)
    assert lease is not None
    queue.ack(lease, queue.arguments(lease)[0][0])
    assert job.result(0) == BIG
    assert queue.blobs is not None
    assert queue.blobs.clean_up().deleted == 0
    queue.discard(job)
    assert blob_files(tmp_path) == []


def test_a_bad_job_writes_nothing(on_disk: Callable[..., TaskQueue], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="control characters"):
        on_disk().submit("load", BIG, job_id="bad\nid")
    assert blob_files(tmp_path) == []


def test_a_bad_job_hinders_no_good_one(on_disk: Callable[..., TaskQueue], tmp_path: Path) -> None:
    queue = on_disk()
    jobs = [NewJob("load", [BIG], job_id=job_id) for job_id in ("good", "bad\nid", "fine")]
    answers = queue.submit_many(jobs, partial=True)
    assert isinstance(answers[1], InvalidJobError)
    assert "control characters" in str(answers[1])
    assert sorted(job.id for job in queue.search()) == ["fine", "good"]
    assert len(blob_files(tmp_path)) == 2


def test_a_call_that_fails_half_way_leaves_nothing(
    on_disk: Callable[..., TaskQueue], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = on_disk()
    put, puts = FolderBlobs.put, itertools.count()

    def fail_at_the_third(blobs: FolderBlobs, key: str, data: bytes) -> None:
        if next(puts) == 2:
            raise BlobUnavailableError("the line is dead")
        put(blobs, key, data)

    monkeypatch.setattr(FolderBlobs, "put", fail_at_the_third)
    with pytest.raises(BlobUnavailableError):
        queue.submit_many([NewJob("load", [BIG]) for _ in range(4)])
    assert list(queue.search()) == []
    assert blob_files(tmp_path) == []


@settings(max_examples=drawn(50), deadline=None)
@given(
    data=st.binary(max_size=5000),
    codec=st.sampled_from(["json", "pickle"]),
    job_id=st.text(min_size=1, max_size=80).filter(str.isprintable),
)
def test_any_bytes_of_any_job_come_back(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, codec: str, job_id: str
) -> None:
    store = MemoryStore()
    folder = FolderBlobs(str(tmp_path_factory.getbasetemp() / "any-bytes"), synced=False)
    for opened in ((memory_blobs_of(store), "memory"), (folder, "5e1f")):
        blobs = Blobs(store)
        blobs._opened = opened
        draft = blobs.keep_payload(Draft(id=job_id, task="t", payload=data, codec=codec))
        assert blobs.fetch(draft.payload) == (data, codec)


# -- limits and refusals ------------------------------------------------------------------------


def test_without_blobs_large_data_is_refused(on_disk: Callable[..., TaskQueue]) -> None:
    queue = on_disk(blobs=False)
    with pytest.raises(PayloadTooLargeError, match="262,144"):
        queue.submit("load", BIG)
    with pytest.raises(PayloadTooLargeError, match="262,144"):
        queue.submit_many([NewJob("load", document=BIG)])
    job = queue.submit(large_tasks.double, BIG[:200_000])
    drain(queue)
    error = job.job().error
    assert job.status() is Status.DEAD
    assert error is not None
    assert "262,144" in error.message


def test_who_has_no_blobs_says_so_and_may_be_told(on_disk: Callable[..., TaskQueue]) -> None:
    job = on_disk().submit(large_tasks.double, BIG)
    without = on_disk(blobs=False)
    without.task(large_tasks.double)
    assert drain(without).errors[0].type == "BlobUnavailableError"
    assert job.status() is Status.FAILED


def test_a_folder_that_only_one_process_names_is_found_by_all(
    on_disk: Callable[..., TaskQueue], tmp_path: Path
) -> None:
    named, other = on_disk(blobs=tmp_path / "large"), on_disk()
    other.task(large_tasks.double)
    job = named.submit(large_tasks.double, BIG)
    assert drain(other).completed == 1
    assert job.result(0) == BIG + BIG, "its result is in the other folder"


@pytest.mark.parametrize("place", [None, "other"])
def test_a_folder_out_of_reach_is_named_with_the_one_that_was_looked_in(
    on_disk: Callable[..., TaskQueue], tmp_path: Path, place: str | None
) -> None:
    on_disk(blobs=tmp_path / "large").submit(large_tasks.double, BIG)
    (tmp_path / "large").rename(tmp_path / "unmounted")
    here = tmp_path / ("jobs.db-blobs" if place is None else place)
    other = on_disk(blobs=here if place else None)
    other.task(large_tasks.double)
    [error] = drain(other).errors
    assert error.type == "BlobUnavailableError"
    assert f"was written to {tmp_path / 'large'}, and this process looks in {here}" in error.message


def test_an_upper_bound_is_told(on_disk: Callable[..., TaskQueue]) -> None:
    queue = on_disk()
    queue.blobs = Blobs(queue.store, bytes_max=MIB)
    queue._drafting.bytes_max = MIB
    with pytest.raises(PayloadTooLargeError, match="1,048,576"):
        queue.submit("load", BIG)
    job = queue.submit(large_tasks.double, BIG[: MIB // 2])
    assert drain(queue).dead == 1
    error = job.job().error
    assert error is not None
    assert "1,048,576" in error.message
    draft = Draft(id="one", task="t", payload=b"x" * (MIB + 1))
    with pytest.raises(PayloadTooLargeError, match="1,048,576"):
        queue.blobs.keep_payload(draft)


def test_a_memory_store_keeps_its_blobs_to_itself(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="store has no id"):
        TaskQueue("memory://", blobs=tmp_path)


@pytest.mark.parametrize("place", ["ftp://somewhere", "gs://bucket"])
def test_a_place_of_another_kind_is_refused(tmp_path: Path, place: str) -> None:
    with pytest.raises(UnsupportedError, match="not a place for blobs"):
        TaskQueue(tmp_path / "jobs.db", blobs=place)


def test_what_is_no_place_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="folder"):
        TaskQueue(tmp_path / "jobs.db", blobs=7)  # type: ignore[arg-type]


def test_two_stores_share_a_place_and_never_each_others_blobs(
    tmp_path: Path, made: list[TaskQueue]
) -> None:
    clock = ManualClock()
    one, two = (
        TaskQueue(tmp_path / name, num_workers=0, blobs=tmp_path / "shared", env=Env(clock))
        for name in ("one.db", "two.db")
    )
    made += [one, two]
    one.submit("load", BIG, job_id="same")
    two.submit("load", BIG + "2", job_id="other")
    clock.advance(7200)
    for queue in (one, two):
        queue.prune(force=True)
        lease = queue.lease(wait=0)
        assert lease is not None
        assert queue.arguments(lease)[0][0].startswith(BIG)


# -- for people ---------------------------------------------------------------------------------


def test_a_snapshot_says_where_to_read_it(still: TaskQueue) -> None:
    job = still.submit("load", BIG)
    with pytest.raises(PayloadError, match=r"queue\.payload_of"):
        _ = job.job().payload
    assert still.payload_of(job.job()) == {"args": [BIG], "kwargs": {}}
    lease = still.lease(wait=0)
    assert lease is not None
    still.ack(lease, BIG)
    with pytest.raises(PayloadError, match=r"queue\.result_of"):
        _ = job.job().result
    assert still.result_of(job.job()) == BIG
    assert still.payload_of(still.submit("load", "small").job()) == {
        "args": ["small"],
        "kwargs": {},
    }


# -- lost, damaged, out of reach ----------------------------------------------------------------


def key_of(job: Job) -> str:
    return decode_reference(job.payload_data).key


def test_a_lost_payload_is_a_dead_letter(still: TaskQueue) -> None:
    job = still.submit(large_tasks.double, BIG)
    blobs = still.blobs
    assert blobs is not None
    assert blobs._open() is not None
    blobs._forget([key_of(job.job())])
    assert drain(still).dead == 1
    [letter] = still.dead_letters
    assert letter.error is not None
    assert letter.error.type == "BlobLostError"
    assert key_of(letter) in letter.error.message
    assert "replay" in letter.error.message
    assert letter.attempts == 1
    with pytest.raises(JobFailedError, match="BlobLostError"):
        job.result(0)


@pytest.mark.parametrize("damage", [b"", b"short", b"x" * (MIB + 14)])
def test_a_damaged_payload_is_a_dead_letter(still: TaskQueue, damage: bytes) -> None:
    job = still.submit(large_tasks.double, BIG)
    assert still.blobs is not None
    opened = still.blobs._open()
    assert opened is not None
    opened[0].put(key_of(job.job()), damage)
    assert drain(still).dead == 1
    error = job.job().error
    assert error is not None
    assert error.type == "BlobDamagedError"
    assert opened[0].place in error.message


@pytest.mark.parametrize("executor", ["thread", "async", "process"])
def test_a_lost_payload_is_a_dead_letter_in_every_executor(tmp_path: Path, executor: Any) -> None:
    func: Any = large_tasks.double_async if executor == "async" else large_tasks.double
    with TaskQueue(tmp_path / "jobs.db", num_workers=1) as queue:
        task = queue.task(executor=executor)(func)
        # It waits until its payload is gone.
        job = task.options(delay=3600).submit(BIG)
        [file] = blob_files(tmp_path)
        file.unlink()
        queue.cancel(job)
        queue.replay(job)
        ended = job.wait(WAIT)
        assert ended.status is Status.DEAD
        assert ended.error is not None
        assert ended.error.type == "BlobLostError"


def test_a_restored_payload_can_be_replayed(on_disk: Callable[..., TaskQueue]) -> None:
    queue = on_disk()
    job = queue.submit(large_tasks.double, BIG)
    assert queue.blobs is not None
    opened = queue.blobs._open()
    assert opened is not None
    data = opened[0].get(key_of(job.job()), 2 * MIB)
    assert data is not None
    opened[0].delete([key_of(job.job())])
    assert drain(queue).dead == 1
    opened[0].put(key_of(job.job()), data)
    queue.replay(job)
    assert drain(queue).completed == 1
    assert job.result(0) == BIG + BIG


def test_a_lost_result_is_told(still: TaskQueue) -> None:
    job = still.submit(large_tasks.double, BIG)
    drain(still)
    result = job.job().result_data
    assert result is not None
    assert still.blobs is not None
    still.blobs._forget([decode_reference(result).key])
    with pytest.raises(BlobLostError, match="replay the job"):
        job.result(0)
    assert job.status() is Status.COMPLETED


def test_a_damaged_result_is_told(on_disk: Callable[..., TaskQueue], tmp_path: Path) -> None:
    queue = on_disk()
    job = queue.submit(large_tasks.double, BIG)
    drain(queue)
    for file in blob_files(tmp_path):
        data = bytearray(file.read_bytes())
        data[500] ^= 1
        file.write_bytes(data)
    with pytest.raises(BlobDamagedError):
        job.result(0)


def test_a_place_out_of_reach_is_tried_again(
    on_disk: Callable[..., TaskQueue], tmp_path: Path, clock: ManualClock
) -> None:
    queue = on_disk(env=Env(clock))
    job = queue.submit(large_tasks.double, BIG)
    (tmp_path / "jobs.db-blobs").rename(tmp_path / "unmounted")
    drained = drain(queue)
    assert (drained.failed, drained.errors[0].type) == (1, "BlobUnavailableError")
    (tmp_path / "unmounted").rename(tmp_path / "jobs.db-blobs")
    clock.advance(10)
    assert drain(queue).completed == 1
    assert job.result(0) == BIG + BIG


def test_a_result_that_cannot_be_kept_now_is_tried_again(
    on_disk: Callable[..., TaskQueue], tmp_path: Path, clock: ManualClock
) -> None:
    queue = on_disk(env=Env(clock))
    job = queue.submit(large_tasks.double, BIG[:200_000])
    (tmp_path / "jobs.db-blobs").write_text("in the way")
    drained = drain(queue)
    assert (drained.failed, drained.errors[0].type) == (1, "BlobUnavailableError")
    (tmp_path / "jobs.db-blobs").unlink()
    clock.advance(10)
    assert drain(queue).completed == 1
    assert job.result(0) == BIG[:200_000] * 2


def test_a_submit_that_cannot_be_kept_submits_nothing(
    on_disk: Callable[..., TaskQueue], tmp_path: Path
) -> None:
    queue = on_disk()
    (tmp_path / "jobs.db-blobs").write_text("in the way")
    with pytest.raises(BlobUnavailableError):
        queue.submit("load", BIG)
    assert list(queue.search()) == []


def test_a_reference_that_leads_elsewhere_is_never_followed(
    on_disk: Callable[..., TaskQueue], tmp_path: Path
) -> None:
    queue = on_disk()
    (tmp_path / "secret").write_text("secret")
    document = (
        b'{"kind":"folder","key":"../secret","size":6,"sha256":'
        b'"2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b","codec":"json"}'
    )
    with pytest.raises(InvalidJobError, match="not written for it"):
        queue.store.submit([Draft(id="one", task="t", payload=document, codec=BLOB_CODEC)])
    queue.store.submit([Draft(id="one", task="t", payload=b"1")])
    lease = queue.lease(wait=0)
    assert isinstance(lease, Lease)
    # A row that somebody has changed.
    forged = msgspec.structs.replace(lease, payload=document, codec=BLOB_CODEC)
    with pytest.raises(BlobDamagedError, match="impossible key"):
        queue.arguments(forged)
