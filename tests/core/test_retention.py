"""The rules of retention: what is old, how much at a time, how often."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.core.model.archive import RESULT_SUMMARY_CHARS, error_summary, summary_of
from leasehold.core.model.outcome import JobError
from leasehold.core.model.queue_retention import is_worth_it
from leasehold.core.model.retention import (
    BATCH_MAX,
    BATCH_MIN,
    DAILY,
    DAY_SECONDS,
    LOCK_SECONDS,
    LOCK_SHARE,
    MEMORY_RETENTION,
    CleanUp,
    CleanUpMode,
    RetentionPolicy,
    Scope,
    day_of,
    due_at,
    next_batch_size,
    pause_seconds,
)
from leasehold.core.model.status import Status
from leasehold.errors import InvalidRetentionError

NOW = datetime(2030, 5, 5, 12, tzinfo=UTC)
EMERGENCY = Scope(emergency=True)

moments = st.integers(10**9, 4 * 10**9).map(lambda second: datetime.fromtimestamp(second, UTC))
limits = st.none() | st.floats(0, 1e8)
policies = st.builds(
    RetentionPolicy, completed_seconds=limits, cancelled_seconds=limits, dead_seconds=limits
)


def record(started_at: datetime = NOW, ended_at: datetime | None = NOW) -> CleanUp:
    return CleanUp(
        run=1,
        mode=CleanUpMode.DAILY,
        actor="me",
        started_at=started_at,
        active_at=started_at,
        ended_at=ended_at,
    )


def test_the_defaults_are_the_promised_ones() -> None:
    policy = RetentionPolicy()
    assert policy.completed_seconds == 7 * DAY_SECONDS
    assert policy.cancelled_seconds == DAY_SECONDS
    assert policy.dead_seconds is None
    assert policy.archive_seconds == 90 * DAY_SECONDS
    assert policy.history_events_max == 100_000
    memory = MEMORY_RETENTION
    limits = (memory.completed_seconds, memory.dead_seconds, memory.cancelled_seconds)
    assert limits == (3600, 7200, 1800)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("completed_seconds", -1),
        ("completed_seconds", float("nan")),
        ("dead_seconds", float("inf")),
        ("cancelled_seconds", "1 day"),
        ("archive_seconds", True),
        ("interval_seconds", 0),
        ("history_events_max", -1),
        ("history_events_max", 1.5),
        ("worth_cleaning", None),
    ],
)
def test_nonsense_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(InvalidRetentionError, match=field):
        RetentionPolicy(**{field: value})  # type: ignore[arg-type]


@given(policies, moments)
def test_dead_letters_are_taken_only_where_somebody_said_so(
    policy: RetentionPolicy, now: datetime
) -> None:
    for scope in (DAILY, Scope(force=True), EMERGENCY):
        assert (Status.DEAD in policy.cutoffs(now, scope)) == (policy.dead_seconds is not None)
    assert policy.cutoffs(now, Scope(emergency=True, dead=True))[Status.DEAD] == now


@given(policies, moments)
def test_only_what_has_ended_is_ever_taken_and_an_emergency_takes_more(
    policy: RetentionPolicy, now: datetime
) -> None:
    usual, emergency = policy.cutoffs(now, DAILY), policy.cutoffs(now, EMERGENCY)
    assert all(status.is_terminal for status in emergency)
    assert all(cutoff <= emergency[status] <= now for status, cutoff in usual.items())
    assert emergency[Status.COMPLETED] == emergency[Status.CANCELLED] == now


@given(st.integers(1, BATCH_MAX), st.integers(0, BATCH_MAX), st.floats(0, 10))
def test_a_batch_stays_within_its_bounds(size: int, taken: int, lock_seconds: float) -> None:
    after = next_batch_size(size, taken, lock_seconds)
    assert 1 <= after <= max(size, BATCH_MAX)
    assert after <= max(2 * size, BATCH_MIN)
    if taken and lock_seconds > LOCK_SECONDS:
        assert after <= max(BATCH_MIN, taken)


@given(st.floats(1e-6, 1e-3), st.integers(1, BATCH_MAX))
def test_batches_settle_at_the_wanted_lock_time(seconds_per_job: float, size: int) -> None:
    for _ in range(12):
        size = next_batch_size(size, size, size * seconds_per_job)
    fits = size * seconds_per_job
    assert fits <= LOCK_SECONDS * 1.01 or size == BATCH_MIN
    assert size in (BATCH_MIN, BATCH_MAX) or fits >= LOCK_SECONDS / 2


@given(st.floats(0, 10))
def test_the_lock_is_left_to_others_most_of_the_time(lock_seconds: float) -> None:
    pause = pause_seconds(lock_seconds, DAILY)
    assert lock_seconds <= (lock_seconds + pause) * LOCK_SHARE * 1.0001
    assert pause_seconds(lock_seconds, EMERGENCY) == 0


def test_it_is_due_a_day_after_the_last_one_began() -> None:
    policy = RetentionPolicy()
    assert due_at(policy, None, NOW) == NOW
    assert due_at(policy, record(), NOW) == NOW + timedelta(days=1)
    assert due_at(policy, record(ended_at=None), NOW) == NOW + timedelta(minutes=1)
    assert due_at(RetentionPolicy(interval_seconds=None), record(), NOW) is None


def test_worth_it_counts_what_the_policy_would_take() -> None:
    policy = RetentionPolicy(worth_cleaning=10)
    assert is_worth_it(policy, {Status.COMPLETED: 9, Status.CANCELLED: 1, Status.DEAD: 0})
    assert not is_worth_it(policy, {Status.COMPLETED: 9, Status.DEAD: 100, Status.PENDING: 100})


@given(moments, st.floats(1, 1e8))
def test_the_archive_keeps_a_day_until_all_of_it_is_old(now: datetime, seconds: float) -> None:
    first = RetentionPolicy(archive_seconds=seconds).oldest_day(now)
    assert first is not None
    start_of_first = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=first)
    assert start_of_first <= now - timedelta(seconds=seconds) < start_of_first + timedelta(days=1)


def test_no_archive_and_an_endless_one() -> None:
    assert RetentionPolicy(archive_seconds=0).oldest_day(NOW) == day_of(NOW) + 1
    assert RetentionPolicy(archive_seconds=None).oldest_day(NOW) is None


@given(st.text())
def test_a_summary_is_the_beginning_of_the_result(text: str) -> None:
    summary = summary_of(text.encode(errors="surrogatepass"), "json")
    assert summary is not None
    assert len(summary) <= RESULT_SUMMARY_CHARS
    if text.isprintable():
        assert summary == text[:RESULT_SUMMARY_CHARS]
    assert summary_of(None, "json") is summary_of(b"...", "pickle") is None


def test_an_error_is_kept_without_its_traceback() -> None:
    assert error_summary(JobError("E", "m" * 600, "trace")) == JobError("E", "m" * 500)
    assert error_summary(None) is None
