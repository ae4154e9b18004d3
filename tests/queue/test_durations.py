"""Whatever takes a duration takes seconds, a timedelta or text."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from leasehold import (
    Breaker,
    Constant,
    Delays,
    Every,
    Exponential,
    InvalidJobError,
    InvalidQueueError,
    InvalidWindowError,
    Linear,
    QueueRetention,
    ResultTimeoutError,
    RetentionPolicy,
    Retry,
    RetryableError,
    Snooze,
    TaskQueue,
)
from leasehold.env import ManualClock
from leasehold.testing import drain


def test_durations_are_seconds_timedeltas_or_text(still: TaskQueue) -> None:
    for five_minutes in (300, timedelta(minutes=5), "5m", "300", "4m60s"):
        job = still.submit(
            "work",
            delay=five_minutes,
            timeout_seconds=five_minutes,
            lease_seconds=five_minutes,
            start_within_seconds=five_minutes,
            result_ttl_seconds=five_minutes,
            retry=[five_minutes],
        ).job()
        assert (job.run_at - job.created_at).total_seconds() == 300
        assert job.timeout_seconds == job.lease_seconds == job.result_ttl_seconds == 300
        assert repr(job.retry) in ("Delays(seconds=(300,))", "Delays(seconds=(300.0,))")
    assert (
        still.task(name="hourly", timeout_seconds="1h")(print).submit().job().timeout_seconds
        == 3600
    )
    with pytest.raises(InvalidJobError, match=r'timeout_seconds must be seconds, .* "5m", not'):
        still.submit("work", timeout_seconds="soon")


def test_intervals_and_waits_take_them_too(still: TaskQueue) -> None:
    still.every("1h", name="hourly")(still.task(name="tick")(print))
    assert still.schedules.get("hourly").draft.timing == Every(3600) == Every(timedelta(hours=1))
    with pytest.raises(ResultTimeoutError, match="has not ended within 0 seconds"):
        still.submit("work").result(timeout="0s")


def test_consumers_and_rules_take_them_too(still: TaskQueue, clock: ManualClock) -> None:
    hour = timedelta(hours=1)
    still.submit("work")
    lease = still.lease(wait="0s", lease_seconds="2m")
    assert lease is not None
    assert lease.lease_seconds == 120
    assert still.extend(lease, hour).granted_seconds == 3600
    clock.advance(90)
    assert [each.job_id for each in still.stuck("1m")] == [lease.job_id]
    assert still.stuck(None, running_seconds="2h") == []
    still.requeue(lease, delay="10m")
    assert still.get(lease.job_id).run_at - still.now() == timedelta(minutes=10)
    with pytest.raises(ValueError, match="lease_seconds must be seconds"):
        still.lease(lease_seconds="long")
    config = still.create_queue(
        "mail", lease_seconds="5m", rebalance_interval=hour, retention={"dead_seconds": "7d"}
    ).config
    assert (config.lease_seconds, config.rebalance_interval) == (300, 3600)
    assert config.retention == QueueRetention(dead_seconds=7 * 86_400)
    with pytest.raises(InvalidQueueError, match="lease_seconds must be a number, not 'long'"):
        still.update_queue("mail", lease_seconds="long")
    assert still.metrics(window_seconds="15m").pending == 0
    assert still.settings.set("lease_seconds", hour).value == 3600
    assert still.settings.set("lease_seconds", "1h30m").value == 5400


def test_policies_and_wishes_take_them_too() -> None:
    assert Exponential("1s", cap_seconds="5m") == Exponential(1, cap_seconds=300)
    assert Linear(step_seconds=timedelta(minutes=1)) == Linear(step_seconds=60)
    assert Constant("2m") == Constant(120)
    assert Delays(["1s", timedelta(minutes=1), 300]) == Delays((1, 60, 300))
    assert Breaker(pause_seconds="1m") == Breaker(pause_seconds=60)
    assert RetentionPolicy(dead_seconds="7d") == RetentionPolicy(dead_seconds=604_800)
    assert Snooze("5m") == Snooze(300)
    assert Retry(timedelta(minutes=5)) == Retry(300)
    for policy, given in (
        (Snooze, {"seconds": "soon"}),
        (Constant, {"seconds": "soon"}),
        (Exponential, {"jitter": "1s"}),
    ):
        make: Callable[..., Any] = policy
        with pytest.raises(ValueError, match="must be"):
            make(**given)


def test_an_error_may_say_so_too(still: TaskQueue) -> None:
    @still.task(name="busy")
    def busy() -> None:
        raise RetryableError("try later", retry_after_seconds="10m")

    job = busy.submit()
    drain(still)
    assert job.job().run_at - still.now() == timedelta(minutes=10)


@pytest.mark.parametrize("text", ["9" * 200_000, "9" * 200_000 + "x", "1s" * 100_000 + "x"])
def test_a_long_text_is_read_once(still: TaskQueue, text: str) -> None:
    """Before, a text of 20,000 digits took minutes, in which a server answered nobody."""
    with pytest.raises(InvalidJobError) as refused:
        still.submit("task", delay=text)
    assert len(str(refused.value)) < 200


def test_what_is_longer_than_anything_lasts_finds_nothing(still: TaskQueue) -> None:
    still.submit("task")
    assert still.lease() is not None
    for endless in (math.inf, 1e308, 2**63):
        assert still.stuck(endless) == []
        assert not still.requeue_stuck(None, endless).requeued
    with pytest.raises(InvalidWindowError, match="since is too long ago"):
        still.timeline("pending", since=timedelta(days=999_999))
    with pytest.raises(TypeError, match="job must be a job, its handle or its id"):
        still.get_result([])  # type: ignore[arg-type]
