"""Run one seed, or many: `python -m leasehold.testing.simulator --seed 7`."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack

from leasehold.testing.simulator.runner import STEPS_DEFAULT, MakeStore, Scenario, simulate
from leasehold.testing.simulator.shrinking import Shrinker
from leasehold.testing.simulator.stores import memory_store, sqlite_stores


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0 if every promise was kept."""
    parser = argparse.ArgumentParser(prog="python -m leasehold.testing.simulator")
    parser.add_argument("--seed", type=int, required=True, help="the first seed")
    parser.add_argument("--count", type=int, default=1, help="how many seeds, one after the other")
    parser.add_argument("--steps", type=int, default=STEPS_DEFAULT)
    parser.add_argument("--store", choices=("memory", "sqlite"), default="memory")
    parser.add_argument("--shrink", action="store_true", help="find a smaller run that fails")
    parser.add_argument("--trace", action="store_true", help="print every call that was applied")
    options = parser.parse_args(arguments)
    write = sys.stdout.write
    with ExitStack() as stack:
        make_store: MakeStore = memory_store
        if options.store == "sqlite":
            make_store = stack.enter_context(sqlite_stores())
        for seed in range(options.seed, options.seed + options.count):
            scenario = Scenario(seed, options.steps)
            report = simulate(scenario, make_store)
            if report.violation is not None and options.shrink:
                shrinker = Shrinker(make_store, scenario)
                report = shrinker.shrink()
                write(f"left out: {shrinker.scenario.omitted}\n")
            if options.trace:
                write("".join(f"{applied}\n" for applied in report.log.applied))
            write(f"{report.explain()}\n")
            if report.violation is not None:
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
