"""`python -m benchmarks`: everything side by side in one run. Ratios mean something, rates do not.

Every measurement runs in a fresh process, on a fresh store on disk. Repeats are interleaved (raw,
Leasehold, rival, raw, ...) so that a slow moment of the machine hits all alike; medians are shown.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

import apsw

from benchmarks import ours
from benchmarks.bench import Bench, Sizes
from benchmarks.mixed import mixed
from benchmarks.scenarios import cleaning, figures, growth, importing, latency, memory, throughput
from benchmarks.startup import starting
from benchmarks.steady import steady
from leasehold.stores.sqlite.disk.files import Durability, file_system


def fsync_millis(folder: Path) -> float:
    """The machine's own price of durability: append 4 KiB and sync, median of 200."""
    times = []
    with (folder / "sync").open("wb", buffering=0) as file:
        for _ in range(200):
            started = time.perf_counter()
            file.write(b"x" * 4096)
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - started)
    return 1000 * statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, one repeat")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="scenarios with this in the name"
    )
    parser.add_argument("--durability", choices=["full", "normal", "both"], default="both")
    parser.add_argument("--folder", help="where the stores are made (default: the temp folder)")
    parser.add_argument("--json", metavar="FILE", help="write the rows to a file as well")
    options = parser.parse_args()
    sizes = Sizes.quick() if options.quick else Sizes()
    levels: tuple[Durability, ...] = (
        ("full", "normal") if options.durability == "both" else (options.durability,)
    )
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="leasehold-bench-") as name:
        folder = Path(name)
        print(
            f"{os.cpu_count()} cores, {platform.platform()}, Python {platform.python_version()}, "
            f"SQLite {apsw.sqlite_lib_version()}, {file_system(folder)}, "
            f"append + fdatasync of 4 KiB: {fsync_millis(folder):.2f} ms\n"
            f"history on; raw at batch 100 unless said; Leasehold: 1 process, {ours.SLOTS} slots, "
            f"batches as they come; huey: 1 process, 8 threads; medians of {sizes.repeats}\n"
        )
        bench = Bench(sizes, options.only, folder)
        for durability in levels:
            throughput(bench, durability)
            steady(bench, durability)
            latency(bench, durability)
        growth(bench, "full")
        mixed(bench, "full")
        figures(bench, "full")
        cleaning(bench, "full")
        memory(bench)
        importing(bench)
        starting(bench)
    if options.json:
        Path(options.json).write_text(json.dumps([asdict(row) for row in bench.rows], indent=1))
    missed = [row.scenario for row in bench.rows if row.met is False]
    if missed:
        sys.exit(f"missed: {', '.join(missed)}")


if __name__ == "__main__":
    main()
