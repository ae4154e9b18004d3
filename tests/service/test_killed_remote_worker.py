"""The jobs of a killed remote worker: its leases of 30 seconds end, and a sweep follows."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold.connect import connect
from leasehold.core.contract.store import Store
from leasehold.core.contract.worker_leases import REMOTE_LEASE_SECONDS
from leasehold.core.model.job import Draft
from leasehold.core.model.status import Status
from leasehold.env import Env, ManualClock
from leasehold.service.server import SWEEP_SECONDS
from leasehold.worker.sweep import RecoverySweep
from service.conftest import WAIT, serving

WORKER = """
import sys, threading
from leasehold import TaskQueue

queue = TaskQueue(sys.argv[1], num_workers=1)

@queue.task(name="hang", executor="thread")
def hang():
    print("begun", flush=True)
    threading.Event().wait()

queue.run_worker()
"""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> Iterator[Store]:
    store = connect("memory://", env=Env(clock=clock))
    yield store
    store.close()


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_its_jobs_may_run_again_after_40_seconds(
    store: Store, clock: ManualClock, scheme: str, tmp_path: Path
) -> None:
    (tmp_path / "work.py").write_text(WORKER)
    store.submit([Draft(id="held", task="hang")])
    with serving(store, grpc_port=0) as service:
        place = service.url if scheme == "http" else service.grpc_url
        url = place.replace("://", f"://{service.token('producer', 'consumer')}@")
        worker = subprocess.Popen(
            (sys.executable, str(tmp_path / "work.py"), url),
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert worker.stdout is not None
        assert worker.stdout.readline() == "begun\n"
        worker.kill()
        worker.wait(WAIT)
        worker.stdout.close()
        # As the server's own sweep looks, which is all there is.
        sweep = RecoverySweep(store, env=Env(clock=clock), interval_seconds=SWEEP_SECONDS)
        job = store.get("held")
        assert job is not None
        assert job.status is Status.RUNNING
        waited = 0.0
        while not sweep.scan_and_recover().recovered:
            assert waited < REMOTE_LEASE_SECONDS + SWEEP_SECONDS
            clock.advance(SWEEP_SECONDS)
            waited += SWEEP_SECONDS
        assert REMOTE_LEASE_SECONDS <= waited <= 40
        job = store.get("held")
        assert job is not None
        assert (job.status, job.attempts) == (Status.PENDING, 1)
