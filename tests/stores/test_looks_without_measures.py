"""What was measured in a queue's whole life is not read to tell of its last minutes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leasehold.connect import connect
from leasehold.core.contract.store import Store
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.env import Env, ManualClock
from leasehold.stores.tables import sampling

QUEUES = tuple(f"q{number}" for number in range(7))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[Store]:
    is_server = request.param == "postgres"
    url = request.getfixturevalue("schemas").lend() if is_server else str(tmp_path / "jobs.db")
    store = connect(url, env=Env(clock))
    yield store
    store.close()
    if is_server:
        request.getfixturevalue("schemas").take_back(url)


def test_only_the_minutes_asked_for_are_decoded(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for minute in range(3):
        store.submit([Draft(id=f"{name}-{minute}", task="t", queue=name) for name in QUEUES])
        leases = store.exchange(request=LeaseRequest(worker="w", queues=QUEUES, limit=99)).leases
        store.exchange([Settlement(each.job_id, each.version, Complete()) for each in leases])
        clock.advance(60)
    # The first write of a minute keeps the one before.
    store.submit([Draft(id="latest", task="t", queue=QUEUES[0])])
    decode, decoded = sampling._decode, []

    def counted(measures: Any) -> Any:
        decoded.append(1)
        return decode(measures)

    monkeypatch.setattr(sampling, "_decode", counted)
    lately = {each.queue: each for each in store.metrics_by_queue(window_seconds=60)}
    assert len(decoded) == len(QUEUES), "one minute of each"
    assert [lately[name].completed for name in QUEUES] == [1] * len(QUEUES)
    assert lately[QUEUES[0]].submitted == 2
    assert lately[QUEUES[0]].totals["submitted"] == 4
