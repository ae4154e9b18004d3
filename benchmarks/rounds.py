"""What is measured of each contender: one function per scenario, each on a fresh store."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.contest import Fresh
from benchmarks.rivals.effects import Effect

Figures = dict[str, float]


@dataclass(frozen=True)
class Sizes:
    """How much work each scenario does, and how long it may take."""

    one_by_one: int = 2_000
    bulk: int = 20_000
    drain: int = 20_000
    drain_one_by_one: int = 4_000
    """Of those whose jobs cannot be submitted in bulk."""
    each_of_four: int = 1_000
    samples: int = 200
    half_load_seconds: float = 4.0
    pending: int = 200_000
    among: int = 5_000
    killed: int = 300
    seconds_max: float = 8.0
    """What takes longer is measured by what was done until then."""
    recovery_seconds_max: float = 120.0


QUICK = Sizes(
    one_by_one=200,
    bulk=2_000,
    drain=1_000,
    drain_one_by_one=300,
    each_of_four=50,
    samples=20,
    half_load_seconds=0.5,
    pending=5_000,
    among=500,
    killed=60,
    seconds_max=5.0,
    recovery_seconds_max=30.0,
)


def submit(fresh: Fresh, sizes: Sizes) -> Figures:
    """One producer, one job at a time; then many jobs a call, where there is such a call."""
    figures = {"submit, jobs/s": sizes.one_by_one / fresh.submit(sizes.one_by_one)}
    if fresh.has_bulk:
        figures["submit in bulk, jobs/s"] = sizes.bulk / fresh.submit(sizes.bulk, "bulk")
    return figures


def drain(fresh: Fresh, sizes: Sizes) -> Figures:
    """Jobs that wait, from the first that a worker runs to the last."""
    jobs = sizes.drain if fresh.has_bulk else sizes.drain_one_by_one
    fresh.submit_fast(jobs)
    with fresh.worker():
        fresh.wait_for(jobs + 1, sizes.seconds_max)
    return {"drain, jobs/s": _rate(fresh.effects())}


def end_to_end(fresh: Fresh, sizes: Sizes) -> Figures:
    """Jobs that are run while they are submitted one by one; then the same at half of that rate."""
    with fresh.worker():
        rate = _end_to_end(fresh, sizes.one_by_one, 1, sizes)
        before = len(fresh.effects())
        jobs = max(20, int(rate / 2 * sizes.half_load_seconds))
        fresh.submit(jobs, "paced", 0.0, rate / 2)
        fresh.wait_for(before + jobs + 1, sizes.seconds_max)
    p50, p99 = _waits(fresh.effects()[before + 1 :])
    return {
        "end to end, jobs/s": rate,
        "pick-up at half load p50, ms": p50,
        "pick-up at half load p99, ms": p99,
    }


def four_producers(fresh: Fresh, sizes: Sizes) -> Figures:
    """Jobs that are run while four processes submit one by one."""
    with fresh.worker():
        rate = _end_to_end(fresh, sizes.each_of_four, 4, sizes)
    return {"end to end, 4 producers, jobs/s": rate}


def pick_up(fresh: Fresh, sizes: Sizes) -> Figures:
    """From a submit until the task's code runs, in an idle worker."""
    with fresh.worker():
        _warm_up(fresh, sizes)
        fresh.submit(sizes.samples, "paced", 0.0, 40.0)
        fresh.wait_for(2 + sizes.samples, sizes.seconds_max)
    p50, p99 = _waits(fresh.effects()[2:])
    return {"pick-up p50, ms": p50, "pick-up p99, ms": p99}


def among_pending(fresh: Fresh, sizes: Sizes) -> Figures:
    """The first jobs of many that wait; only where they can be submitted in bulk."""
    if not fresh.has_bulk:
        return {}
    fresh.submit_fast(sizes.pending)
    with fresh.worker():
        fresh.wait_for(sizes.among, sizes.seconds_max)
    return {"drain among many, jobs/s": _rate(fresh.effects())}


def _warm_up(fresh: Fresh, sizes: Sizes) -> None:
    """One job through everything, so that what is opened once is not measured."""
    fresh.submit(0)
    fresh.wait_for(1, sizes.seconds_max)


def _end_to_end(fresh: Fresh, jobs: int, producers: int, sizes: Sizes) -> float:
    _warm_up(fresh, sizes)
    fresh.producers(jobs, producers)
    # Each producer submits one job more before they begin.
    fresh.wait_for(1 + producers * (jobs + 1), sizes.seconds_max)
    effects = [each for each in fresh.effects()[1:] if each.number < jobs]
    return len(effects) / (max(_ran(effects)) - min(each.sent for each in effects))


def _ran(effects: Sequence[Effect]) -> list[float]:
    return [each.ran for each in effects]


def _rate(effects: Sequence[Effect]) -> float:
    ran = _ran(effects)
    return len(ran) / (max(ran) - min(ran)) if len(ran) > 1 else 0.0


def _waits(effects: Sequence[Effect]) -> tuple[float, float]:
    """The median and the 99th percentile, in milliseconds."""
    waits = sorted(1000 * (each.ran - each.sent) for each in effects)
    return statistics.median(waits), waits[int(len(waits) * 0.99)]


SCENARIOS: dict[str, Callable[[Fresh, Sizes], Figures]] = {
    "drain": drain,
    "end-to-end": end_to_end,
    "four-producers": four_producers,
    "submit": submit,
    "pick-up": pick_up,
    "among-pending": among_pending,
}
