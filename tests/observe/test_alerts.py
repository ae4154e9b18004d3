"""The alert rules: at, below and above each limit, and without a figure."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold import TaskQueue
from leasehold.env import Env, ManualClock
from leasehold.observe.alerts import RULES, BacklogChange, QueueFigures, alerts
from leasehold.observe.findings import Finding, Level, worst
from leasehold.queue.health import findings_of

QUIET: dict[str, Any] = {
    "pending": 1,
    "workers": 1,
    "max_depth": 100,
    "oldest_pending_seconds": 1.0,
    "dead_per_minute": 0.0,
    "attempts": 1000,
    "failure_rate": 0.0,
    "leased": 1000,
    "wait_p50_seconds": 1.0,
    "wait_p99_seconds": 1.0,
    "stretches": (),
}
GROWN = (BacklogChange(0, 100, 1000), BacklogChange(100, 200, 1000), BacklogChange(200, 300, 1000))
PAUSED = {"paused": True, "paused_seconds": 0.0}
DEEP = {"pending": 300, "max_depth": None}


def levels(**figures: Any) -> dict[str, str]:
    found = alerts(QueueFigures(queue="q", **{**QUIET, **figures}))
    return {finding.check: finding.level.value for finding in found}


def test_a_quiet_queue_is_ok() -> None:
    assert set(levels().values()) == {"ok"}


@pytest.mark.parametrize(
    ("check", "figures", "level"),
    [
        ("dead_letter_rate", {"dead_per_minute": 10.0}, "ok"),
        ("dead_letter_rate", {"dead_per_minute": 10.1}, "critical"),
        ("no_worker", {"workers": 0, "oldest_pending_seconds": 10.0}, "ok"),
        ("no_worker", {"workers": 0, "oldest_pending_seconds": 10.1}, "warning"),
        ("no_worker", {"workers": 0, "oldest_pending_seconds": 300.0}, "warning"),
        ("no_worker", {"workers": 0, "oldest_pending_seconds": 300.1}, "critical"),
        (
            "no_worker",
            {"workers": 0, "oldest_pending_seconds": 999.0, "paused": True, "paused_seconds": 0.0},
            "ok",
        ),
        ("no_worker", {"workers": 0, "oldest_pending_seconds": 999.0, "pending": 0}, "ok"),
        ("no_worker", {"workers": 1, "oldest_pending_seconds": 999.0}, "ok"),
        ("paused", {"paused": True, "paused_seconds": 1800.0}, "ok"),
        ("paused", {"paused": True, "paused_seconds": 1800.1}, "warning"),
        ("paused", {"paused": True, "paused_seconds": 1800.1, "pending": 0}, "ok"),
        ("paused", {"paused": False, "paused_seconds": 1800.1}, "ok"),
        ("failure_rate", {"failure_rate": 0.05}, "ok"),
        ("failure_rate", {"failure_rate": 0.051}, "warning"),
        ("failure_rate", {"failure_rate": 1.0, "attempts": 19}, "ok"),
        ("failure_rate", {"failure_rate": 1.0, "attempts": 20}, "warning"),
        ("depth", {"pending": 80}, "ok"),
        ("depth", {"pending": 81}, "warning"),
        ("depth", {"pending": 10**9, "max_depth": None}, "ok"),
        ("growing", {**DEEP, "stretches": GROWN}, "warning"),
        ("growing", {**DEEP, "stretches": GROWN, "pending": 100}, "warning"),
        ("growing", {**DEEP, "stretches": GROWN, "pending": 99}, "ok"),
        ("growing", {**DEEP, "stretches": GROWN[1:]}, "ok"),
        ("growing", {**DEEP, "stretches": (BacklogChange(0, 99, 1000), *GROWN[1:])}, "ok"),
        ("growing", {**DEEP, "stretches": (*GROWN[:2], BacklogChange(200, 299, 1000))}, "ok"),
        ("growing", {**DEEP, "stretches": (*GROWN[:2], BacklogChange(200, 200, 0))}, "ok"),
        ("growing", {**DEEP, "stretches": (*GROWN[:2], BacklogChange(200, 201, 0))}, "warning"),
        ("growing", {**DEEP, **PAUSED, "stretches": GROWN}, "ok"),
        ("growing", {**DEEP, "stretches": GROWN, "workers": 0}, "ok"),
        ("long_waits", {"wait_p99_seconds": 10.0}, "ok"),
        ("long_waits", {"wait_p99_seconds": 10.1}, "warning"),
        ("long_waits", {"wait_p99_seconds": 99.0, "leased": 100}, "warning"),
        ("long_waits", {"wait_p99_seconds": 99.0, "leased": 99}, "ok"),
        ("long_waits", {"wait_p50_seconds": 0.0, "wait_p99_seconds": 0.9}, "ok"),
        ("long_waits", {"wait_p50_seconds": 0.0, "wait_p99_seconds": 1.0}, "warning"),
    ],
)
def test_the_limits(check: str, figures: dict[str, Any], level: str) -> None:
    found = levels(**figures)
    assert found.pop(check) == level
    assert set(found.values()) == {"ok"}


@pytest.mark.parametrize(
    ("check", "missing"),
    [
        ("dead_letter_rate", "dead_per_minute"),
        ("failure_rate", "failure_rate"),
        ("failure_rate", "attempts"),
        ("long_waits", "wait_p50_seconds"),
        ("long_waits", "wait_p99_seconds"),
        ("long_waits", "leased"),
        ("growing", "stretches"),
        ("paused", "paused_seconds"),
    ],
)
def test_a_missing_figure_is_unknown_and_never_ok(check: str, missing: str) -> None:
    assert levels(paused=check == "paused", **{missing: None})[check] == "unknown"


def test_a_pause_that_was_forgotten_is_told_with_who_paused() -> None:
    clock = ManualClock()
    queue = TaskQueue("memory://", num_workers=0, env=Env(clock), actor="cli:root")
    queue.submit("send", queue="mail")
    queue.pause_queue("mail")

    def found() -> Finding:
        return next(each for each in findings_of(queue) if each.check == "paused")

    clock.advance(1700)
    assert found().level is Level.OK
    clock.advance(460)
    forgotten = found()
    assert (forgotten.level, forgotten.queue) == (Level.WARNING, "mail")
    assert forgotten.found == "1 pending job waits; last changed 36m ago by cli:root"
    assert "queuectl queue resume mail" in forgotten.advice


def test_a_full_queue_that_is_paused_needs_no_more_workers() -> None:
    full = {**QUIET, "pending": 99}
    busy, paused = (
        next(each for each in alerts(figures) if each.check == "depth")
        for figures in (
            QueueFigures(queue="mail", **full),
            QueueFigures(queue="mail", paused=True, **full),
        )
    )
    assert "start more workers" in busy.advice
    assert paused.advice == "it is paused, so nothing leaves it: queuectl queue resume mail"


def test_the_name_of_a_queue_is_one_word_of_a_command() -> None:
    wrong = {"pending": 300, "failure_rate": 1.0, "wait_p99_seconds": 999.0, "stretches": GROWN}
    found = alerts(QueueFigures(queue="a; $(reboot)", **{**QUIET, **wrong}))
    advice = [each.advice for each in found if "queuectl" in each.advice]
    assert len(advice) >= 4
    for each in advice:
        assert "'a; $(reboot)'" in each
        assert "reboot" not in each.replace("'a; $(reboot)'", "")


def test_where_nothing_was_leased_nothing_has_waited() -> None:
    assert levels(leased=0, wait_p50_seconds=None, wait_p99_seconds=None)["long_waits"] == "ok"


def test_for_how_long_nobody_serves_a_queue_may_be_unknown() -> None:
    assert levels(workers=0, oldest_pending_seconds=None)["no_worker"] == "unknown"


@given(
    st.builds(
        QueueFigures,
        queue=st.just("q"),
        pending=st.integers(0, 10**9),
        workers=st.integers(0, 100),
        max_depth=st.none() | st.integers(1, 10**9),
        oldest_pending_seconds=st.none() | st.floats(0, 1e9),
        dead_per_minute=st.none() | st.floats(0, 1e9),
        attempts=st.none() | st.integers(0, 10**9),
        failure_rate=st.none() | st.floats(0, 1),
        leased=st.none() | st.integers(0, 10**9),
        wait_p50_seconds=st.none() | st.floats(0, 1e9),
        wait_p99_seconds=st.none() | st.floats(0, 1e9),
        stretches=st.none()
        | st.lists(st.builds(BacklogChange, *[st.integers(0, 10**9)] * 3), max_size=4).map(tuple),
    )
)
def test_every_rule_has_a_word_and_what_is_wrong_says_what_to_do(figures: QueueFigures) -> None:
    found = alerts(figures)
    assert [finding.check for finding in found] == [rule.__name__ for rule in RULES]
    for finding in found:
        wrong = finding.level in (Level.WARNING, Level.CRITICAL)
        assert finding.found
        assert finding.queue == "q"
        assert bool(finding.meaning) == bool(finding.advice) == wrong


def test_the_worst_counts() -> None:
    def finding(level: Level) -> Finding:
        return Finding(check="c", level=level, found="f")

    assert worst([]) is Level.OK
    assert worst(map(finding, (Level.OK, Level.UNKNOWN))) is Level.UNKNOWN
    assert worst(map(finding, (Level.CRITICAL, Level.WARNING, Level.OK))) is Level.CRITICAL
