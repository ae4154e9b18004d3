"""Only a worker that is really dead is taken for dead."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from leasehold import TaskQueue
from leasehold.cli import overview
from leasehold.cli.session import Session
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest
from leasehold.core.model.reason import ReasonKind
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.disk.files import StoreFiles
from support.lives import die, enter


def test_a_worker_that_comes_back_under_its_old_id_is_not_robbed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SQLiteStore(tmp_path / "jobs.db")
    lives = [enter(store, "w")]
    store.submit([Draft(id="a", task="t")])
    die(lives.pop())
    assert store.dead_workers() == {"w"}
    write = store._database.writer.run

    def comes_back_first(operation: object) -> object:
        # Between the look at the locks and the write, had they been two steps.
        monkeypatch.undo()
        lives.append(enter(store, "w"))
        assert store.exchange((), LeaseRequest(worker="w")).leases
        return write(operation)  # type: ignore[arg-type]

    monkeypatch.setattr(store._database.writer, "run", comes_back_first)
    assert store.recover().recovered == 0
    assert [worker.id for worker in store.workers()] == ["w"]
    lives[0].close()
    store.close()


def test_sweeps_that_look_at_once_do_not_take_each_other_for_the_worker(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "jobs.db")
    die(enter(store, "w"))
    (lock,) = StoreFiles.at(tmp_path / "jobs.db").workers.iterdir()
    with lock.open() as other_sweep:
        fcntl.flock(other_sweep, fcntl.LOCK_SH)
        assert store.dead_workers() == {"w"}
    store.close()


def test_a_dead_worker_is_buried_only_when_its_jobs_have_been_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SQLiteStore(tmp_path / "jobs.db")
    life = enter(store, "w")
    store.submit([Draft(id="a", task="t")])
    assert store.exchange((), LeaseRequest(worker="w", lease_seconds=3600)).leases
    die(life)
    # The death cannot be seen while the job is looked at, and can be before and afterwards.
    dead = store._database.deaths.find()
    answers = [dead, set(), dead]
    monkeypatch.setattr(store._database.deaths, "find", lambda: answers.pop(0))
    assert store.recover().recovered == 0
    assert answers == []
    monkeypatch.undo()
    assert store.dead_workers() == {"w"}
    report = store.recover()
    assert report.recovered == 1
    assert report.workers_proved_dead == ("w",)
    assert store.dead_workers() == set()
    store.close()


def test_who_leases_under_the_name_of_a_dead_worker_is_not_robbed(tmp_path: Path) -> None:
    store, elsewhere = SQLiteStore(tmp_path / "jobs.db"), SQLiteStore(tmp_path / "jobs.db")
    life = enter(elsewhere, "w")
    store.submit([Draft(id=job_id, task="t") for job_id in ("of the dead", "of the consumer")])
    request = LeaseRequest(worker="w", lease_seconds=3600)
    for each in (elsewhere, store):
        assert each.exchange((), request).leases
    die(life)
    report = store.recover()
    assert (report.recovered, report.workers_proved_dead) == (1, ("w",))
    assert [held.job_id for held in store.stuck(0)] == ["of the consumer"]
    assert store.dead_workers() == set()
    elsewhere.close()
    store.close()


def test_of_two_workers_of_one_name_only_the_dead_one_is_taken_for_dead(tmp_path: Path) -> None:
    stores = [SQLiteStore(tmp_path / "jobs.db") for _ in range(2)]
    lives = [enter(store, "w") for store in stores]
    stores[0].submit([Draft(id=job_id, task="t") for job_id in ("first", "second")])
    for store in stores:
        assert store.exchange((), LeaseRequest(worker="w", lease_seconds=3600)).leases
    die(lives[0])
    assert stores[1].recover().recovered == 1
    assert [held.job_id for held in stores[1].stuck(0)] == ["second"]
    assert [(worker.id, worker.running) for worker in stores[1].workers()] == [("w", 1)]
    # The later one's death is proved as well.
    die(lives[1])
    report = stores[0].recover()
    assert (report.recovered, report.workers_proved_dead) == (1, ("w",))
    assert stores[0].workers() == []
    for store in stores:
        store.close()


def test_who_looks_is_not_told_of_a_worker_that_is_proved_dead(tmp_path: Path) -> None:
    """The registry keeps it until a sweep has taken back its jobs."""
    store = SQLiteStore(tmp_path / "jobs.db")
    queue = TaskQueue(store, num_workers=0)
    session = Session()
    session.queue = queue
    life = enter(store, "w")
    store.submit([Draft(id=job_id, task="t") for job_id in ("held", "waiting")])
    assert store.exchange((), LeaseRequest(worker="w", lease_seconds=3600)).leases
    assert queue.why("held").kind is ReasonKind.RUNNING
    assert queue.why("waiting").kind is not ReasonKind.NO_WORKER
    assert queue.metrics().active_workers == 1
    assert len(overview.look(session).workers) == 1
    die(life)
    assert queue.why("held").kind is ReasonKind.WORKER_LOST
    assert queue.why("waiting").kind is ReasonKind.NO_WORKER
    assert queue.metrics().active_workers == 0
    assert [worker.id for worker in queue.workers()] == ["w"]
    assert overview.look(session).workers == []
    queue.shutdown()
    store.close()
