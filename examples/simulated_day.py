"""A simulated day of mixed load, served twice: by effective priority, and by plain priority.

    python examples/simulated_day.py [plot.svg]

One worker with a virtual clock, so a day takes seconds. A little more comes in than can be done: by
plain priority, what is low starves as long as that lasts, and deadlines are missed though there was
time to meet them. Scoring lets nothing starve, and moves a job up as its deadline draws near.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.queue_config import QueueConfig
from leasehold.env import Env, ManualClock
from leasehold.stores.memory import MemoryStore

HOUR = 3600.0
KINDS = {"low": 25, "medium": 50, "high": 75}
PLAIN = QueueConfig(fifo_mode=True)
# A point every five minutes: a low job is level with a new high one after a little over four hours.
# The bound is far enough away not to matter while a day's backlog is worked off.
# Found by trying several: with the defaults, low jobs wait as long as by plain priority.
SCORED = QueueConfig(aging_factor=300, max_aging_bonus=150, deadline_weight=60)


@dataclass
class Arrival:
    """A job of the day: when it comes, what it is, how long it takes, when it has to be done."""

    at: float
    kind: str
    seconds: float
    deadline: float | None


@dataclass
class Served:
    """When a job of the day started and ended."""

    arrival: Arrival
    started: float
    ended: float

    @property
    def waited(self) -> float:
        return self.started - self.arrival.at

    @property
    def in_time(self) -> bool:
        return self.arrival.deadline is not None and self.ended <= self.arrival.deadline


def day(jobs: int, seed: int = 1) -> list[Arrival]:
    """Arrivals over 24 hours, more than one worker can do; every third has a deadline."""
    random = Random(seed)
    arrivals = []
    for _ in range(jobs):
        at = random.uniform(0, 24 * HOUR)
        kind = random.choices(list(KINDS), (2, 4, 4))[0]
        # A quarter more work than the day has room for: what is above low alone fills it.
        seconds = random.uniform(0.5, 1.5) * 1.25 * 24 * HOUR / jobs
        patience = random.uniform(0.5, 6) * HOUR
        deadline = at + patience if random.random() < 1 / 3 else None
        arrivals.append(Arrival(at, kind, seconds, deadline))
    return sorted(arrivals, key=lambda arrival: arrival.at)


def serve(arrivals: list[Arrival], config: QueueConfig) -> list[Served]:
    """Let one worker do all of it, in the order in which the store leases."""
    clock = ManualClock()
    midnight = clock.now()
    store = MemoryStore(env=Env(clock=clock, random=Random(0)))
    store.create_queue("default", config, actor="example")
    request = LeaseRequest(worker="worker", lease_seconds=24 * HOUR)
    served: list[Served] = []
    coming = 0
    while len(served) < len(arrivals):
        now = (clock.now() - midnight).total_seconds()
        due = coming
        while due < len(arrivals) and arrivals[due].at <= now:
            due += 1
        store.submit([_draft(n, arrivals[n], midnight) for n in range(coming, due)])
        coming = due
        leases = store.exchange(request=request).leases
        if not leases:
            clock.advance(arrivals[coming].at - now + 0.001)
            continue
        (lease,) = leases
        arrival = arrivals[int(lease.job_id)]
        clock.advance(arrival.seconds)
        store.exchange([Settlement(lease.job_id, lease.version, Complete())])
        served.append(Served(arrival, now, now + arrival.seconds))
    store.close()
    return served


def _draft(number: int, arrival: Arrival, midnight: datetime) -> Draft:
    due = arrival.deadline
    deadline = None if due is None else midnight + timedelta(seconds=due)
    return Draft(id=str(number), task="work", priority=KINDS[arrival.kind], deadline=deadline)


def longest_wait(served: list[Served], kind: str) -> float:
    """In hours."""
    return max(each.waited for each in served if each.arrival.kind == kind) / HOUR


def deadlines_met(served: list[Served]) -> float:
    """The share of those that had one."""
    with_deadline = [each for each in served if each.arrival.deadline is not None]
    return sum(each.in_time for each in with_deadline) / len(with_deadline)


def table(results: dict[str, list[Served]]) -> str:
    """What became of the day, a line for each way of serving it."""
    lines = [f"{'':<22}{'longest wait in hours':<36}deadlines met"]
    lines.append(f"{'':<22}{''.join(f'{kind:<12}' for kind in KINDS)}")
    for name, served in results.items():
        waits = "".join(f"{longest_wait(served, kind):<12.1f}" for kind in KINDS)
        lines.append(f"{name:<22}{waits}{deadlines_met(served):.0%}")
    return "\n".join(lines)


def plot(results: dict[str, list[Served]]) -> str:
    """Waiting times of low-priority jobs over the day, as an SVG picture."""
    width, height, left, bottom = 720, 320, 50, 280
    most = max(each.waited for served in results.values() for each in served) / HOUR
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">',
        "<style>text { font: 12px sans-serif }</style>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{left}" y="18">Hours that low-priority jobs waited, by when they came</text>',
    ]
    for hour in range(0, 25, 4):
        x = left + hour * (width - 2 * left) / 24
        parts.append(f'<text x="{x:.0f}" y="{bottom + 18}" text-anchor="middle">{hour}:00</text>')
    for share in (0, 0.5, 1):
        y = bottom - share * (bottom - 40)
        parts.append(f'<line x1="{left}" x2="{width - left}" y1="{y}" y2="{y}" stroke="#ddd"/>')
        parts.append(
            f'<text x="{left - 6}" y="{y + 4}" text-anchor="end">{most * share:.0f}</text>'
        )
    for index, (name, served) in enumerate(results.items()):
        colour = ("#c0392b", "#2471a3")[index % 2]
        for each in served:
            if each.arrival.kind == "low":
                x = left + each.arrival.at / (24 * HOUR) * (width - 2 * left)
                y = bottom - each.waited / HOUR / most * (bottom - 40)
                parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="1.6" fill="{colour}"/>')
        parts.append(f'<circle cx="{width - 190}" cy="{40 + 18 * index}" r="4" fill="{colour}"/>')
        parts.append(f'<text x="{width - 180}" y="{44 + 18 * index}">{name}</text>')
    return "\n".join([*parts, "</svg>", ""])


def main(jobs: int = 3000) -> None:
    arrivals = day(jobs)
    results = {
        "plain priority": serve(arrivals, PLAIN),
        "effective priority": serve(arrivals, SCORED),
    }
    print(table(results))
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(plot(results), encoding="utf-8")


if __name__ == "__main__":
    main()
