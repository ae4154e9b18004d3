"""kill -9 between the two writes of a large job: nothing is left behind, nothing is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from leasehold import Status, TaskQueue
from leasehold.core.rules.blob_retention import GRACE_SECONDS
from leasehold.env import SYSTEM, Env, ManualClock
from leasehold.testing import drain
from support import large_tasks
from support.large_children import BIG
from support.transaction_tasks import MAKE_ROWS, ROWS

pytestmark = pytest.mark.faults

MOMENTS = ["while the blob is written", "between the two writes"]


def killed(verb: str, path: Path, moment: str) -> None:
    tests = str(Path(__file__).parent.parent)
    child = subprocess.run(
        [sys.executable, "-m", "support.large_children", verb, str(path), moment],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([tests, *sys.path])},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert child.returncode == -signal.SIGKILL, child.stderr


def files(folder: Path) -> list[str]:
    return [path.name for path in (folder / "jobs.db-blobs").rglob("*") if path.is_file()]


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("verb", ["submit", "submit inside"])
def test_a_producer_that_is_killed_leaves_nothing_after_the_clean_up(
    folder: Path, verb: str, moment: str
) -> None:
    killed(verb, folder / "jobs.db", moment)
    [left] = files(folder)
    assert left.endswith(".part") == (moment == MOMENTS[0])
    clock = ManualClock(SYSTEM.now())
    with TaskQueue(folder / "jobs.db", num_workers=0, env=Env(clock)) as queue:
        assert [job.task for job in queue.search()] == ["load"]
        queue.prune(force=True)
        assert files(folder) == [left]
        clock.advance(GRACE_SECONDS + 60)
        queue.prune(force=True)
        assert files(folder) == []
        assert queue.check() == []


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_worker_that_is_killed_leaves_one_result(folder: Path, moment: str) -> None:
    with TaskQueue(folder / "jobs.db", num_workers=0) as queue:
        job = queue.task(large_tasks.double).submit(BIG)
    killed("run", folder / "jobs.db", moment)
    assert len(files(folder)) == 2
    clock = ManualClock(SYSTEM.now() + timedelta(hours=2))
    with TaskQueue(folder / "jobs.db", num_workers=0, env=Env(clock)) as queue:
        queue.task(large_tasks.double)
        queue.store.recover()
        queue.prune(force=True)
        assert len(files(folder)) == 1
        assert drain(queue).completed == 1
        queue.prune(force=True)
        assert len(files(folder)) == 2
        assert queue.get_status(job) is Status.COMPLETED
        assert queue.get_result(job, 0) == BIG + BIG


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_task_that_is_killed_in_its_own_transaction_leaves_one_result(
    folder: Path, moment: str
) -> None:
    with TaskQueue(folder / "jobs.db", num_workers=0) as queue:
        connection = queue.connect()
        connection.execute(MAKE_ROWS)
        connection.close()
        job = queue.task(large_tasks.double_in_a_transaction).submit(BIG)
    killed("run inside", folder / "jobs.db", moment)
    assert len(files(folder)) == 2
    clock = ManualClock(SYSTEM.now() + timedelta(hours=2))
    with TaskQueue(folder / "jobs.db", num_workers=0, env=Env(clock)) as queue:
        queue.task(large_tasks.double_in_a_transaction)
        connection = queue.connect()
        assert connection.execute(ROWS).fetchall() == []
        queue.store.recover()
        queue.prune(force=True)
        assert len(files(folder)) == 1
        assert drain(queue).completed == 1
        queue.prune(force=True)
        assert len(files(folder)) == 2
        assert queue.get_result(job, 0) == BIG + BIG
        assert connection.execute(ROWS).fetchall() == [(job.id,)]
        connection.close()
