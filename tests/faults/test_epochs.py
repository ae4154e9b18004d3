"""Lease versions never repeat, whatever the machine, its clock and other processes have done."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest
from leasehold.env import Env, ManualClock
from leasehold.stores.sqlite import SQLiteStore

REQUEST = LeaseRequest(worker="w")


class Machine:
    """It can be started anew, and its clock be set."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = folder / "jobs.db"
        self.boots = 0
        monkeypatch.setattr("leasehold.stores.sqlite.disk.epoch.boot_id", lambda: str(self.boots))

    def open(self, durability: str = "normal", year: int = 2030) -> SQLiteStore:
        env = Env(clock=ManualClock(datetime(year, 1, 1, tzinfo=UTC)))
        return SQLiteStore(self.path, durability=durability, env=env)  # type: ignore[arg-type]

    def save(self) -> None:
        shutil.copy(self.path, self.path.with_suffix(".saved"))

    def lose_power(self) -> None:
        """What was written since `save` is gone."""
        shutil.copy(self.path.with_suffix(".saved"), self.path)
        self.boots += 1


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def lease_and_hand_back(store: SQLiteStore) -> int:
    [lease] = store.exchange((), REQUEST).leases
    store.recover_one("a", lease.version, reset_attempts=True, reason="the test")
    return lease.version


@pytest.mark.parametrize("years", [(2030, 2030, 2030), (2030, 2031, 2001), (2030, 2001, 2001)])
def test_versions_grow_even_if_the_clock_is_wrong_after_each_loss_of_power(
    machine: Machine, years: tuple[int, int, int]
) -> None:
    granted = [0]
    store = machine.open()
    store.submit([Draft(id="a", task="t")])
    store.close()
    for year in years:
        store = machine.open(year=year)
        granted.append(lease_and_hand_back(store))
        store.close()
        machine.save()
        store = machine.open(year=year)
        granted += [lease_and_hand_back(store) for _ in range(5)]
        store.close()
        machine.lose_power()
    assert granted == sorted(set(granted))


def test_one_careful_process_does_not_vouch_for_a_careless_one(machine: Machine) -> None:
    careless = machine.open("normal")
    careless.submit([Draft(id="a", task="t")])
    # This one syncs what it writes, but the other one goes on without.
    careful = machine.open("full")
    careful.close()
    careless.close()
    machine.save()
    careless = machine.open("normal")
    careful = machine.open("full")
    granted = lease_and_hand_back(careless)
    careful.close()
    careless.close()
    machine.lose_power()
    store = machine.open("full")
    assert lease_and_hand_back(store) > granted
    store.close()


@pytest.mark.parametrize("is_in_place", [True, False])
def test_versions_grow_when_the_log_was_lost_with_all_that_was_ever_written(
    tmp_path: Path, is_in_place: bool
) -> None:
    """All is still in the log when it and the folder of notes are deleted: the file looks new."""
    path = tmp_path / "jobs.db"
    child = subprocess.run(
        [sys.executable, "-c", KILLED, str(path)], capture_output=True, text=True, check=False
    )
    assert child.returncode == -signal.SIGKILL
    path.with_name("jobs.db-wal").unlink()
    path.with_name("jobs.db-shm").unlink()
    if is_in_place:
        shutil.rmtree(path.with_name("jobs.db-run"))
    else:
        path = path.rename(tmp_path / "other.db")
    store = SQLiteStore(path)
    assert store.stats().submitted == 0
    store.submit([Draft(id="a", task="t")])
    assert lease_and_hand_back(store) > int(child.stdout)
    store.close()


KILLED = """
import os, signal, sys
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest
from leasehold.stores.sqlite import SQLiteStore
store = SQLiteStore(sys.argv[1])
store.submit([Draft(id="a", task="t")])
[lease] = store.exchange((), LeaseRequest(worker="w")).leases
print(lease.version, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
