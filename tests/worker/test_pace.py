"""When a worker lets more jobs arrive before its next exchange, and when it does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.worker.pace import REST_SECONDS_MAX, REST_SECONDS_MIN, RESTS_PER_EXCHANGE, Pace

moments = st.floats(min_value=0, max_value=1e6)
lengths = st.floats(min_value=0, max_value=10)


def test_the_first_exchange_goes_at_once() -> None:
    assert Pace().rest_seconds(0.0, jobs_arrive=True) <= 0


def test_jobs_that_arrive_right_after_an_exchange_gather() -> None:
    pace = Pace()
    pace.exchanged(10.0, 10.0003, queue_was_emptied=True)
    assert pace.rest_seconds(10.0003, jobs_arrive=True) == pytest.approx(REST_SECONDS_MIN)
    assert pace.rest_seconds(10.0003 + REST_SECONDS_MIN, jobs_arrive=True) <= 0


def test_what_ends_while_nothing_arrives_is_settled_at_once() -> None:
    pace = Pace()
    pace.exchanged(10.0, 10.0005, queue_was_emptied=True)
    assert pace.rest_seconds(10.001, jobs_arrive=False) <= 0


def test_a_queue_that_is_not_empty_is_drained_without_a_rest() -> None:
    pace = Pace()
    pace.exchanged(10.0, 10.0005, queue_was_emptied=False)
    assert pace.rest_seconds(10.001, jobs_arrive=True) <= 0


@given(moments, lengths)
def test_a_rest_is_twice_as_long_as_the_exchange_within_bounds(began: float, length: float) -> None:
    pace = Pace()
    pace.exchanged(began, began + length, queue_was_emptied=True)
    rest_seconds = pace.rest_seconds(began + length, jobs_arrive=True)
    expected = min(max(RESTS_PER_EXCHANGE * length, REST_SECONDS_MIN), REST_SECONDS_MAX)
    assert rest_seconds == pytest.approx(expected, abs=1e-6)
