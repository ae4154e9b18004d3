from __future__ import annotations

import math
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.core.model.retry import (
    DELAY_SECONDS_MAX,
    PERMANENT,
    RETRYABLE,
    Constant,
    Delays,
    Exponential,
    Linear,
    RetryPolicy,
    is_retryable,
)
from leasehold.errors import JobTimeoutError, PermanentError, RetryableError

numbers = st.floats(0, DELAY_SECONDS_MAX)
policies: st.SearchStrategy[RetryPolicy] = st.one_of(
    st.builds(Exponential, numbers, numbers, numbers, numbers),
    st.builds(Linear, numbers, numbers, numbers),
    st.builds(Constant, numbers),
    st.builds(Delays, st.lists(numbers, min_size=1, max_size=5).map(tuple)),
)
attempts = st.integers(1, 1_000_001)


def upper_bound(policy: RetryPolicy) -> float:
    match policy:
        case Exponential() | Linear():
            return policy.cap_seconds
        case Constant():
            return policy.seconds
        case Delays():
            return max(policy.seconds)


@given(policy=policies, attempt=attempts, seed=st.integers())
def test_a_delay_lies_inside_its_bounds(policy: RetryPolicy, attempt: int, seed: int) -> None:
    delay = policy.delay_seconds(attempt, Random(seed))
    assert 0 <= delay <= upper_bound(policy)


@given(policy=policies)
def test_a_policy_travels_as_data(policy: RetryPolicy) -> None:
    assert msgspec.json.decode(msgspec.json.encode(policy), type=RetryPolicy) == policy


@given(attempt=st.integers(1, 8), seed=st.integers())
def test_the_default_doubles_with_a_tenth_of_jitter(attempt: int, seed: int) -> None:
    base = 2.0 ** (attempt - 1)
    assert base <= Exponential().delay_seconds(attempt, Random(seed)) <= base * 1.1


def test_exponential_without_jitter() -> None:
    policy = Exponential(initial_seconds=3, factor=10, jitter=0, cap_seconds=1000)
    assert [policy.delay_seconds(n, Random(1)) for n in (1, 2, 3, 4)] == [3, 30, 300, 1000]


def test_exponential_beyond_every_float_is_the_cap() -> None:
    assert Exponential(factor=1e7).delay_seconds(1_000_000, Random(1)) == 300
    assert Exponential(initial_seconds=0, factor=1e7).delay_seconds(1_000_000, Random(1)) == 0


def test_linear() -> None:
    policy = Linear(initial_seconds=1, step_seconds=2, cap_seconds=4)
    assert [policy.delay_seconds(n, Random(1)) for n in (1, 2, 3)] == [1, 3, 4]


def test_delays_repeat_the_last() -> None:
    policy = Delays((1, 10, 60))
    assert [policy.delay_seconds(n, Random(1)) for n in (1, 2, 3, 4, 99)] == [1, 10, 60, 60, 60]


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf, DELAY_SECONDS_MAX + 1])
def test_what_is_no_delay_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="must be a number between 0"):
        Constant(bad)
    with pytest.raises(ValueError, match="must be a number between 0"):
        Exponential(initial_seconds=bad)
    with pytest.raises(ValueError, match="must be a number between 0"):
        Delays((1, bad))
    with pytest.raises(ValueError, match="at least one"):
        Delays(())


class OwnTimeoutError(ValueError, TimeoutError):
    pass


class HopelessError(ConnectionError):
    pass


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (PermanentError(), False),
        (KeyError("x"), False),
        (UnicodeDecodeError("utf-8", b"", 0, 1, ""), False),
        (ModuleNotFoundError(), False),
        (RetryableError("later"), True),
        (ConnectionResetError(), True),
        (TimeoutError(), True),
        (JobTimeoutError(), True),
        (RuntimeError(), True),
        (ZeroDivisionError(), True),
        (OwnTimeoutError(), False),  # its nearest listed class comes first
    ],
)
def test_which_failures_are_retried(error: BaseException, expected: bool) -> None:
    assert is_retryable(error) is expected


def test_a_task_may_change_the_lists() -> None:
    assert is_retryable(KeyError("x"), permanent=(), retryable=())
    assert not is_retryable(HopelessError(), permanent=(*PERMANENT, HopelessError))
    assert is_retryable(KeyError("x"), retryable=(*RETRYABLE, KeyError))
