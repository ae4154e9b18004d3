from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta, timezone
from random import Random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.env import EPOCH, SYSTEM, Env, ManualClock, SystemClock, from_micros, to_micros

moments = st.datetimes(
    # Hypothesis wants the bounds without a zone, and the zones apart.
    min_value=datetime(1900, 1, 1, tzinfo=UTC).replace(tzinfo=None),
    max_value=datetime(9000, 1, 1, tzinfo=UTC).replace(tzinfo=None),
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30))]),
)


@given(moments)
def test_a_moment_survives_being_a_number(moment: datetime) -> None:
    assert from_micros(to_micros(moment)) == moment
    assert from_micros(to_micros(moment)).tzinfo is UTC


@given(moments, moments)
def test_numbers_keep_the_order_of_moments(one: datetime, other: datetime) -> None:
    assert (to_micros(one) < to_micros(other)) == (one < other)


def test_a_manual_clock_stands_until_it_is_turned() -> None:
    clock = ManualClock(datetime(2031, 5, 5, tzinfo=UTC))
    env = Env(clock=clock)
    assert env.now() == env.now() == clock.now() == datetime(2031, 5, 5, tzinfo=UTC)
    clock.advance(1.5)
    assert env.now() == datetime(2031, 5, 5, 0, 0, 1, 500_000, tzinfo=UTC)
    assert clock.monotonic() == 1.5
    clock.step_wall_clock(-3600)
    assert env.now() < datetime(2031, 5, 5, tzinfo=UTC)
    assert clock.monotonic() == 1.5


class Waiter:
    """A thread that waits for ten seconds of a clock, or for news."""

    def __init__(self, clock: ManualClock) -> None:
        self.condition = threading.Condition()
        self.answers: list[bool] = []
        waiting = threading.Event()

        def wait() -> None:
            with self.condition:
                waiting.set()
                self.answers.append(clock.wait(self.condition, 10))

        self.thread = threading.Thread(target=wait)
        self.thread.start()
        assert waiting.wait(30)


def test_turning_the_clock_ends_a_wait() -> None:
    clock = ManualClock()
    waiter = Waiter(clock)
    # The condition is free only once the thread really waits on it.
    with waiter.condition:
        pass
    clock.advance(10)
    waiter.thread.join(30)
    assert waiter.answers == [False]


def test_news_end_a_wait_before_its_time() -> None:
    waiter = Waiter(ManualClock())
    with waiter.condition:
        waiter.condition.notify_all()
    waiter.thread.join(30)
    assert waiter.answers == [True]


def test_a_wait_of_nothing_is_over_at_once() -> None:
    condition = threading.Condition()
    with condition:
        assert not ManualClock().wait(condition, 0)
        assert not SystemClock().wait(condition, 0)


def test_the_system_clock_waits_as_long_as_asked_for() -> None:
    # Longer than a lock can wait must not be an error.
    condition = threading.Condition()
    timer = threading.Thread(target=lambda: _notify(condition))
    with condition:
        timer.start()
        assert SystemClock().wait(condition, 1e15)
    timer.join()


def _notify(condition: threading.Condition) -> None:
    with condition:
        condition.notify_all()


def test_the_system_clock_is_the_worlds() -> None:
    assert abs(SYSTEM.now() - datetime.now(UTC)) < timedelta(minutes=1)
    assert SYSTEM.clock.monotonic() <= SYSTEM.clock.monotonic()


def test_ids_are_uuids_of_version_7_with_the_time_in_front() -> None:
    clock = ManualClock(EPOCH + timedelta(milliseconds=0x0123456789AB, microseconds=999))
    value = UUID(Env(clock=clock, random=Random(1)).new_id())
    assert (value.version, value.variant) == (7, "specified in RFC 4122")
    assert value.int >> 80 == 0x0123456789AB


@pytest.mark.parametrize("step", [0.000001, 0.001, 1, 1e6])
def test_later_ids_sort_later(step: float) -> None:
    clock = ManualClock()
    env = Env(clock=clock, random=Random(1))
    ids = []
    for _ in range(50):
        ids.append(env.new_id())
        clock.advance(step)
    assert ids == sorted(ids)


def test_ids_of_one_moment_differ() -> None:
    env = Env(clock=ManualClock(), random=Random(1))
    assert len({env.new_id() for _ in range(1000)}) == 1000


def test_a_seed_repeats_the_world() -> None:
    one, two = (Env(clock=ManualClock(), random=Random(5)) for _ in range(2))
    assert [one.new_id() for _ in range(3)] == [two.new_id() for _ in range(3)]


def test_secrets_are_not_from_the_seed() -> None:
    one, two = (Env(clock=ManualClock(), random=Random(5)) for _ in range(2))
    assert one.new_secret() != two.new_secret()
    assert len(one.new_secret()) == 32
