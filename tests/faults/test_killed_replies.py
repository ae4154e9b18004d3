"""kill -9 between commit and answer: whoever asks again is answered as if it had been told."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from leasehold.core.model.lease import Settled
from leasehold.core.model.status import Event, Status
from leasehold.stores.sqlite import SQLiteStore
from support.reply_children import DRAFTS, REQUEST, exchange, submit

pytestmark = pytest.mark.faults

DEATHS = ["die_before_commit", "die_after_commit"]
TESTS = Path(__file__).parents[1]


def killed(path: Path, verb: str, death: str) -> None:
    code = f"from support.reply_children import serve; serve({str(path)!r}, {verb!r}, {death!r})"
    done = subprocess.run([sys.executable, "-c", code], cwd=TESTS, check=False)
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize("death", DEATHS)
def test_a_submit(folder: Path, death: str) -> None:
    path = folder / "jobs.db"
    for _ in range(2):
        killed(path, "submit", death)
        if death == "die_after_commit":
            break  # It was answered without a write, had it been sent again.
    store = SQLiteStore(path)
    was_there = store.get("job-0") is not None
    assert was_there is (death == "die_after_commit")
    answers = submit(store)
    assert answers == submit(store)
    assert [answer.id for answer in answers] == [draft.id for draft in DRAFTS]  # type: ignore[union-attr]
    assert not any(answer.is_duplicate for answer in answers)  # type: ignore[union-attr]
    assert store.stats().submitted == len(DRAFTS)
    assert store.check() == []
    store.close()


@pytest.mark.parametrize("death", DEATHS)
def test_an_exchange(folder: Path, death: str) -> None:
    path = folder / "jobs.db"
    store = SQLiteStore(path)
    submit(store)
    (first, *_) = store.exchange(request=REQUEST).leases[:1]
    assert first.job_id == "job-0"
    store.close()
    killed(path, "exchange", death)
    store = SQLiteStore(path)
    job = store.get("job-0")
    assert job is not None
    assert (job.status is Status.COMPLETED) is (death == "die_after_commit")
    answer, again = exchange(store), exchange(store)
    assert answer.leases == again.leases
    assert [lease.job_id for lease in answer.leases] == ["job-2"]
    [settled] = answer.settled
    assert isinstance(settled, Settled)
    assert answer.settled == again.settled
    for job_id, events in (
        ("job-0", [Event.CREATED, Event.LEASED, Event.COMPLETED]),
        ("job-2", [Event.CREATED, Event.LEASED]),
    ):
        assert [event.event for event in store.history(job_id)] == events
    assert store.check() == []
    store.close()
