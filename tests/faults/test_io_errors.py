"""A disk that breaks or fills up at the nth write, for all n: told, survived, nothing half done."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.errors import (
    DuplicateJobError,
    LeaseLostError,
    StoreError,
    StoreFullError,
    StoreUnavailableError,
)
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.writing.step import Step
from support.effort import THOROUGH
from support.faulty_vfs import Disk, Failure, Operation, disk_under_sqlite, turning_points
from support.sqlite_workload import (
    CALLS,
    Content,
    assert_sound,
    content,
    end_lives,
    held,
    open_store,
    without_floor,
)

CALLS_AFTERWARDS = 4
"""At most so many calls follow the one that failed."""


@pytest.fixture(autouse=True)
def _many_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasehold.stores.sqlite.disk.connection.WAL_PAGES_BEFORE_CHECKPOINT", 30)


@pytest.fixture
def disk() -> Iterator[Disk]:
    with disk_under_sqlite() as disk:
        yield disk


def undisturbed(disk: Disk, folder: Path) -> tuple[list[Content], list[Operation]]:
    """The content after opening and after each call, and what was asked of the disk for it."""
    store = open_store(folder / "calm.db")
    contents = [content(store)]
    for call in CALLS:
        call(store)
        contents.append(content(store))
    asked = [each for each in disk.operations if each.kind != "delete"]
    assert len(asked) == disk.calls
    store.close()
    end_lives()
    return contents, asked


def opened_in_spite(disk: Disk, path: Path, failure: Failure) -> SQLiteStore:
    """Open a store whose disk may fail meanwhile; the failure must be told as what it is."""
    try:
        return open_store(path)
    except StoreError as error:
        assert_told(error, failure)
    except apsw.Error as error:
        # The disk failed again when the connection was closed, which SQLite itself keeps quiet
        # about, and only a VFS in Python brings to light.
        assert_told(error.__context__, failure)
    disk.mend()
    return open_store(path)


def opened_again(store: SQLiteStore, path: Path) -> SQLiteStore:
    """Where a sync of the log has failed for good, nobody writes until all have closed it."""
    store.close()
    return open_store(path, env=store._database.env)


def assert_told(error: BaseException | None, failure: Failure) -> None:
    # A sync of a full disk fails as one of a broken disk does.
    kinds = (StoreUnavailableError,) if failure == "io" else (StoreFullError, StoreUnavailableError)
    assert isinstance(error, kinds), repr(error)


def run_in_spite(disk: Disk, path: Path, failure: Failure, contents: list[Content]) -> None:
    """The workload until the disk has failed, and a few calls more on the mended disk.

    A call that fails is repeated if it had no effect.
    """
    store = opened_in_spite(disk, path, failure)
    for number, call in enumerate(CALLS):
        try:
            call(store)
        except StoreError as error:
            assert_told(error, failure)
            disk.mend()
            # Whoever comes now sees the call done as a whole, or not at all.
            seen = content(store)
            assert seen in contents[number : number + 2]
            assert store.check() == []
            if is_over := store._database.sync.has_failed:
                store = opened_again(store, path)
            if seen == contents[number]:
                call(store)
            if is_over:
                break  # Versions go on from above all that were granted: no row compares any more.
        if disk.is_mended or number == len(CALLS) - 1:
            # Where the disk failed while the store was opened, the next opening raises the floor.
            assert without_floor(content(store)) == without_floor(contents[number + 1])
            if number % CALLS_AFTERWARDS == 0:
                break
    disk.mend()
    assert_sound(store)
    store.close()
    end_lives()


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "until mended"])
@pytest.mark.parametrize("failure", ["io", "full"])
def test_a_failing_disk_is_told_and_survived(
    disk: Disk, folder: Path, failure: Failure, lasting: bool
) -> None:
    contents, asked = undisturbed(disk, folder)
    descriptors = len(os.listdir("/proc/self/fd"))
    # The disk fails once at one of its calls, until mended at the next; in a thorough run it does
    # so in both kinds, otherwise by turns.
    numbers = [number + 1 for number in turning_points(asked)]
    for n in numbers[lasting::2] if THOROUGH else numbers[lasting + 2 * (failure == "full") :: 4]:
        attempt = folder / "attempt"
        attempt.mkdir()
        disk.calls = disk.failures = 0
        disk.operations.clear()
        disk.fail_at(n, failure, lasting=lasting)
        try:
            run_in_spite(disk, attempt / "jobs.db", failure, contents)
        except BaseException as error:
            error.add_note(f"the disk failed at call {n} of {len(asked)}: {asked[n - 1].kind}")
            raise
        assert disk.failures, f"call {n} never failed"
        assert len(os.listdir("/proc/self/fd")) <= descriptors, "a failure leaks descriptors"
        shutil.rmtree(attempt)


def test_a_lease_that_was_never_committed_is_not_remembered(disk: Disk, folder: Path) -> None:
    """A failed commit frees job numbers; a lease from it must not be taken for another job's."""
    store, other = open_store(folder / "jobs.db"), open_store(folder / "jobs.db")
    entered, go_on = threading.Event(), threading.Event()

    def slow(_: Step) -> None:
        entered.set()
        go_on.wait(30)

    def quietly(call: Callable[[], object]) -> None:
        with suppress(StoreError):
            call()

    request = LeaseRequest(worker="w")
    calls: list[Callable[[], object]] = [
        lambda: store._database.writer.run(slow),
        lambda: store.submit([Draft(id="lost", task="t")]),
        lambda: store.exchange((), request),
    ]
    # All three end up in one transaction, in this order, and its commit fails.
    threads = [threading.Thread(target=quietly, args=(call,)) for call in calls]
    for number, thread in enumerate(threads):
        thread.start()
        assert entered.wait(30)
        while len(store._database.writer.queue.waiting) < number:
            pass
    disk.fail_at(disk.calls + 1, "io", lasting=True)
    go_on.set()
    for thread in threads:
        thread.join(30)
    disk.mend()
    assert store.get("lost") is None
    other.submit([Draft(id="innocent", task="t")])
    [lease] = other.exchange((), request).leases
    [answer] = store.exchange([Settlement("lost", lease.version, Complete())]).settled
    assert isinstance(answer, LeaseLostError)
    assert {job_id for job_id, _ in held(store)} == {"innocent"}
    store.close()
    other.close()


def test_a_lane_that_was_never_committed_is_not_remembered(disk: Disk, folder: Path) -> None:
    store = open_store(folder / "jobs.db")
    disk.fail_at(disk.calls + 1, "io", lasting=True)
    with pytest.raises(StoreUnavailableError):
        store.submit([Draft(id="a", task="t"), Draft(id="b", task="t")])
    disk.mend()
    with pytest.raises(DuplicateJobError):
        store.submit([Draft(id="a", task="t"), Draft(id="a", task="t")])
    store.submit([Draft(id="other", task="another")])
    store.submit([Draft(id="a", task="t"), Draft(id="b", task="t")])
    leases = store.exchange((), LeaseRequest(worker="w", tasks=("t",), limit=9)).leases
    assert [(lease.job_id, lease.task) for lease in leases] == [("a", "t"), ("b", "t")]
    assert store.check() == []
    store.close()
