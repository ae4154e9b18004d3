"""Steady load: jobs that are run while they are submitted, beside huey and beside ourselves.

Measured as `benchmarks.against` does, by the same processes in the same set-ups: producers and the
worker each in a process of its own, and what ran is read from the file that every task appends to.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from benchmarks import rounds
from benchmarks.bench import Bench, Row
from benchmarks.contenders import CONTENDERS, Contender
from benchmarks.contest import Fresh
from leasehold.stores.sqlite.disk.files import Durability

OURS, IN_TURN, HUEY = "Leasehold, SQLite", "Leasehold, SQLite in turn", "huey, SQLite"
ALONE_MIN = {"full": 0.7, "normal": 0.55}
"""What is to be left of a producer's own rate while a worker takes its jobs."""


def contend(
    path: str, name: str, durability: Durability, scenario: str, jobs: int, samples: int
) -> rounds.Figures:
    """The figures of one contender in one scenario."""
    sizes = rounds.Sizes(one_by_one=jobs, each_of_four=jobs // 4, samples=samples, bulk=500)
    fresh = Fresh(_contender(name, durability), sys.executable, path, Path(path + ".effects"))
    return rounds.SCENARIOS[scenario](fresh, sizes)


def _contender(name: str, durability: Durability) -> Contender:
    [contender] = [each for each in CONTENDERS if each.name == name]
    return replace(contender, url_suffix=f"?durability={durability}")


def steady(bench: Bench, durability: Durability) -> None:
    """Every figure of this kind, each beside what it is compared with."""
    if bench.wants("end to end"):
        _one_producer(bench, durability)
    if bench.wants("four producers") and durability == "full":
        _four_producers(bench, durability)
    if bench.wants("pick-up"):
        _pick_up(bench, durability)


def _one_producer(bench: Bench, durability: Durability) -> None:
    jobs, samples = bench.sizes.together, bench.sizes.pick_ups
    found = bench.compare_figures(
        alone=(contend, OURS, durability, "submit", jobs, samples),
        leasehold=(contend, OURS, durability, "end-to-end", jobs, samples),
        huey=(contend, HUEY, durability, "end-to-end", jobs, samples),
    )
    rates = {
        "alone": found["alone"]["submit, jobs/s"],
        "leasehold": found["leasehold"]["end to end, jobs/s"],
        "huey": found["huey"]["end to end, jobs/s"],
    }
    share, gain = rates["leasehold"] / rates["alone"], rates["leasehold"] / rates["huey"]
    row = Row("end to end, one producer", durability, "jobs/s", rates)
    row.ratios = {"of the producer alone": share, "vs huey": gain}
    least = ALONE_MIN[durability]
    row.target = f"{least:.2f} of the producer alone" + (
        ", 1.8x huey" if durability == "full" else ""
    )
    row.met = share >= least and (durability == "normal" or gain >= 1.8)
    bench.add(row)
    waits = {
        f"{name}_{which}": found[name][f"pick-up at half load {which}, ms"]
        for name in ("leasehold", "huey")
        for which in ("p50", "p99")
    }
    row = Row("pick-up at half of that rate", durability, "ms", waits)
    row.target = "p50 < 5 ms, p99 < 25 ms"
    row.met = waits["leasehold_p50"] < 5 and waits["leasehold_p99"] < 25
    bench.add(row)


def _four_producers(bench: Bench, durability: Durability) -> None:
    jobs, samples = bench.sizes.together, bench.sizes.pick_ups
    found = bench.compare_figures(
        leasehold=(contend, OURS, durability, "four-producers", jobs, samples),
        in_turn=(contend, IN_TURN, durability, "four-producers", jobs, samples),
        huey=(contend, HUEY, durability, "four-producers", jobs, samples),
    )
    rates = {name: each["end to end, 4 producers, jobs/s"] for name, each in found.items()}
    gain = rates["leasehold"] / rates["in_turn"]
    row = Row("end to end, four producers", durability, "jobs/s", rates)
    row.ratios = {"of syncs in turn": gain, "vs huey": rates["leasehold"] / rates["huey"]}
    row.target, row.met = "1.5x of syncs in turn", gain >= 1.5
    bench.add(row)


def _pick_up(bench: Bench, durability: Durability) -> None:
    samples = bench.sizes.pick_ups
    found = bench.compare_figures(
        leasehold=(contend, OURS, durability, "pick-up", 0, samples),
        huey=(contend, HUEY, durability, "pick-up", 0, samples),
    )
    waits = {
        f"{name}_{which}": each[f"pick-up {which}, ms"]
        for name, each in found.items()
        for which in ("p50", "p99")
    }
    row = Row("idle pick-up", durability, "ms", waits)
    row.target = "p50 < 2 ms, p99 < 10 ms"
    if durability == "full":
        row.met = waits["leasehold_p50"] < 2 and waits["leasehold_p99"] < 10
    bench.add(row)
