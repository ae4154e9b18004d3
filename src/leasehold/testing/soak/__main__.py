"""Soak the stores: `python -m leasehold.testing.soak --minutes 10`, or replay one seed."""

from __future__ import annotations

import argparse
import sys
from random import Random

from leasehold.env import SYSTEM
from leasehold.testing.soak.coverage import Coverage
from leasehold.testing.soak.rules import RULES
from leasehold.testing.soak.running import SAME, STEPS_DEFAULT, Report, Scenario, run
from leasehold.testing.soak.shrinking import shrink
from leasehold.testing.soak.subjects import Stage, stage
from leasehold.testing.soak.verbs import VERBS

PROGRESS_SECONDS = 5.0
MINUTES_DEFAULT = 1.0
LONG_MINUTES = 10.0
"""From so many minutes on, a rule that was never met is a failure: shorter soaks only name it."""


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0 if every rule was kept, and met where there was time enough."""
    parser = argparse.ArgumentParser(prog="python -m leasehold.testing.soak")
    parser.add_argument("--minutes", type=float, help="for how long to go on; 1 without --seed")
    parser.add_argument("--seed", type=int, help="the first seed; without --minutes the only one")
    parser.add_argument("--count", type=int, help="how many seeds, instead of a time")
    parser.add_argument("--steps", type=int, default=STEPS_DEFAULT, help="steps per seed")
    parser.add_argument("--store", action="append", choices=("memory", "sqlite"), default=[])
    parser.add_argument("--trace", action="store_true", help="print every step of the last seed")
    options = parser.parse_args(arguments)
    first = Random().randrange(1 << 32) if options.seed is None else options.seed
    count, minutes = options.count, options.minutes
    if count is None and minutes is None:
        count, minutes = (None, MINUTES_DEFAULT) if options.seed is None else (1, None)
    with stage(*options.store) as stores:
        soak = Soak(stores, first, options.steps)
        report = soak.go(None if count is not None else minutes * 60, count)
        if options.trace and report is not None:
            _write(*report.trace)
        if report is not None and report.broken is not None:
            return _explain(report, stores)
    _write(*soak.coverage.table())
    never = soak.coverage.never(VERBS, (*RULES, SAME))
    if never:
        _write(f"never met: {', '.join(never)}")
    return int(bool(never) and count is None and minutes >= LONG_MINUTES)


class Soak:
    """Seeds, one after the other, until the time is over or a rule is broken."""

    def __init__(self, stores: Stage, first: int, steps: int) -> None:
        self._stores = stores
        self._first = first
        self._steps = steps
        self.coverage = Coverage()

    def go(self, seconds: float | None, count: int | None) -> Report | None:
        """The last report: the first that is broken, if any is."""
        clock = SYSTEM.clock
        started = told = clock.monotonic()
        seeds = calls = 0
        report: Report | None = None
        while (count is not None and seeds < count) or (
            seconds is not None and clock.monotonic() - started < seconds
        ):
            report = run(Scenario(self._first + seeds, self._steps), self._stores)
            self.coverage.add(report.coverage)
            seeds += 1
            calls += report.calls
            if report.broken is not None:
                return report
            if clock.monotonic() - told >= PROGRESS_SECONDS:
                told = clock.monotonic()
                never = len(self.coverage.never(VERBS, (*RULES, SAME)))
                _write(
                    f"{told - started:7.0f} s  {seeds:6,} seeds  {calls:9,} calls  {never} unmet"
                )
        _write(f"{seeds:,} seeds from {self._first}, {calls:,} calls: every rule was kept")
        return report


def _explain(report: Report, stores: Stage) -> int:
    seed, steps = report.scenario.seed, report.scenario.steps
    _write(
        f"seed {seed} broke a rule: {report.broken}",
        f"replay: python -m leasehold.testing.soak --seed {seed} --steps {steps} --count 1",
        "shrinking ...",
    )
    smallest = shrink(report, stores)
    _write(*(f"  {line}" for line in smallest.trace), f"{smallest.broken}")
    return 1


def _write(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
