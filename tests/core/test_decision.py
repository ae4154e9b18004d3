from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.core.model.outcome import (
    Cancel,
    Complete,
    Fail,
    JobError,
    Outcome,
    Release,
    Retry,
    Snooze,
)
from leasehold.core.model.retry import DELAY_SECONDS_MAX, Constant, RetryPolicy
from leasehold.core.model.status import TERMINAL, Event, Status, allowed
from leasehold.core.rules.decision import Decision, decide, decide_recovery

NOW = datetime(2030, 1, 1, tzinfo=UTC)
ERROR = JobError("OSError", "bad luck")

outcomes: st.SearchStrategy[Outcome] = st.one_of(
    st.just(Complete(b"1")),
    st.builds(Fail, st.just(ERROR), st.booleans(), st.none() | st.floats()),
    st.builds(Snooze, st.floats(0, 1000)),
    st.builds(Release, st.floats(0, 1000)),
    st.builds(Cancel, st.text()),
)
spent = st.integers(1, 5).flatmap(lambda n: st.tuples(st.just(n), st.integers(n, 6)))


def decision(
    outcome: Outcome,
    *,
    attempts: int = 1,
    allowance: int = 4,
    policy: RetryPolicy | None = None,
    cancel_reason: str | None = None,
) -> Decision:
    return decide(
        outcome,
        attempts=attempts,
        allowance=allowance,
        policy=policy,
        cancel_reason=cancel_reason,
        now=NOW,
        random=Random(1),
    )


@given(outcome=outcomes, spent=spent, reason=st.none() | st.text())
def test_every_decision_is_allowed_by_the_table(
    outcome: Outcome, spent: tuple[int, int], reason: str | None
) -> None:
    attempts, allowance = spent
    made = decision(outcome, attempts=attempts, allowance=allowance, cancel_reason=reason)
    assert made.status in allowed(made.event, Status.RUNNING)
    assert made.attempts in (attempts, attempts - 1)
    # What is not over must have an attempt left, and what waits a time to wait for.
    assert made.status in TERMINAL or made.attempts < allowance
    assert (made.run_at is not None) == (made.status in (Status.FAILED, Status.SCHEDULED))
    assert made.run_at is None or NOW <= made.run_at <= NOW + timedelta(seconds=DELAY_SECONDS_MAX)


@given(outcome=outcomes, spent=spent, reason=st.text())
def test_whoever_was_asked_to_stop_does_not_go_on(
    outcome: Outcome, spent: tuple[int, int], reason: str
) -> None:
    made = decision(outcome, attempts=spent[0], allowance=spent[1], cancel_reason=reason)
    ended = Status.COMPLETED if isinstance(outcome, Complete) else Status.CANCELLED
    assert made.status is ended


@given(spent=spent, reason=st.none() | st.text())
def test_every_recovery_is_allowed_by_the_table(spent: tuple[int, int], reason: str | None) -> None:
    attempts, allowance = spent
    made = decide_recovery(attempts=attempts, allowance=allowance, cancel_reason=reason)
    assert made.status in allowed(made.event, Status.RUNNING)
    assert made.attempts == attempts
    assert made.status in TERMINAL or attempts < allowance
    assert (made.status is Status.CANCELLED) == (reason is not None)


def test_complete() -> None:
    assert decision(Complete()) == Decision(
        Event.COMPLETED, Status.COMPLETED, 1, ("completed",), has_run=True
    )


def test_a_failure_is_retried_until_the_allowance_is_used_up() -> None:
    policy = Constant(7)
    said = "OSError: bad luck"
    made = decision(Fail(ERROR), attempts=3, allowance=4, policy=policy)
    due = NOW + timedelta(seconds=7)
    assert made == Decision(
        Event.FAILED, Status.FAILED, 3, ("failed", "retried"), said, ERROR, due, has_run=True
    )
    made = decision(Fail(ERROR), attempts=4, allowance=4, policy=policy)
    assert made == Decision(
        Event.DEAD, Status.DEAD, 4, ("failed", "dead"), said, ERROR, has_run=True
    )


def test_a_permanent_failure_is_not_retried() -> None:
    assert decision(Fail(ERROR, retryable=False)).status is Status.DEAD


def test_a_failure_may_name_its_own_delay() -> None:
    made = decision(Fail(ERROR, retry_after_seconds=90), policy=Constant(7))
    assert made.run_at == NOW + timedelta(seconds=90)


@pytest.mark.parametrize("silly", [math.nan, -5.0])
def test_a_silly_delay_is_none(silly: float) -> None:
    assert decision(Fail(ERROR, retry_after_seconds=silly)).run_at == NOW


def test_without_a_policy_the_default_backs_off() -> None:
    made = decision(Fail(ERROR), attempts=3)
    assert made.run_at is not None
    assert 4 <= (made.run_at - NOW).total_seconds() <= 4.4


def test_snooze_and_release_take_the_attempt_back() -> None:
    due = NOW + timedelta(seconds=9)
    assert decision(Snooze(9, "busy"), attempts=2) == Decision(
        Event.SNOOZED, Status.SCHEDULED, 1, message="busy", run_at=due
    )
    assert decision(Release(9, "stop"), attempts=2) == Decision(
        Event.RELEASED, Status.SCHEDULED, 1, message="stop", run_at=due
    )
    assert decision(Release(), attempts=2) == Decision(Event.RELEASED, Status.PENDING, 1)


def test_the_tasks_own_reason_comes_first() -> None:
    assert decision(Cancel("sold out"), cancel_reason="asked").message == "sold out"
    assert decision(Cancel(), cancel_reason="asked").message == "asked"


def test_recovery_says_why_a_job_is_dead() -> None:
    made = decide_recovery(attempts=4, allowance=4, cancel_reason=None)
    assert made.status is Status.DEAD
    assert made.message == "its worker was lost, and no attempts are left"


def test_retry_is_a_failure_with_a_delay() -> None:
    failure = Retry(after=30, reason="not yet").as_failure()
    assert (failure.retryable, failure.retry_after_seconds) == (True, 30)
    assert failure.error == JobError("Retry", "not yet")
    assert Retry().as_failure().retry_after_seconds is None


@pytest.mark.parametrize("seconds", [-1.0, math.nan, math.inf])
def test_a_delay_must_be_one(seconds: float) -> None:
    with pytest.raises(ValueError, match="Snooze"):
        Snooze(seconds)
    with pytest.raises(ValueError, match="Release"):
        Release(seconds)
    with pytest.raises(ValueError, match="Retry"):
        Retry(seconds)
