"""Real SIGINTs, from another process, at moments that nobody chose."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from leasehold.core.model.job import Draft
from leasehold.env import SYSTEM
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.disk.files import Durability

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1800)]

ON_FILE = int(os.environ.get("LEASEHOLD_INTERRUPTS", "2000"))
IN_MEMORY = int(os.environ.get("LEASEHOLD_INTERRUPTS", "200"))
"""For a long look: LEASEHOLD_INTERRUPTS=50000."""


def interrupted_child(
    store: Path | str, durability: Durability, interrupts: int, report: Path
) -> subprocess.Popen[str]:
    """A process that works until it has heard all interrupts."""
    module = "support.interrupted_child"
    child = subprocess.Popen(
        [sys.executable, "-m", module, store, durability, str(interrupts), report],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
    )
    assert child.stdout is not None
    with child.stdout as said:
        assert said.readline() == "ready\n"
    return child


@pytest.mark.parametrize("durability", ["normal", "full"])
def test_interrupted_all_the_time_a_store_keeps_every_promise(
    durability: Durability, tmp_path: Path
) -> None:
    """Under `full` the log is synced after the lock was let go of: one more place to be struck."""
    path, report = tmp_path / "jobs.db", tmp_path / "acknowledged.txt"
    store = SQLiteStore(path, durability=durability)
    child = interrupted_child(path, durability, ON_FILE, report)
    dice = random.Random(3)
    pause = threading.Event()
    ours = 0
    while child.poll() is None:
        child.send_signal(signal.SIGINT)
        pause.wait(dice.expovariate(1 / 0.0005))
        if dice.random() < 0.05:
            # Somebody else writes too, so that there is a line to stand in.
            store.submit([Draft(id=SYSTEM.new_id(), task="t", queue="ours")])
            ours += 1
    assert child.returncode == 0
    acknowledged = report.read_text().split()
    assert len(acknowledged) == len(set(acknowledged)) > 0
    missing = [job_id for job_id in acknowledged if store.get(job_id) is None]
    assert missing == []
    # What was interrupted after it was written is there without having been acknowledged.
    assert 0 <= store.stats().submitted - ours - len(acknowledged) <= ON_FILE
    assert store.check() == []
    store.close()


def test_a_store_in_memory_too(tmp_path: Path) -> None:
    report = tmp_path / "acknowledged.txt"
    child = interrupted_child("memory", "normal", IN_MEMORY, report)
    dice = random.Random(5)
    pause = threading.Event()
    while child.poll() is None:
        child.send_signal(signal.SIGINT)
        pause.wait(dice.expovariate(1 / 0.0005))
    assert child.returncode == 0
    assert report.read_text()
