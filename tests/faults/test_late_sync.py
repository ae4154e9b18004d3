"""Commits are synced after the lock was let go of: nobody answers on the strength of one before."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, suppress
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest
from leasehold.env import Env
from leasehold.errors import DuplicateJobError, StoreUnavailableError
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.disk import log_sync
from leasehold.stores.sqlite.disk.files import StoreFiles
from leasehold.stores.sqlite.disk.log_sync import LogSync
from leasehold.stores.sqlite.writing.write_side import WriteSide
from support.faulty_vfs import (
    Disk,
    Operation,
    crash_images,
    disk_under_sqlite,
    lengthen_short_logs,
)
from support.sqlite_workload import new_env, open_store

SEED = 20300103


@pytest.fixture
def disk() -> Iterator[Disk]:
    with disk_under_sqlite() as disk:
        yield disk


class HeldBack:
    """The sync of whoever comes first waits; the others go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entered = threading.Event()
        self.go_on = threading.Event()
        self._sync = log_sync.fdatasync
        monkeypatch.setattr(log_sync, "fdatasync", self._wait)

    def _wait(self, fd: int) -> None:
        if not self.entered.is_set():
            self.entered.set()
            self.go_on.wait(60)
        self._sync(fd)


def after_loss_of_power(disk: Disk, folder: Path) -> SQLiteStore:
    """The store of a disk that has kept nothing but what was synced until now."""
    *_, last = (image for _, how, image in crash_images(disk.operations, SEED) if how == "none")
    folder.mkdir()
    for name, data in last.items():
        (folder / name).write_bytes(data)
    return open_store(folder / "jobs.db", env=new_env(1000, "another start"))


def _see(store: SQLiteStore) -> None:
    assert store.get("a") is not None


def _submit_again(store: SQLiteStore) -> None:
    with pytest.raises(DuplicateJobError):
        store.submit([Draft(id="a", task="t")])


def _lease(store: SQLiteStore) -> None:
    assert [each.job_id for each in store.exchange((), LeaseRequest(worker="w")).leases] == ["a"]


@pytest.mark.parametrize("answer", [_see, _submit_again, _lease])
def test_whoever_answers_on_the_strength_of_a_commit_syncs_it_first(
    disk: Disk,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    answer: Callable[[SQLiteStore], None],
) -> None:
    store, other = open_store(folder / "jobs.db"), open_store(folder / "jobs.db")
    other.submit([Draft(id="first", task="another", queue="elsewhere")])
    held_back = HeldBack(monkeypatch)
    submitting = threading.Thread(target=store.submit, args=([Draft(id="a", task="t")],))
    submitting.start()
    assert held_back.entered.wait(60)
    # It is committed, but not durable, and its caller has no answer yet.
    answer(other)
    with closing(after_loss_of_power(disk, folder / "image")) as found:
        assert found.get("a") is not None
    held_back.go_on.set()
    submitting.join(60)
    store.close()
    other.close()


class Ready:
    """A listener that counts the news of jobs to lease."""

    def __init__(self) -> None:
        self.heard = threading.Event()
        self.times = 0

    def on_ready(self) -> None:
        self.times += 1
        self.heard.set()

    def on_ended(self, job_ids: Collection[str] | None) -> None:
        """Not asked for here."""

    def on_cancel_requested(self, job_ids: Collection[str] | None) -> None:
        """Not asked for here."""


