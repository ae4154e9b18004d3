"""The clean-up of blobs: what belongs to nothing goes, and nothing else does."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from leasehold import BlobUnavailableError, NewJob, RetentionPolicy, TaskQueue
from leasehold.blobs import blobs as blobs_module
from leasehold.blobs import cleaning
from leasehold.blobs.blobs import Blobs
from leasehold.blobs.contract import BlobStore
from leasehold.blobs.memory import MemoryBlobs
from leasehold.core.model.job import Draft
from leasehold.core.rules.blob_retention import GRACE_SECONDS
from leasehold.env import Env, ManualClock
from leasehold.testing import drain
from leasehold.worker.pruner import Pruner
from support import large_tasks

MIB = 1024 * 1024
BIG = "0123456789abcdef" * (MIB // 16)
DAY = 24 * 3600


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def make_queue(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock
) -> Iterator[Callable[[str], TaskQueue]]:
    made: list[TaskQueue] = []

    def make(kind: str) -> TaskQueue:
        place = request.getfixturevalue("new_bucket")("jobs") if kind == "s3" else None
        url = "memory://" if kind == "memory" else str(tmp_path / "jobs.db")
        retention = RetentionPolicy(worth_cleaning=1)
        made.append(TaskQueue(url, num_workers=0, env=Env(clock), blobs=place, retention=retention))
        return made[0]

    yield make
    for queue in made:
        queue.shutdown()


@pytest.fixture(params=["memory", "folder", "s3"])
def queue(request: pytest.FixtureRequest, make_queue: Callable[[str], TaskQueue]) -> TaskQueue:
    return make_queue(request.param)


@pytest.fixture(params=["folder", "s3"])
def durable(request: pytest.FixtureRequest, make_queue: Callable[[str], TaskQueue]) -> TaskQueue:
    """A queue whose store does not forget by itself."""
    return make_queue(request.param)


@pytest.fixture
def on_disk(tmp_path: Path, clock: ManualClock) -> Iterator[TaskQueue]:
    with TaskQueue(tmp_path / "jobs.db", num_workers=0, env=Env(clock)) as queue:
        yield queue


def blobs_of(queue: TaskQueue) -> Blobs:
    assert queue.blobs is not None
    return queue.blobs


def place_of(queue: TaskQueue) -> tuple[BlobStore, str]:
    opened = blobs_of(queue)._open()
    assert opened is not None
    return opened


def keys(queue: TaskQueue) -> list[str]:
    place, store_id = place_of(queue)
    return place.list(store_id, "", 1000)


def orphan(queue: TaskQueue, job_id: str = "never submitted") -> None:
    """What a producer leaves that dies before it has submitted."""
    blobs_of(queue).keep_payload(Draft(id=job_id, task="t", payload=b"x" * MIB))


def test_a_payload_without_a_job_goes_when_it_is_old(queue: TaskQueue, clock: ManualClock) -> None:
    orphan(queue)
    clock.advance(GRACE_SECONDS - 1)
    assert blobs_of(queue).clean_up().deleted == 0
    clock.advance(1)
    assert blobs_of(queue).clean_up().deleted == 1
    assert keys(queue) == []


def test_what_jobs_name_stays(queue: TaskQueue, clock: ManualClock) -> None:
    waiting = queue.submit("elsewhere", BIG, queue="other")
    done = queue.submit(large_tasks.double, BIG)
    lease = queue.lease("default", wait=0)
    assert lease is not None
    queue.ack(lease, BIG)
    orphan(queue, waiting.id)
    clock.advance(2 * GRACE_SECONDS)
    queue.prune(force=True)
    assert len(keys(queue)) == 3
    assert done.result(0) == BIG
    lease = queue.lease("other", wait=0)
    assert lease is not None
    assert queue.arguments(lease)[0] == [BIG]


def test_the_blobs_of_pruned_jobs_go_with_the_daily_clean_up(
    durable: TaskQueue, clock: ManualClock
) -> None:
    queue = durable
    kept = queue.submit("elsewhere", BIG, queue="other")
    queue.submit(large_tasks.double, BIG)
    lease = queue.lease("default", wait=0)
    assert lease is not None
    queue.ack(lease, BIG)
    assert len(keys(queue)) == 3
    clock.advance(8 * DAY)
    pruner = Pruner(
        queue.store, policy=queue._retention._policy, env=Env(clock), blobs=queue.blobs, actor="me"
    )
    record = pruner.prune_once()
    assert record is not None
    assert record.pruned == 1
    assert pruner.statistics().total_blobs_deleted == 2
    assert len(keys(queue)) == 1
    assert queue.payload_of(kept.job())["args"] == [BIG]


def test_a_result_goes_with_its_time_to_live(queue: TaskQueue, clock: ManualClock) -> None:
    double = queue.task(result_ttl_seconds=60)(large_tasks.double)
    job = double.submit(BIG)
    drain(queue)
    clock.advance(61)
    queue.prune(force=True)
    assert [key for key in keys(queue) if ".result." in key] == []
    assert job.job().result_expired
    assert queue.payload_of(job.job())["args"] == [BIG]


def test_discarded_and_purged_jobs_take_their_blobs_along(queue: TaskQueue) -> None:
    jobs = queue.submit_many([NewJob("load", [BIG]) for _ in range(4)])
    for lease in queue.lease_many(3, wait=0):
        queue.nack(lease, "no", requeue=False)
    queue.discard(jobs[0])
    assert len(keys(queue)) == 3
    queue.dead_letters.discard(jobs[1])
    assert len(keys(queue)) == 2
    queue.dead_letters.purge()
    assert len(keys(queue)) == 1


def test_the_payloads_of_a_purged_queue_go(queue: TaskQueue, clock: ManualClock) -> None:
    queue.submit("load", BIG)
    queue.purge_queue("default")
    clock.advance(GRACE_SECONDS)
    queue.prune(force=True)
    assert keys(queue) == []


def test_a_result_that_waits_to_be_settled_stays(queue: TaskQueue, clock: ManualClock) -> None:
    queue.submit("load", lease_seconds=30 * DAY)
    lease = queue.lease(wait=0)
    assert lease is not None
    reference, codec = blobs_of(queue).keep_result(lease, b'"%s"' % BIG.encode(), "json")
    clock.advance(20 * DAY)
    assert blobs_of(queue).clean_up().deleted == 0
    queue._consuming._leases_of(lease).complete(lease, reference, codec=codec)
    assert blobs_of(queue).clean_up().deleted == 0
    assert queue.get_result(lease.job_id, 0) == BIG


def test_the_result_of_a_lost_lease_goes_at_once(queue: TaskQueue) -> None:
    job = queue.submit("load")
    lost = queue.lease(wait=0)
    assert lost is not None
    blobs_of(queue).keep_result(lost, b"x" * MIB, "json")
    queue.store.recover_one(lost.job_id, lost.version, reset_attempts=False, reason="lost")
    assert blobs_of(queue).clean_up().deleted == 1
    lease = queue.lease(wait=0)
    assert lease is not None
    blobs_of(queue).keep_result(lost, b"x" * MIB, "json")
    queue.ack(lease, BIG)
    assert blobs_of(queue).clean_up().deleted == 1
    assert job.result(0) == BIG


def test_what_is_not_a_blob_is_left_alone(
    on_disk: TaskQueue, tmp_path: Path, clock: ManualClock
) -> None:
    orphan(on_disk)
    root = tmp_path / "jobs.db-blobs"
    store_id = on_disk.describe()["store_id"]
    strangers = [root / "readme.txt", root / store_id / "notes.txt", root / "other" / "x"]
    for stranger in strangers:
        stranger.parent.mkdir(exist_ok=True)
        stranger.write_text("not yours")
    clock.advance(GRACE_SECONDS)
    assert blobs_of(on_disk).clean_up().deleted == 1
    assert all(stranger.exists() for stranger in strangers)


def test_a_pass_is_bounded_and_the_next_one_goes_on(
    queue: TaskQueue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaning, "LIST_AT_ONCE", 3)
    monkeypatch.setattr(cleaning, "ASK_AT_ONCE", 2)
    for number in range(5):
        queue.submit("load", BIG, job_id=f"a{number}")
        orphan(queue, f"b{number}")
    clock.advance(GRACE_SECONDS)
    looked_at = []
    for _ in range(4):
        # Each pass is made by somebody else: how far the last one came is kept with the blobs.
        store, store_id = place_of(queue)
        passed = cleaning.clean_up(queue.store, store, store_id, keys_max=3)
        looked_at.append(passed.looked_at)
    assert sum(looked_at[:3]) >= 9
    assert max(looked_at) <= 3
    for _ in range(3):
        blobs_of(queue).clean_up(keys_max=3)
    found = [key for key in keys(queue) if not key.endswith("/clean-up")]
    assert len(found) == 5
    assert all("/a" in key for key in found)


def test_a_pass_ends_when_it_is_told(queue: TaskQueue, clock: ManualClock) -> None:
    orphan(queue)
    clock.advance(GRACE_SECONDS)
    assert blobs_of(queue).clean_up(should_stop=lambda: True).looked_at == 0


def test_a_place_out_of_reach_does_not_stop_the_clean_up_of_jobs(
    on_disk: TaskQueue, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    on_disk.submit(large_tasks.double, BIG)
    drain(on_disk)

    def fail(*_: Any, **__: Any) -> Any:
        raise BlobUnavailableError("the line is dead")

    monkeypatch.setattr(Blobs, "clean_up", fail)
    with caplog.at_level(logging.WARNING, "leasehold.worker"):
        record = on_disk.prune(emergency=True)
    assert record is not None
    assert record.pruned == 1
    assert "the line is dead" in caplog.text


def test_who_has_no_blobs_has_no_folder(on_disk: TaskQueue, tmp_path: Path) -> None:
    on_disk.submit(large_tasks.double, "small")
    drain(on_disk)
    on_disk.prune(emergency=True)
    assert not (tmp_path / "jobs.db-blobs").exists()


def test_blobs_in_memory_are_cleaned_up_as_they_come(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blobs_module, "MEMORY_CLEAN_BYTES", 8 * MIB)
    with TaskQueue("memory://", num_workers=0, env=Env(clock)) as queue:
        queue.task(large_tasks.double)
        for _ in range(40):
            queue.submit(large_tasks.double, BIG)
            drain(queue)
            # Three hours later the store has forgotten it by itself.
            clock.advance(3 * 3600)
        place, _ = place_of(queue)
        assert isinstance(place, MemoryBlobs)
        assert place.bytes_held < 20 * MIB


def test_every_queue_on_a_store_in_memory_has_the_same_blobs(clock: ManualClock) -> None:
    with TaskQueue("memory://", num_workers=0, env=Env(clock)) as one:
        two = TaskQueue(one.store, num_workers=0, env=Env(clock))
        job = one.submit("load", BIG)
        lease = two.lease(wait=0)
        assert lease is not None
        two.ack(lease, two.arguments(lease)[0][0])
        assert job.result(0) == BIG


def test_a_store_keeps_its_id_wherever_it_goes(on_disk: TaskQueue, tmp_path: Path) -> None:
    store_id = on_disk.describe()["store_id"]
    on_disk.backup(tmp_path / "copy.db")
    for name in ("jobs.db", "copy.db"):
        with TaskQueue(tmp_path / name, num_workers=0) as again:
            assert again.describe()["store_id"] == store_id
