"""What is said of a failure's trend, and of what a deploy did to it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from leasehold.core.model.failure import FailedAttempt, Failure, what_failed
from leasehold.core.model.outcome import JobError
from leasehold.core.model.pins import Pin
from leasehold.dashboard.deploys import since
from leasehold.dashboard.trend import Trend, trend_of

NOON = datetime(2030, 1, 5, 12, 30, tzinfo=UTC)
WHAT = what_failed(FailedAttempt("q", "t", "job", JobError("Odd", "no")))


def failed(*attempts_by_hours_ago: tuple[float, int]) -> Failure:
    """A failure that happened so many times, so many hours ago, the oldest first."""
    found: Failure | None = None
    for hours, attempts in attempts_by_hours_ago:
        new = Failure.of(WHAT, ["job"] * attempts, NOON - timedelta(hours=hours))
        found = new if found is None else found.then(new)
    assert found is not None
    return found


def mark(hours_ago: float) -> Pin:
    return Pin(kind="deploy", name="v1", at=NOON - timedelta(hours=hours_ago), by="me")


def test_what_a_deploy_did_to_a_failure() -> None:
    steady = [(hours, 10) for hours in range(20, -1, -1)]
    worse = [(hours, 10 if hours > 3 else 40) for hours in range(20, -1, -1)]
    assert since(failed((1, 9)), mark(2), NOON) == "new"
    assert since(failed((9, 1), (3, 9)), mark(2), NOON) == "gone"
    assert since(failed(*steady), mark(3), NOON) == "still there"
    assert since(failed(*worse), mark(3), NOON) == "growing"
    assert since(failed((20, 1), (1, 4)), mark(3), NOON) == "still there", "too few to say so"
    assert since(failed((20, 1), (1, 5)), mark(3), NOON) == "growing"
    long_ago = failed(*((hours, 1) for hours in range(90, -1, -1)))
    assert since(long_ago, mark(80), NOON) == "still there", "what was before is forgotten"


def test_a_trend_ends_now() -> None:
    trend = trend_of(failed((3, 2), (1, 4)), NOON, 5)
    assert trend == Trend((0, 2, 0, 4, 0))
    assert trend.words == "0 in this hour, 6 in the last 5 hours"
    assert trend_of(failed((200, 1)), NOON, 3) == Trend((0, 0, 0))
    assert Trend((0, 0)).bars == ""
