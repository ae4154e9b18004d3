"""The smallest run that still breaks the same promise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from leasehold.testing.simulator.faults import Fault
from leasehold.testing.simulator.runner import MakeStore, RunReport, Scenario, simulate
from leasehold.testing.simulator.world import Omitted

T = TypeVar("T")

RUNS_MAX = 200


class Shrinker:
    """Leaves out everything not needed to fail: steps, processes, kinds of fault, single faults."""

    def __init__(self, make_store: MakeStore, failing: Scenario, *, runs: int = RUNS_MAX) -> None:
        self._make_store = make_store
        self._runs_left = runs
        self.scenario = failing
        self.report = simulate(failing, make_store)
        if self.report.violation is None:
            raise ValueError(f"seed {failing.seed} keeps every promise: there is nothing to shrink")
        self._promise = self.report.violation.promise

    def shrink(self) -> RunReport:
        """The report of the smallest failing run found; `scenario` describes it."""
        self._cut_steps()
        self._leave_out(self.report.processes, self._without_processes)
        self._leave_out(list(Fault), self._without_faults)
        self._leave_out(self.report.strikes, self._without_strikes)
        self._cut_steps()
        return self.report

    def _cut_steps(self) -> None:
        """Halve the distance to the smallest number of steps that still fails."""
        low, high = 0, self.scenario.steps
        while high - low > 1 and self._runs_left > 0:
            middle = (low + high) // 2
            if self._fails(replace(self.scenario, steps=middle)):
                high = middle
            else:
                low = middle

    def _leave_out(self, parts: Sequence[T], without: Callable[[Sequence[T]], Scenario]) -> None:
        """Leave out as many parts as can be spared: in large chunks first, then one by one."""
        kept = list(parts)
        size = len(kept)
        while size >= 1 and self._runs_left > 0:
            start = 0
            while start < len(kept):
                chunk = kept[start : start + size]
                if self._fails(without(chunk)):
                    del kept[start : start + size]
                else:
                    start += size
            size //= 2

    def _without_processes(self, names: Sequence[str]) -> Scenario:
        omitted = self.scenario.omitted
        return self._with(replace(omitted, processes=omitted.processes.union(names)))

    def _without_faults(self, faults: Sequence[Fault]) -> Scenario:
        omitted = self.scenario.omitted
        return self._with(replace(omitted, faults=omitted.faults.union(faults)))

    def _without_strikes(self, strikes: Sequence[tuple[str, int]]) -> Scenario:
        omitted = self.scenario.omitted
        return self._with(replace(omitted, strikes=omitted.strikes.union(strikes)))

    def _with(self, omitted: Omitted) -> Scenario:
        return replace(self.scenario, omitted=omitted)

    def _fails(self, scenario: Scenario) -> bool:
        """Whether it breaks the same promise; then it is the smallest known."""
        if self._runs_left <= 0:
            return False
        self._runs_left -= 1
        report = simulate(scenario, self._make_store)
        if report.violation is None or report.violation.promise != self._promise:
            return False
        self.scenario, self.report = scenario, report
        return True
