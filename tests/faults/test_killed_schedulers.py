"""Processes that fire schedules are killed, again and again: every tick has exactly one job."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.job import Draft
from leasehold.core.model.schedule import ScheduleDraft
from leasehold.core.model.search import JobFilter
from leasehold.core.model.ticks import ticks_between
from leasehold.core.model.timing import Cron, Every, Timing
from leasehold.env import Env, to_micros
from leasehold.stores.sqlite import SQLiteStore
from support.effort import drawn
from support.killing import all_jobs, kill_again_and_again
from support.ticking_children import FastClock
from support.zygote import zygote

pytestmark = pytest.mark.faults

PROCESSES = 4
KILLS = drawn(60, one_in=2)
HOURS = 3
START = datetime(2030, 10, 27, 0, 0, tzinfo=UTC)  # an hour before Berlin's clocks are set back
FACTOR = 3000
TIMINGS: dict[str, Timing] = {
    "every": Every(20),
    "interval": Cron("* * * * *", "Europe/Berlin"),
    "times": Cron("*/5 2-3 * * *", "Europe/Berlin"),
}


def test_every_tick_has_one_job_although_schedulers_are_killed(tmp_path: Path) -> None:
    path = str(tmp_path / "jobs.db")
    seed = 20301027
    random = Random(seed)
    clock = (to_micros(START), time.time_ns(), FACTOR)
    store = SQLiteStore(path, env=Env(FastClock(*clock)))
    for name, timing in TIMINGS.items():
        store.set_schedule(
            ScheduleDraft(
                name=name,
                timing=timing,
                job=Draft(id=name, task="work"),
                misfire="catch_up",
                catch_up_max=1000,
            ),
            actor="test",
        )
    began = {schedule.name: schedule.created_at for schedule in store.schedules()}
    with zygote("support.ticking_children") as nursery:
        numbers = itertools.count(1)

        def start() -> int:
            number = next(numbers)
            arguments = (path, f"worker-{number}", seed + number, clock)
            return nursery.spawn("support.ticking_children:fire_for_ever", *arguments)

        def pause() -> None:
            time.sleep(random.uniform(0.0, 0.03))

        while nursery.kills < KILLS or store.now() < START + timedelta(hours=HOURS):
            kill_again_and_again(nursery, [start] * PROCESSES, random, kills=KILLS, pause=pause)
            nursery.kill_all()
    store.fire_schedules()
    assert store.check() == []
    for name, timing in TIMINGS.items():
        schedule = store.get_schedule(name)
        assert schedule is not None
        assert schedule.last_at is not None
        wanted = list(ticks_between(timing, began[name], schedule.last_at))
        found = ticks_of(store, name)
        assert [tick for tick, jobs in found.items() if jobs > 1] == []
        assert set(found) == set(wanted)
        assert schedule.fired == len(wanted) > 20
    store.close()


def ticks_of(store: Store, name: str) -> Counter[datetime]:
    """How many jobs each tick has."""
    jobs = all_jobs(store, JobFilter(metadata={"schedule": name}))
    return Counter(datetime.fromisoformat(str((job.metadata or {})["tick"])) for job in jobs)
