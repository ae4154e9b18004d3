"""The soak, for a short while: every store keeps every rule, and they answer alike."""

from dataclasses import replace

import pytest

from leasehold.core.model.status import TRANSITIONS
from leasehold.testing.soak import RULES, SAME, VERBS, Coverage, Scenario, run, shrink, stage
from leasehold.testing.soak.__main__ import main
from leasehold.testing.soak.rules.base import rule
from leasehold.testing.soak.rules.history import TABLE
from leasehold.testing.soak.swarm import Feature
from support.effort import THOROUGH

ALWAYS_MET = {
    SAME, "ALL-3", "ALL-4", "HIS-1", "HIS-2", "SUB-1", "SUB-2", "SUB-3", "LEA-1", "LEA-2", "LEA-4",
    "LEA-6", "SET-1", "SET-2", "SET-7", "REN-1", "REC-1", "CAN-1", "RPL-1", "DEP-1", "DEP-4",
    "LIM-1", "LIM-2", "KEY-1", "SCH-7", "SCH-9", "QUE-4", "QUE-7", "RET-1", "MET-1", "MET-5",
    "CAUSE", "OPE-1", "OPE-3", "OPE-5",
}  # fmt: skip
"""What even a short soak must meet; a long one must meet everything."""
SEEDS = range(17) if THOROUGH else (3, 4, 6, 8, 11, 12, 13, 15, 16)
"""Those few that meet together what all of them do."""


@pytest.fixture(scope="module")
def coverage() -> Coverage:
    met = Coverage()
    with stage() as stores:
        scenarios = [Scenario(seed, steps=150) for seed in SEEDS]
        # Full queues and ticks are rare where everything is drawn.
        rare = [
            Scenario(seed, steps=150, features=frozenset({feature}))
            for seed, feature in ((1, Feature.LIMITS), (2, Feature.LIMITS), (6, Feature.SCHEDULES))
        ]
        for scenario in (*scenarios, *rare):
            report = run(scenario, stores)
            assert report.broken is None, "\n".join([*report.trace[-5:], str(report.broken)])
            met.add(report.coverage)
    return met


def test_a_short_soak_meets_what_matters_most(coverage: Coverage) -> None:
    met = {name for name, count in coverage.rules.items() if count}
    assert ALWAYS_MET - met == set()


def test_a_short_soak_draws_most_verbs(coverage: Coverage) -> None:
    missing = VERBS.keys() - coverage.verbs.keys()
    assert len(missing) <= 5, missing


def test_the_second_table_is_the_first() -> None:
    """The rule has a table of its own, so that neither can be changed by chance."""
    assert {
        (event, before, after)
        for event, steps in TRANSITIONS.items()
        for before, afters in steps.items()
        for after in afters
    } == set(TABLE)


def test_what_was_never_met_is_named() -> None:
    never = Coverage().never(["submit"], ["LEA-1"])
    assert "verb 'submit'" in never
    assert "rule 'LEA-1'" in never
    assert "transition 'leased: pending to running'" in never


def test_a_seed_replays() -> None:
    with stage("memory") as stores:
        first, second = (run(Scenario(11, steps=80), stores) for _ in range(2))
    assert first.trace == second.trace


def test_a_failing_run_shrinks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that does not hold: the smallest run that breaks it is one submit and one lease."""

    def nothing_is_ever_leased(step: object) -> int:
        assert not getattr(getattr(step, "answer", None), "leases", ()), "leased"
        return 1

    monkeypatch.setitem(RULES, "NEVER", nothing_is_ever_leased)
    with stage("memory") as stores:
        failing = run(Scenario(3, steps=150), stores)
        assert failing.broken is not None
        smallest = shrink(failing, stores)
    assert smallest.broken is not None
    assert smallest.broken.rule == "NEVER"
    assert len(smallest.trace) <= 3, smallest.trace


def test_two_judges_for_one_clause_are_refused() -> None:
    with pytest.raises(AssertionError, match="two judges"):
        rule("LEA-1")(lambda step: 0)


def test_the_command_says_what_it_has_met(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "5", "--count", "2", "--steps", "40", "--store", "memory"]) == 0
    said = capsys.readouterr().out
    assert "every rule was kept" in said
    assert "never met" in said
    assert "rules:" in said


def test_a_seed_alone_is_the_only_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "5", "--steps", "5", "--store", "memory"]) == 0
    assert capsys.readouterr().out.startswith("1 seeds from 5, ")


@pytest.mark.parametrize(("long_minutes", "exit_code"), [(0.0, 1), (10.0, 0)])
def test_a_long_soak_that_has_not_met_all_rules_fails(
    monkeypatch: pytest.MonkeyPatch, long_minutes: float, exit_code: int
) -> None:
    monkeypatch.setattr("leasehold.testing.soak.__main__.LONG_MINUTES", long_minutes)
    arguments = ["--minutes", "0.0001", "--seed", "5", "--steps", "5", "--store", "memory"]
    assert main(arguments) == exit_code


def test_the_command_shows_the_smallest_failing_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing_is_submitted(step: object) -> int:
        assert getattr(getattr(step, "call", None), "method", "") != "submit", "submitted"
        return 1

    monkeypatch.setitem(RULES, "NEVER", nothing_is_submitted)
    assert main(["--seed", "5", "--count", "1", "--steps", "40", "--store", "memory"]) == 1
    said = capsys.readouterr().out
    assert "seed 5 broke a rule: NEVER" in said
    assert "--seed 5 --steps 40 --count 1" in said


def test_steps_can_be_left_out() -> None:
    with stage("memory") as stores:
        report = run(replace(Scenario(3, steps=40), omitted=frozenset(range(40))), stores)
    assert report.calls == 0
