"""Opening a store while others do, and while they are killed doing it; forks after opening."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from random import Random

import pytest

from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest
from leasehold.stores.sqlite import SQLiteStore
from support.acknowledged import Acknowledged
from support.effort import drawn
from support.zygote import zygote

pytestmark = pytest.mark.faults

STORES = drawn(60)
PROCESSES = 3
OPENING_TAKES_SECONDS = 0.02


@pytest.mark.parametrize("seed", [21])
def test_a_store_whose_makers_are_killed_can_always_be_opened(
    folder: Path, acknowledged: Acknowledged, seed: int
) -> None:
    random = Random(seed)
    told = acknowledged
    with zygote("support.store_children", pass_fds=(told.tell_fd,)) as processes:
        for number in range(STORES):
            path = folder / f"{number}.db"
            for name in range(PROCESSES):
                job_id = f"{number}-{name}"
                processes.spawn(
                    "support.store_children:open_and_submit", str(path), job_id, told.tell_fd
                )
            # Some time between the first one's start and the last one's end.
            told.listen(random.random() * OPENING_TAKES_SECONDS)
            for pid in random.sample(processes.alive, random.randint(1, PROCESSES)):
                processes.kill(pid)
            left = len(processes.alive)
            if left:
                # Whoever is left comes through, whatever state the dead left it in.
                mine = f"{number}-"
                while sum(job_id.startswith(mine) for job_id in told.submitted) < left:
                    assert told.listen(), "a process that was not killed could not open the store"
            processes.kill_all()
            told.drain()
            store = SQLiteStore(path)
            assert store.check() == []
            for job_id in told.submitted:
                assert not job_id.startswith(f"{number}-") or store.get(job_id) is not None
            store.submit([Draft(id="mine", task="t")])
            store.close()
    killed_early = STORES * PROCESSES - len(told.submitted)
    assert 0 < killed_early < STORES * PROCESSES, "every process was killed too late, or too early"


def test_a_fork_does_not_keep_its_dead_parents_write_lock(
    tmp_path: Path, acknowledged: Acknowledged
) -> None:
    path = tmp_path / "jobs.db"
    SQLiteStore(path).close()
    with zygote("support.store_children", pass_fds=(acknowledged.tell_fd,)) as processes:
        holder = processes.spawn(
            "support.store_children:fork_inside_a_write", str(path), acknowledged.tell_fd
        )
        while not acknowledged.submitted:
            acknowledged.listen()
        fork = int(acknowledged.submitted.pop())
        processes.kill(holder)
    try:
        done: list[object] = []

        def submit() -> None:
            store = SQLiteStore(path)
            done.extend(store.submit([Draft(id="a", task="t")]))
            store.close()

        other = threading.Thread(target=submit, daemon=True)
        other.start()
        other.join(20)
        assert done, "the store stays locked for as long as the fork lives"
    finally:
        os.kill(fork, signal.SIGKILL)


def test_a_fork_may_open_the_store_for_itself(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    store = SQLiteStore(path)
    store.submit([Draft(id="parents", task="t")])
    child = os.fork()
    if child == 0:
        # Nothing but stores is touched here: the child shares this test's whole interpreter.
        code = 1
        try:
            own = SQLiteStore(path)
            own.submit([Draft(id="childs", task="t")])
            own.close()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    store.submit([Draft(id="parents again", task="t")])
    leases = store.exchange((), LeaseRequest(worker="w", limit=9)).leases
    assert [lease.job_id for lease in leases] == ["parents", "childs", "parents again"]
    assert store.check() == []
    store.close()
