"""Only a worker that is really dead is taken for dead."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.core.job import Draft
from leasehold.core.lease import LeaseRequest
from leasehold.stores.sqlite import SQLiteStore
from support.lives import die, enter


def test_a_worker_that_comes_back_under_its_old_id_is_not_robbed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SQLiteStore(tmp_path / "jobs.db")
    lives = [enter(store, "w")]
    store.submit([Draft(id="a", task="t")])
    die(lives.pop())
    assert store.dead_workers() == {"w"}
    write = store._writer.run

    def comes_back_first(operation: object) -> object:
        # Between the look at the locks and the write, had they been two steps.
        monkeypatch.undo()
        lives.append(enter(store, "w"))
        assert store.exchange((), LeaseRequest(worker="w")).leases
        return write(operation)  # type: ignore[arg-type]

    monkeypatch.setattr(store._writer, "run", comes_back_first)
    assert store.recover().recovered == 0
    assert [worker.id for worker in store.workers()] == ["w"]
    lives[0].close()
    store.close()
