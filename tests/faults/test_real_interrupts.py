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

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1800)]

INTERRUPTS = int(os.environ.get("LEASEHOLD_INTERRUPTS", "2000"))
"""For a long look: LEASEHOLD_INTERRUPTS=50000."""


def test_interrupted_all_the_time_a_store_keeps_every_promise(tmp_path: Path) -> None:
    path, report = tmp_path / "jobs.db", tmp_path / "acknowledged.txt"
    store = SQLiteStore(path, durability="normal")
    child = subprocess.Popen(
        [sys.executable, "-m", "support.interrupted_child", path, str(INTERRUPTS), report],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
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
    child.stdout.close()
    assert child.returncode == 0
    acknowledged = report.read_text().split()
    assert len(acknowledged) == len(set(acknowledged)) > 0
    missing = [job_id for job_id in acknowledged if store.get(job_id) is None]
    assert missing == []
    # What was interrupted after it was written is there without having been acknowledged.
    assert 0 <= store.stats().submitted - ours - len(acknowledged) <= INTERRUPTS
    assert store.check() == []
    store.close()
