"""A disk that really fills up: a small tmpfs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from leasehold import NewJob, TaskQueue
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settled, Settlement
from leasehold.core.model.limits import DISK_RESERVE_BYTES
from leasehold.core.model.outcome import Complete
from leasehold.core.model.records import WorkerInfo
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.errors import StoreFullError
from leasehold.queue.health import unreadable
from leasehold.stores.sqlite import SQLiteStore

pytestmark = pytest.mark.faults

RUNNING = 20
DISK_BYTES = 3 * DISK_RESERVE_BYTES
PAYLOAD = b'"' + b"x" * 200_000 + b'"'


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for three times the reserve."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)]
    if os.getuid() != 0:
        pytest.skip("only root can mount a small disk")
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount a small disk: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        # Lazily, so that it is gone although a failed test has left files open on it.
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(store: SQLiteStore, prefix: str, payload: bytes) -> list[str]:
    """Submit until the store takes no more; answers what it took."""
    taken: list[str] = []
    while True:
        job_id = f"{prefix}-{len(taken)}"
        try:
            store.submit([Draft(id=job_id, task="t", queue="filling", payload=payload)])
        except StoreFullError:
            return taken
        taken.append(job_id)


def stored(store: SQLiteStore) -> set[str]:
    return {job.id for job in store.search(JobFilter(), limit=10_000).jobs}


def test_a_full_disk_refuses_new_jobs_and_lets_running_ones_finish(small_disk: Path) -> None:
    store = SQLiteStore(small_disk / "jobs.db")
    first = [f"running-{number}" for number in range(RUNNING)]
    store.submit([Draft(id=job_id, task="t") for job_id in first])
    leases = store.exchange((), LeaseRequest(worker="w", limit=RUNNING)).leases
    taken = fill(store, "big", PAYLOAD)
    assert taken
    # What is kept in reserve is there for what runs.
    result = Complete(b'"' + b"y" * 50_000 + b'"')
    for lease in leases[:10]:
        [settled] = store.exchange([Settlement(lease.job_id, lease.version, result)]).settled
        assert isinstance(settled, Settled)
    assert store.check() == []

    # Somebody else takes the rest of the disk: what cannot be written is refused as a whole.
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    with pytest.raises(StoreFullError):
        store.submit([Draft(id="one more", task="t")])
    settled_now = []
    for lease in leases[10:]:
        settlement = Settlement(lease.job_id, lease.version, result)
        try:
            store.exchange([settlement])
        except StoreFullError:
            continue
        settled_now.append(lease.job_id)
    assert stored(store) == {*first, *taken}
    assert store.check() == []

    # Space is freed, and everything goes on: in this store, and in one that is opened now.
    filler.unlink()
    for lease in leases[10:]:
        if lease.job_id not in settled_now:
            settlement = Settlement(lease.job_id, lease.version, result)
            [answer] = store.exchange([settlement]).settled
            assert isinstance(answer, Settled)
    store.close()
    store = SQLiteStore(small_disk / "jobs.db")
    assert store.check() == []
    assert stored(store) == {*first, *taken}
    assert store.stats().counts[Status.COMPLETED] == RUNNING
    store.close()


def test_a_worker_that_begins_on_a_full_disk_is_told_so(small_disk: Path) -> None:
    store = SQLiteStore(small_disk / "jobs.db")
    now = store.now()
    info = WorkerInfo(
        id="w", host="here", pid=1, queues=("q",), slots=1, started_at=now, heartbeat_at=now
    )
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    run_folder = small_disk / "jobs.db-run"
    before = sorted(run_folder.iterdir())
    with pytest.raises(StoreFullError, match="free some space"):
        store.register_worker(info)
    assert sorted(run_folder.iterdir()) == before, "nothing is left of it"
    filler.unlink()
    store.register_worker(info).close()
    store.close()


def test_a_closed_store_on_a_full_disk_says_so_and_goes_on_with_more_room(small_disk: Path) -> None:
    path = small_disk / "jobs.db"
    with closing(SQLiteStore(path)) as store:
        store.submit([Draft(id="kept", task="t")])
    ballast = small_disk / "ballast"
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    with pytest.raises(StoreFullError) as refused:
        SQLiteStore(path)
    finding = unreadable(refused.value)
    assert "free some space" in finding.advice
    ballast.unlink()
    with closing(SQLiteStore(path)) as store:
        assert stored(store) == {"kept"}


def test_refused_payloads_do_not_take_the_room_of_running_jobs(small_disk: Path) -> None:
    """They are kept beside the store, on the same disk."""
    large = "x" * 2_000_000
    with TaskQueue(str(small_disk / "jobs.db"), num_workers=0) as queue:
        queue.submit("small", queue="running")
        lease = queue.lease("running", wait=0)
        assert lease is not None
        while True:
            try:
                queue.submit("work", large)
            except StoreFullError:
                break
        files = sorted(small_disk.rglob("*-blobs/**/*"))
        assert len(files) > 5
        with pytest.raises(StoreFullError):
            queue.submit("work", large)
        with pytest.raises(StoreFullError):
            queue.submit_many([NewJob("work", ("y" * 300_000,)) for _ in range(10)])
        assert sorted(small_disk.rglob("*-blobs/**/*")) == files
        queue.ack(lease, large)
        assert queue.get_status(lease.job_id) is Status.COMPLETED
