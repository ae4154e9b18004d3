"""Start-up of the command line, beside Python's own."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

from benchmarks.bench import Bench, Row

BUDGET_MILLIS = 150
REPEATS = 15


def starting(bench: Bench) -> None:
    """What `--version` and a submit take from the shell, as ratio and as milliseconds more."""
    if not bench.wants("start-up"):
        return
    store = bench.fresh()
    cli = ("-m", "leasehold.cli")
    commands = {
        "python": ("-c", "pass"),
        "--version": (*cli, "--version"),
        "enqueue": (*cli, "enqueue", "--store", store, "--", "true"),
    }
    # Installed code is compiled already; ours is compiled by the first round, which does not count.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    found: dict[str, list[float]] = {name: [] for name in commands}
    for repeat in range(REPEATS + 1):
        for name, arguments in commands.items():
            started = time.perf_counter()
            subprocess.run(
                [sys.executable, *arguments],
                check=True,
                env=environment,
                stdout=subprocess.DEVNULL,
            )
            if repeat:
                found[name].append(1000 * (time.perf_counter() - started))
    millis = {name: statistics.median(values) for name, values in found.items()}
    for name in ("--version", "enqueue"):
        added = millis[name] - millis["python"]
        row = Row(f"start-up of {name}", "full", "ms", {"python": millis["python"]})
        row.values[name] = millis[name]
        row.ratios = {"of python": millis[name] / millis["python"], "added ms": added}
        row.target, row.met = f"< {BUDGET_MILLIS} ms more", added < BUDGET_MILLIS
        bench.add(row)
