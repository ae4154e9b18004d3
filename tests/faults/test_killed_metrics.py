"""kill -9 through many minutes: the figures still add up to the totals."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from leasehold.core.model.span import COUNTED, MINUTES_KEPT
from leasehold.env import SYSTEM, Env
from leasehold.stores.sqlite import SQLiteStore
from support.acknowledged import Acknowledged
from support.effort import drawn
from support.killing import under_fire
from support.store_children import HastyClock

pytestmark = pytest.mark.faults

PROCESSES = 3
KILLS = drawn(60)


def test_minutes_and_days_add_up_to_the_totals(folder: Path, acknowledged: Acknowledged) -> None:
    told, path, random = acknowledged, folder / "jobs.db", Random(17)
    start = SYSTEM.now_micros()
    functions = ["support.store_children:churn_hastily"] * PROCESSES
    under_fire(path, told, random, functions, kills=KILLS, more=(start,))
    store = SQLiteStore(path, env=Env(clock=HastyClock(start)))
    assert store.check() == []
    points = store.series(minutes=MINUTES_KEPT)
    days = store.daily(days=10)
    totals = store.metrics().totals
    for name in COUNTED:
        assert sum(getattr(point, name) for point in points) == totals[name], name
        assert sum(getattr(day, name) for day in days) == totals[name], name
    stats = store.stats()
    assert (totals["submitted"], totals["completed"]) == (stats.submitted, stats.completed)
    assert sum(point.wait.count for point in points) == totals["leased"]
    assert sum(point.run.count for point in points) == totals["completed"] + totals["failed"]
    # The processes got somewhere, and from one minute into the next.
    assert len(told.submitted) <= totals["submitted"]
    assert sum(point.submitted > 0 for point in points) > 2
    store.close()
