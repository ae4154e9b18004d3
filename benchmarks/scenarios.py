"""What is measured, beside what, and which figure it has to reach."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks import ours, raw
from benchmarks.bench import Bench, Row
from leasehold.stores.sqlite.disk.files import Durability


def throughput(bench: Bench, durability: Durability) -> None:
    """Submitting and draining, beside the raw limit and the rival."""
    from benchmarks import rival

    sizes = bench.sizes
    full = durability == "full"
    if bench.wants("submit one by one"):
        found = bench.compare(
            raw_insert=(raw.single_insert, durability, sizes.one_by_one),
            raw=(raw.submit, durability, sizes.one_by_one, 1),
            leasehold=(ours.submit_one_by_one, durability, sizes.one_by_one),
            threads8=(ours.submit_one_by_one, durability, 2 * sizes.one_by_one, 8),
            huey=(rival.submit_one_by_one, durability, sizes.rival_one_by_one),
            huey_threads8=(rival.submit_one_by_one, durability, sizes.rival_one_by_one, 8),
        )
        ratio = found["leasehold"] / found["raw_insert"]
        gain = found["threads8"] / found["leasehold"]
        bench.add(
            Row(
                "submit one by one",
                durability,
                "jobs/s",
                found,
                {
                    "of a bare insert": ratio,
                    "of the same rows": found["leasehold"] / found["raw"],
                    "8 threads : 1": gain,
                    "vs huey": found["leasehold"] / found["huey"],
                },
                "0.75 of a bare insert, 8 threads 3x",
                ratio >= 0.75 and gain >= 3 if full else None,
            )
        )
    if bench.wants("submit concurrently"):
        jobs = 5 * sizes.one_by_one
        found = bench.compare(
            threads64=(ours.submit_one_by_one, durability, jobs, 64),
            coroutines1000=(ours.submit_on_one_loop, durability, jobs, 1000),
        )
        ratio = found["coroutines1000"] / found["threads64"]
        bench.add(
            Row(
                "submit concurrently",
                durability,
                "jobs/s",
                found,
                {"coroutines : threads": ratio},
                "1,000 coroutines as fast as 64 threads",
                ratio >= 1 if full else None,
            )
        )
    if bench.wants("submit_many"):
        found = bench.compare(
            raw=(raw.submit, durability, sizes.many, 10_000),
            leasehold=(ours.submit_many, durability, sizes.many),
        )
        ratio = found["leasehold"] / found["raw"]
        bench.add(
            Row(
                "submit_many, 10,000 a call",
                durability,
                "jobs/s",
                found,
                {"of raw": ratio},
                "0.50 of raw",
                ratio >= 0.5 if full else None,
            )
        )
    if bench.wants("drain"):
        found = bench.compare(
            raw=(raw.drain, durability, sizes.drain),
            leasehold=(ours.filled_drain, durability, sizes.drain),
            huey=(rival.drain, durability, sizes.rival_drain),
        )
        ratio, gain = found["leasehold"] / found["raw"], found["leasehold"] / found["huey"]
        bench.add(
            Row(
                f"drain, {sizes.drain:,} no-op jobs",
                durability,
                "jobs/s",
                found,
                {"of raw": ratio, "vs huey": gain},
                "10x huey, 0.50 of raw",
                ratio >= 0.5 and gain >= 10 if full else None,
            )
        )


def latency(bench: Bench, durability: Durability) -> None:
    """What an idle worker costs, and how soon death is noticed."""
    sizes = bench.sizes
    full = durability == "full"
    if bench.wants("idle CPU"):
        cpu = bench.measure(ours.idle_cpu, durability, sizes.idle_seconds)
        bench.add(
            Row("idle CPU", durability, "% of a core", {"leasehold": cpu}, {}, "< 0.5 %", cpu < 0.5)
        )
    if bench.wants("recovery after kill -9") and full:
        seconds = max(bench.measure(ours.recovery, durability) for _ in range(sizes.repeats))
        row = Row("recovery after kill -9", durability, "s, worst", {"leasehold": seconds})
        row.target, row.met = "< 2 s", seconds < 2
        bench.add(row)


def growth(bench: Bench, durability: Durability) -> None:
    """The same drain beside many pending and many finished jobs."""
    sizes = bench.sizes
    if not bench.wants("growth"):
        return
    deep, old = bench.fresh(), bench.fresh()
    bench.measure(ours.fill, durability, sizes.pending + sizes.repeats * sizes.drain, store=deep)
    bench.measure(ours.fill_finished, sizes.finished, store=old)
    found: dict[str, list[float]] = {"empty": [], "pending": [], "finished": []}
    for _ in range(sizes.repeats):
        found["empty"].append(bench.measure(ours.filled_drain, durability, sizes.drain))
        found["pending"].append(bench.measure(ours.drain, durability, sizes.drain, store=deep))
        found["finished"].append(
            bench.measure(ours.filled_drain, durability, sizes.drain, store=old)
        )
    rates = {name: statistics.median(values) for name, values in found.items()}
    ratios = {
        f"{sizes.pending:,} pending": rates["pending"] / rates["empty"],
        f"{sizes.finished:,} finished": rates["finished"] / rates["empty"],
    }
    row = Row("growth: drain beside many", durability, "jobs/s", rates, ratios)
    row.target, row.met = "0.80 of empty", min(ratios.values()) >= 0.8
    bench.add(row)
    for place in (deep, old):
        shutil.rmtree(Path(place).parent)


def figures(bench: Bench, durability: Durability) -> None:
    """Asking for metrics beside many pending jobs."""
    sizes = bench.sizes
    if not bench.wants("metrics"):
        return
    deep = bench.fresh()
    bench.measure(ours.fill, durability, 100, store=deep)
    found = {"100_pending": bench.measure(ours.metrics_millis, durability, 50, store=deep)}
    bench.measure(ours.fill, durability, sizes.pending, store=deep)
    name = f"{sizes.pending}_pending"
    found[name] = bench.measure(ours.metrics_millis, durability, 50, store=deep)
    row = Row("metrics of a deep store", durability, "ms", found)
    row.target, row.met = "< 10 ms", found[name] < 10
    bench.add(row)
    shutil.rmtree(Path(deep).parent)


def cleaning(bench: Bench, durability: Durability) -> None:
    """The same drain with and without a clean-up of many old jobs at the same time."""
    sizes = bench.sizes
    if not bench.wants("drain while pruning"):
        return
    alone, cleaned = [], []
    pruned = 0.0
    for _ in range(sizes.repeats):
        old = bench.fresh()
        bench.measure(ours.fill_finished, sizes.old, store=old)
        alone.append(bench.measure(ours.filled_drain, durability, sizes.many, store=old))
        rate, pruned = bench.measure(ours.pruned_drain, durability, sizes.many, store=old)
        cleaned.append(rate)
        shutil.rmtree(Path(old).parent)
    rates = {"alone": statistics.median(alone), "pruning": statistics.median(cleaned)}
    ratio = rates["pruning"] / rates["alone"]
    row = Row("drain while pruning", durability, "jobs/s", {**rates, "pruned": pruned})
    row.ratios, row.target, row.met = {"of alone": ratio}, "0.80 of alone", ratio >= 0.8
    bench.add(row)


def memory(bench: Bench) -> None:
    """The memory store, in one thread."""
    if bench.wants("memory"):
        found = bench.compare(
            three_calls=(ours.memory_life_cycle, bench.sizes.memory, 1),
            exchanges=(ours.memory_exchanges, bench.sizes.memory),
            batch_100=(ours.memory_life_cycle, bench.sizes.memory, 100),
        )
        row = Row("memory store, life cycle", "-", "jobs/s", found)
        row.target = "60,000 jobs/s one by one, 100,000 in batches"
        row.met = found["exchanges"] >= 60_000 and found["batch_100"] >= 100_000
        bench.add(row)


def importing(bench: Bench) -> None:
    """What `import leasehold` adds to Python's own start."""
    if not bench.wants("import"):
        return
    found: dict[str, list[float]] = {"python": [], "import": [], "TaskQueue": []}
    codes = {"python": "pass", "import": "import leasehold"}
    codes["TaskQueue"] = "from leasehold import TaskQueue"
    for _ in range(10):
        for name, code in codes.items():
            started = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            found[name].append(1000 * (time.perf_counter() - started))
    millis = {name: statistics.median(values) for name, values in found.items()}
    added = millis["import"] - millis["python"]
    row = Row("import leasehold", "-", "ms", millis, {"added ms": added})
    row.target, row.met = "< 100 ms", added < 100
    bench.add(row)
