"""The descriptor by which the log is synced: which file it leads to, and what that costs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from leasehold.stores.sqlite.disk import log_sync
from leasehold.stores.sqlite.disk.files import FileId, StoreFiles, locked_file_id
from leasehold.stores.sqlite.disk.log_sync import LogSync


class Log:
    """A log without a store, and the files that were synced for it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        files = StoreFiles.at(folder / "jobs.db")
        files.prepare()
        self.path = files.log
        self.path.touch()
        self.sync = LogSync(files, "full")
        self.synced: list[FileId] = []
        monkeypatch.setattr(log_sync, "fdatasync", self._note)

    def _note(self, fd: int) -> None:
        self.synced.append(locked_file_id(fd))
        os.fdatasync(fd)

    def commit(self) -> None:
        def append() -> None:
            with self.path.open("ab") as file:
                file.write(b"a frame")

        self.sync.make_durable(self.sync.committed(append))

    @property
    def file(self) -> FileId:
        status = self.path.stat()
        return status.st_dev, status.st_ino

    @property
    def descriptor(self) -> int:
        opened = self.sync._opened
        assert opened is not None
        return opened.fd


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Log:
    return Log(tmp_path, monkeypatch)


def test_a_sync_does_not_ask_for_the_times_of_the_log(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next change of the file would set them anew, and the next sync write them to the disk."""
    log.commit()
    asked: list[object] = []

    def note_calls_of(name: str) -> None:
        ask = getattr(os, name)

        def note(of: object, *rest: Any, **more: Any) -> Any:
            asked.append(of)
            return ask(of, *rest, **more)

        monkeypatch.setattr(os, name, note)

    with monkeypatch.context() as monkeypatch:
        monkeypatch.setattr(log_sync, "fdatasync", os.fdatasync)
        for name in ("stat", "lstat", "fstat"):
            note_calls_of(name)
        for _ in range(3):
            log.commit()
    assert asked == []


@pytest.mark.parametrize("kernel_tells", [True, False], ids=["told", "not-told"])
def test_a_log_that_was_begun_as_another_file_is_synced(
    log: Log, monkeypatch: pytest.MonkeyPatch, kernel_tells: bool
) -> None:
    """The last one to close a store deletes its log, and the next one begins another."""
    if not kernel_tells:
        monkeypatch.setattr(os, "readlink", _without_proc)
    log.commit()
    # Kept under another name, so that the next file cannot be the same.
    log.path.rename(log.path.with_name("before"))
    log.path.touch()
    log.commit()
    assert log.synced[-1] == log.file
    log.commit()
    assert log.synced[-2:] == [log.file] * 2


def _without_proc(path: str) -> str:
    raise FileNotFoundError(path)


def test_a_log_that_is_gone_is_nothing_to_sync(log: Log) -> None:
    log.sync.make_durable(log.sync.committed(log.path.unlink))
    assert log.synced == []


def test_a_descriptor_that_is_that_of_another_file_by_now_is_not_taken_for_the_log(
    log: Log, tmp_path: Path
) -> None:
    """Code of the application may close every descriptor that it does not know."""
    log.commit()
    number = log.descriptor
    other = os.open(tmp_path / "other", os.O_RDWR | os.O_CREAT)
    os.dup2(other, number)  # The log is closed, and its number given to another file.
    log.commit()
    assert log.synced == [log.file] * 2
    # And the other file stays open.
    log.sync.close()
    assert locked_file_id(number) == locked_file_id(other)
    os.close(number)
    os.close(other)
