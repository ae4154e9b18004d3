"""What `bench` measures, each on the same throw-away store, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from leasehold.cli.showcase import tasks
from leasehold.cli.showcase.stage import WAIT_SECONDS, ShowcaseStage
from leasehold.env import SYSTEM
from leasehold.queue.options import NewJob

DRAIN_SECONDS: Final = 3600.0
"""Long enough for as many jobs as anybody asks for."""


class ShowcaseFigure(NamedTuple):
    """One figure, and how it was come by."""

    measure: str
    value: float
    unit: str
    jobs: int
    batch: int = 1
    """How many jobs one submit carried."""
    slots: int | None = None
    """How many jobs could run at once."""


Tell = Callable[[str], None]
"""Names the current measurement, and how far it is."""


def measures(
    stage: ShowcaseStage, *, jobs: int, batch: int, slots: int, tell: Tell
) -> Iterator[ShowcaseFigure]:
    """Every measure, as it comes."""
    one_by_one = max(1, jobs // 10)
    tell(f"1 of 4: {one_by_one:,} jobs, submitted one by one")
    yield ShowcaseFigure(
        "submit_one_by_one",
        one_by_one / _seconds(lambda: _submit(stage, one_by_one, 1)),
        "jobs/s",
        one_by_one,
    )
    tell(f"2 of 4: {jobs:,} jobs, submitted in batches of {batch:,}")
    yield ShowcaseFigure(
        "submit_in_batches",
        jobs / _seconds(lambda: _submit(stage, jobs, batch)),
        "jobs/s",
        jobs,
        batch,
    )
    waiting = jobs + one_by_one
    tell(f"3 of 4: {waiting:,} jobs, run by {slots} slots")
    yield ShowcaseFigure(
        "drain",
        waiting / _drain(stage, waiting, slots, tell),
        "jobs/s",
        waiting,
        batch,
        slots,
    )
    samples = max(10, jobs // 100)
    tell(f"4 of 4: {samples:,} jobs, one at a time, for an idle worker process")
    waits = _pick_up(stage, samples)
    for name, share in (("pick_up_p50", 0.50), ("pick_up_p99", 0.99)):
        value = 1000 * waits[min(int(share * len(waits)), len(waits) - 1)]
        yield ShowcaseFigure(name, value, "ms", len(waits), 1, 4)


def _submit(stage: ShowcaseStage, jobs: int, batch: int) -> None:
    for first in range(0, jobs, batch):
        stage.queue.submit_many([NewJob(tasks.nothing)] * min(batch, jobs - first))


def _drain(stage: ShowcaseStage, jobs: int, slots: int, tell: Tell) -> float:
    """Seconds from the workers' start until this many jobs are completed and durable."""

    def is_done() -> bool:
        completed = stage.queue.get_queue_stats()["completed"]
        tell(f"3 of 4: {completed:,} of {jobs:,} jobs have run, {slots} slots")
        return completed >= jobs

    started = SYSTEM.clock.monotonic()
    with stage.workers(slots):
        stage.until(is_done, DRAIN_SECONDS)
        return SYSTEM.clock.monotonic() - started


def _pick_up(stage: ShowcaseStage, samples: int) -> list[float]:
    """Seconds from a submit here until the task's code runs in an idle worker process, sorted."""
    waits = []
    with stage.worker_process("idle"):
        for _ in range(samples):
            started = SYSTEM.now_micros()
            ran_at = stage.queue.submit(tasks.moment, queue="idle").result(WAIT_SECONDS)
            waits.append((ran_at - started) / 1e6)
    return sorted(waits)


def _seconds(work: Callable[[], None]) -> float:
    started = SYSTEM.clock.monotonic()
    work()
    return SYSTEM.clock.monotonic() - started
