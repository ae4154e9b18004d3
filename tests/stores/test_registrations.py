"""Registrations of one name in one process: each ends by itself."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from leasehold.core.model.records import WorkerInfo
from leasehold.stores.memory import MemoryStore
from leasehold.stores.sqlite import SQLiteStore

Open = Callable[[Path], MemoryStore | SQLiteStore]


def entry(store: MemoryStore | SQLiteStore) -> WorkerInfo:
    now = store.now()
    return WorkerInfo(
        id="w", host="h", pid=1, queues=("default",), slots=1, started_at=now, heartbeat_at=now
    )


@pytest.mark.parametrize(
    "open_store", [lambda _: MemoryStore(), lambda folder: SQLiteStore(folder / "jobs.db")]
)
def test_the_later_registration_of_a_name_goes_on(open_store: Open, tmp_path: Path) -> None:
    with closing(open_store(tmp_path)) as store:
        info = entry(store)
        first, second = store.register_worker(info), store.register_worker(info)
        first.close()
        assert [worker.id for worker in store.workers()] == ["w"]
        second.close()
        assert store.workers() == []


def test_a_remote_worker_leaves_once(tmp_path: Path) -> None:
    """One that comes back with the same details is the same life: a late close must not end it."""
    with closing(SQLiteStore(tmp_path / "jobs.db")) as store:
        info = entry(store)
        before = store.register_worker(info, is_remote=True)
        before.close()
        again = store.register_worker(info, is_remote=True)
        before.close()
        assert [worker.id for worker in store.workers()] == ["w"]
        again.close()
        assert store.workers() == []