def test_workers_hear_of_a_job_while_it_is_being_synced_and_only_once(
    disk: Disk, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(folder / "jobs.db")
    # By its name, which chance makes, a store knows its own pipe from those of others.
    other = open_store(folder / "jobs.db", env=Env(clock=new_env().clock, random=Random(6)))
    for each in (store, other):
        each.submit([Draft(id=f"first of {id(each)}", task="another", queue="elsewhere")])
    here, elsewhere = Ready(), Ready()
    store.subscribe(here)
    other.subscribe(elsewhere)
    held_back = HeldBack(monkeypatch)
    submitting = threading.Thread(target=store.submit, args=([Draft(id="a", task="t")],))
    submitting.start()
    assert held_back.entered.wait(60)
    assert elsewhere.heard.wait(20)
    assert submitting.is_alive()
    # Its lease is answered when it is durable, and then so is the submit that nobody has answered.
    _lease(other)
    with closing(after_loss_of_power(disk, folder / "image")) as found:
        assert found.get("a") is not None
    held_back.go_on.set()
    submitting.join(60)
    assert here.times == 1
    store.close()
    other.close()


def test_others_commit_and_are_answered_while_one_waits_for_its_sync(
    disk: Disk, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, other = open_store(folder / "jobs.db"), open_store(folder / "jobs.db")
    other.submit([Draft(id="first", task="t")])
    held_back = HeldBack(monkeypatch)
    submitting = threading.Thread(target=store.submit, args=([Draft(id="a", task="t")],))
    submitting.start()
    assert held_back.entered.wait(60)
    other.submit([Draft(id="b", task="t")])
    with closing(after_loss_of_power(disk, folder / "image")) as found:
        assert [found.get(each) is not None for each in ("first", "a", "b")] == [True] * 3
    syncs = len(disk.operations)
    held_back.go_on.set()
    submitting.join(60)
    assert len(disk.operations) == syncs + 1  # It was on its way into it already.
    store.close()
    other.close()


def test_a_commit_under_way_is_not_taken_for_durable(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever syncs while another is about to commit has not synced that commit."""
    files = StoreFiles.at(folder / "jobs.db")
    files.prepare()
    files.log.touch()
    one, other = LogSync(files, "full"), LogSync(files, "full")
    syncs: list[int] = []
    monkeypatch.setattr(log_sync, "fdatasync", syncs.append)
    number = one.committed(other.make_seen_durable)
    assert len(syncs) == 1
    one.make_durable(number)
    assert len(syncs) == 2
    # From now on it is known to be, here and there.
    other.make_seen_durable()
    one.make_durable(one.committed(None))
    assert len(syncs) == 2


def test_after_a_failed_sync_nothing_is_lost_behind_the_gap(disk: Disk, folder: Path) -> None:
    """The kernel has dropped what it could not write; what is appended later must not need it."""
    with closing(open_store(folder / "jobs.db")) as store:
        fail_late_sync_of(disk, lambda: store.submit([Draft(id="a", task="t")]))
        store.submit([Draft(id="b", task="t")])
        with closing(after_loss_of_power(disk, folder / "image")) as found:
            assert found.get("a") is not None
            assert found.get("b") is not None
            assert found.check() == []


def test_the_gap_of_a_failed_sync_is_real(
    disk: Disk, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test above can fail: were the failure only told, the next answer would be lost."""
    tell_only = LogSync.make_durable

    def forget(self: WriteSide, number: int) -> None:
        try:
            tell_only(self._sync, number)
        except OSError:
            self._sync.all_durable()
            raise StoreUnavailableError("told, and forgotten") from None

    monkeypatch.setattr(WriteSide, "make_durable", forget)
    with closing(open_store(folder / "jobs.db")) as store:
        with suppress(StoreUnavailableError):
            fail_late_sync_of(disk, lambda: store.submit([Draft(id="a", task="t")]))
        store.submit([Draft(id="b", task="t")])
        with closing(after_loss_of_power(disk, folder / "image")) as found:
            assert found.get("b") is None


def fail_late_sync_of(disk: Disk, call: Callable[[], object]) -> None:
    """Fail the sync that follows the commit of a call, and no other."""
    before, log_sync.fdatasync = log_sync.fdatasync, disk.sync_late

    def fail(fd: int) -> None:
        log_sync.fdatasync = before
        disk.fail_at(disk.calls + 1, "io", lasting=False)
        before(fd)

    log_sync.fdatasync = fail
    call()
    assert disk.failures == 1


def test_after_a_sync_that_failed_for_good_nobody_writes_until_all_have_closed_the_store(
    disk: Disk, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "jobs.db"
    store, other = open_store(path), open_store(path)
    other.submit([Draft(id="first", task="t")])

    def fail(fd: int) -> None:
        disk.fail_at(disk.calls + 1, "io", lasting=True)
        disk.sync_late(fd)

    monkeypatch.setattr(log_sync, "fdatasync", fail)
    with pytest.raises(StoreUnavailableError, match="until every process has closed the store"):
        store.submit([Draft(id="a", task="t")])
    disk.mend()
    monkeypatch.setattr(log_sync, "fdatasync", disk.sync_late)
    for each in (store, other):
        with pytest.raises(StoreUnavailableError, match="Check the disk"):
            each.submit([Draft(id="b", task="t")])
        assert each.get("first") is not None
    store.close()
    with pytest.raises(StoreUnavailableError, match="until every process has closed the store"):
        open_store(path)._database.open_to_write()
    other.close()
    with closing(open_store(path)) as again:
        again.submit([Draft(id="b", task="t")])
        assert again.check() == []


def test_numbers_that_a_loss_of_power_tore_make_nothing_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pages of a file may be written while it changes: the last number, and not the first."""
    with closing(open_store(tmp_path / "jobs.db")) as store:
        store.submit([Draft(id="before", task="t")])
    numbers = LogSync(StoreFiles.at(tmp_path / "jobs.db"), "full")
    numbers._shared[log_sync.SYNCED] = numbers._shared[log_sync.BEGUN] + 100
    numbers.close()
    syncs: list[int] = []
    monkeypatch.setattr(log_sync, "fdatasync", syncs.append)
    with closing(open_store(tmp_path / "jobs.db")) as store:
        syncs.clear()
        store.submit([Draft(id="after", task="t")])
        assert syncs


def test_a_log_that_grows_is_lengthened_ahead_of_the_commits(
    disk: Disk, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that most syncs find a file that is as long as before; and not without end."""
    lengthen_short_logs(monkeypatch)
    log = StoreFiles.at(folder / "jobs.db").log
    sizes: list[int] = []
    with closing(open_store(folder / "jobs.db")) as store:
        while not sizes or sizes[-1] < log_sync.ROOM_UP_TO_BYTES:
            store.submit([Draft(id=str(len(sizes)), task="t")])
            sizes.append(log.stat().st_size)
        changes = sum(one != other for one, other in pairwise(sizes))
        assert 0 < changes <= len(sizes) // 2 + 1
        for more in range(5):
            store.submit([Draft(id=f"more {more}", task="t")])
    zeros = [each for each in disk.operations if is_room(each)]
    assert zeros
    assert max(each.offset for each in zeros) < log_sync.ROOM_UP_TO_BYTES


def test_a_loss_of_power_leaves_every_answer_in_a_log_that_was_lengthened(
    disk: Disk, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengthen_short_logs(monkeypatch)
    answered = []
    with closing(open_store(folder / "jobs.db")) as store:
        store.submit([Draft(id="first", task="t")])
        begun = len(disk.operations)
        for number in range(9):
            store.submit([Draft(id=str(number), task="t")])
            answered.append(len(disk.operations))
        operations = list(disk.operations)
    assert sum(map(is_room, operations)) > 1
    later = new_env(1000, "another start")
    for point, how, image in crash_images(operations, SEED):
        if point >= begun:
            place = folder / f"image {point} {how}"
            place.mkdir()
            for name, data in image.items():
                (place / name).write_bytes(data)
            with closing(open_store(place / "jobs.db", env=later)) as found:
                assert found.check() == []
                kept = [number for number, at in enumerate(answered) if at <= point]
                assert all(found.get(str(number)) is not None for number in kept)


def is_room(operation: Operation) -> bool:
    """Whether it is a write of nothing but zeros behind the log."""
    return operation.kind == "write" and len(operation.data) > 4096 and not any(operation.data)


def test_a_log_of_several_processes_is_lengthened_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that another process has lengthened is not taken for one that grows."""
    lengthen_short_logs(monkeypatch)
    log = StoreFiles.at(folder / "jobs.db").log
    with (
        closing(open_store(folder / "jobs.db")) as store,
        closing(open_store(folder / "jobs.db", env=new_env(5))) as other,
    ):
        other.submit([Draft(id="first", task="t")])
        store.submit([Draft(id="second", task="t")])
        store.submit([Draft(id="third", task="t")])
        size = log.stat().st_size
        assert size % log_sync.ROOM_BYTES == 0
        # It has room for more than one commit, whose process sees a log that is longer than before.
        for each in (other, store, other):
            each.submit([Draft(id=each._database.env.new_id(), task="t")])
        assert log.stat().st_size == size


def test_a_full_disk_leaves_the_log_as_long_as_it_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengthen_short_logs(monkeypatch)
    refused = []

    def refuse(fd: int, data: bytes, offset: int) -> int:
        refused.append(offset)
        raise OSError("no space left on the device, says the test")

    monkeypatch.setattr(log_sync, "pwrite", refuse)
    descriptors = len(os.listdir("/proc/self/fd"))
    with closing(open_store(folder / "jobs.db")) as store:
        for number in range(10):
            store.submit([Draft(id=str(number), task="t")])
        assert refused
        assert store.get("9") is not None
    assert len(os.listdir("/proc/self/fd")) <= descriptors
