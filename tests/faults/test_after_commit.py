"""What goes wrong after a commit is no failure of what was committed."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from leasehold.core.model.job import Draft
from leasehold.stores.sqlite import SQLiteStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteStore]:
    store = SQLiteStore(tmp_path / "jobs.db")
    yield store
    assert store.check() == []
    store.close()


class Broken:
    def on_ready(self) -> None:
        raise RuntimeError("broken")

    def on_ended(self, job_ids: Collection[str] | None) -> None:
        raise RuntimeError("broken")

    def on_cancel_requested(self, job_ids: Collection[str] | None) -> None:
        raise RuntimeError("broken")


class Sound:
    def __init__(self) -> None:
        self.heard = 0

    def on_ready(self) -> None:
        self.heard += 1

    def on_ended(self, job_ids: Collection[str] | None) -> None:
        self.heard += 1

    def on_cancel_requested(self, job_ids: Collection[str] | None) -> None:
        self.heard += 1


def test_a_broken_listener_fails_no_submit(
    store: SQLiteStore, caplog: pytest.LogCaptureFixture
) -> None:
    sound = Sound()
    store.subscribe(Broken())
    store.subscribe(sound)
    store.submit([Draft(id="a", task="t")])
    store.cancel(["a"], reason="", actor="me")
    assert sound.heard == 2
    assert "a listener of the store failed" in caplog.text


def test_a_vanished_wake_folder_fails_no_submit(
    store: SQLiteStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.rmtree(tmp_path / "jobs.db-run" / "wake")
    store.submit([Draft(id="a", task="t")])
    assert store.get("a") is not None
    assert "could not be woken" in caplog.text
