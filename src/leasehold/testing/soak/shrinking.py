"""The smallest run that still breaks the same rule: steps are left out, in large parts first."""

from __future__ import annotations

from dataclasses import replace

from leasehold.testing.soak.running import Report, Scenario, run
from leasehold.testing.soak.subjects import Stage

RUNS_MAX = 300


def shrink(failing: Report, stage: Stage, *, runs: int = RUNS_MAX) -> Report:
    """The report of the smallest failing run found; its scenario names the omissions.

    Every step draws from a generator of its own, so leaving one out changes the others only through
    its effects.
    """
    if failing.broken is None:
        raise ValueError(f"seed {failing.scenario.seed} keeps every rule: nothing to shrink")
    best = (
        _attempt(failing, replace(failing.scenario, steps=failing.taken[-1] + 1), stage) or failing
    )
    size = len(best.taken)
    while size >= 1 and runs > 0:
        start = 0
        while start < len(best.taken) and runs > 0:
            chunk = best.taken[start : start + size]
            scenario = best.scenario
            smaller = replace(scenario, omitted=scenario.omitted.union(chunk))
            runs -= 1
            found = _attempt(failing, smaller, stage)
            if found is None:
                start += size
            else:
                best = found
        size //= 2
    return best


def _attempt(failing: Report, scenario: Scenario, stage: Stage) -> Report | None:
    report = run(scenario, stage)
    same = (
        report.broken is not None
        and failing.broken is not None
        and report.broken.rule == failing.broken.rule
    )
    return report if same else None
