"""The production code in the simulator: on every store, under every fault, on broken stores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from leasehold.testing.simulator import Fault, RunReport, Scenario, Shrinker, replay, simulate
from leasehold.testing.simulator.__main__ import main
from leasehold.testing.simulator.runner import MakeStore
from leasehold.testing.simulator.stores import memory_store, sqlite_stores
from support.effort import drawn
from support.mutants import MUTANTS, DropsTheFence, NeverSweeps, ServesTheWrongOrder, Sound

MEMORY_SEEDS = range(drawn(75, one_in=5))
SQLITE_SEEDS = range(1000, 1000 + drawn(15))
TRACE_SEEDS = range(2000, 2000 + drawn(12))
MUTANT_SEEDS = range(30)
MUTANT_STEPS: dict[type[Sound], int] = {NeverSweeps: 60}
"""Fewer than others have: a store in which nothing ever ends is waited for, job by job."""

SITUATIONS = (
    "abandoned",
    "batch refused as a whole",
    "cancel_requested",
    "dead by recovery",
    "discarded",
    "duplicate found by its key",
    "heartbeat_failed",
    "held back by a start rate",
    "id used again after discard",
    "late",
    "moved with the clock",
    "recovered",
    "refused as expired",
    "refused as stale",
    "released",
    "renewed",
    "replayed",
    "reprioritized",
    "settled after expiry",
    "settled again",
    "snoozed",
    "taken by a supervisor",
    "version_mismatch",
)
"""What must have happened in some run, or the runs prove less than they seem to."""


@pytest.fixture(scope="module")
def sqlite_store() -> Iterator[MakeStore]:
    with sqlite_stores() as make_store:
        yield make_store


@pytest.fixture(scope="module")
def memory_reports() -> list[RunReport]:
    return [simulate(Scenario(seed), memory_store) for seed in MEMORY_SEEDS]


def failures(reports: list[RunReport]) -> str:
    return "\n\n".join(report.explain() for report in reports if report.violation is not None)


def test_no_promise_is_broken_in_memory(memory_reports: list[RunReport]) -> None:
    assert not failures(memory_reports)


def test_every_kind_of_fault_struck(memory_reports: list[RunReport]) -> None:
    fired: Counter[Fault] = sum((report.fired for report in memory_reports), Counter())
    assert not [fault for fault in Fault if not fired[fault]]


def test_every_situation_came_up(memory_reports: list[RunReport]) -> None:
    seen: Counter[str] = sum((report.seen for report in memory_reports), Counter())
    assert not [situation for situation in SITUATIONS if not seen[situation]]


def test_no_promise_is_broken_in_sqlite(sqlite_store: MakeStore) -> None:
    assert not failures([simulate(Scenario(seed), sqlite_store) for seed in SQLITE_SEEDS])


@pytest.mark.parametrize("seed", [3, 8, 13])
def test_the_same_seed_is_the_same_run(seed: int, memory_reports: list[RunReport]) -> None:
    again = simulate(Scenario(seed), memory_store)
    assert again.log.digest() == memory_reports[seed].log.digest()


def test_another_seed_is_another_run(memory_reports: list[RunReport]) -> None:
    digests = {report.log.digest() for report in memory_reports}
    assert len(digests) == len(memory_reports)


def test_the_same_seed_is_the_same_run_in_sqlite(sqlite_store: MakeStore) -> None:
    one, two = (simulate(Scenario(8), sqlite_store).log.digest() for _ in range(2))
    assert one == two


@pytest.mark.parametrize("seed", TRACE_SEEDS)
@pytest.mark.parametrize("faults", [False, True])
def test_the_same_trace_has_the_same_answers(
    seed: int, faults: bool, sqlite_store: MakeStore
) -> None:
    log = simulate(Scenario(seed, faults=faults), memory_store).log
    in_memory, in_sqlite = replay(log, memory_store), replay(log, sqlite_store)
    assert not next(in_memory.differences(in_sqlite), None)


def test_a_difference_between_stores_is_told() -> None:
    log = simulate(Scenario(8, faults=False), memory_store).log
    sound, broken = replay(log, memory_store), replay(log, ServesTheWrongOrder)
    assert next(sound.differences(sound), None) is None
    assert next(sound.differences(broken), None) is not None


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_broken_store_is_found_out(mutant: type[Sound]) -> None:
    steps = MUTANT_STEPS.get(mutant, 300)
    for seed in MUTANT_SEEDS:
        violation = simulate(Scenario(seed, steps=steps), mutant).violation
        if violation is not None:
            assert violation.promise in MUTANTS[mutant], violation
            return
    pytest.fail(f"{mutant.__name__} breaks {set(MUTANTS[mutant])}, and nobody noticed")


def test_a_failing_run_is_shrunk_and_explained() -> None:
    failing = first_failure(DropsTheFence)
    shrinker = Shrinker(DropsTheFence, failing, runs=drawn(60))
    strikes_before = len(shrinker.report.strikes)
    report = shrinker.shrink()

    assert report.violation is not None
    assert shrinker.scenario.steps < failing.steps
    assert len(report.strikes) < strikes_before
    assert simulate(shrinker.scenario, DropsTheFence).log.digest() == report.log.digest()
    assert f"--seed {failing.seed} --steps {shrinker.scenario.steps}" in report.explain()
    assert repr(report.violation.job_id) in report.explain()


def test_a_sound_run_cannot_be_shrunk() -> None:
    with pytest.raises(ValueError, match="keeps every promise"):
        Shrinker(memory_store, Scenario(seed=1, steps=50))


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_one_seed_is_replayed_from_the_shell(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--seed", "7", "--count", "2", "--steps", "60", "--store", store]) == 0
    assert "seed 8: all promises kept" in capsys.readouterr().out


def first_failure(mutant: type[Sound]) -> Scenario:
    for seed in MUTANT_SEEDS:
        scenario = Scenario(seed, steps=300)
        if simulate(scenario, mutant).violation is not None:
            return scenario
    raise AssertionError(f"{mutant.__name__} was not found out")
