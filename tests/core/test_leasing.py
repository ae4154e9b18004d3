"""The walk of a lease, job by job."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from leasehold.core.model.breaker import Breaker, BreakerState
from leasehold.core.model.budget import TURNED_AWAY_AT_ONCE
from leasehold.core.model.limits import UNLIMITED
from leasehold.core.model.queue_config import QueueConfig
from leasehold.core.rules.leasing import OpenLane, OpenQueue, Verdict, Walk, open_lane

NOW = 1_000_000


def walk(limit: int, queues: Iterable[OpenQueue], *, free: int = 0, late_max: int = 5) -> Walk:
    return Walk(NOW, limit, queues, lambda _queue, _key: free, late_max)


def test_what_was_never_started_in_time_is_cancelled_and_what_was_once_leased_is_not() -> None:
    queue = OpenQueue("q")
    lane = OpenLane(queue, "t")
    going = walk(9, [queue])
    assert going.judge(lane, NOW - 1, 0, None) is Verdict.CANCEL
    assert going.judge(lane, NOW, 0, None) is Verdict.TAKE
    assert going.judge(lane, NOW - 1, 3, None) is Verdict.TAKE
    assert not going.is_over


def test_late_jobs_of_a_full_queue_are_left_to_the_sweep() -> None:
    full, other = OpenQueue("full", free=1), OpenQueue("other")
    lane = OpenLane(full, "t")
    going = walk(9, [full, other])
    assert going.judge(lane, None, 0, None) is Verdict.TAKE
    assert going.judge(lane, NOW - 1, 0, None) is Verdict.PASS


def test_late_jobs_end_a_walk_when_they_are_too_many() -> None:
    queue = OpenQueue("q")
    going = walk(9, [queue], late_max=2)
    for is_over in (False, True):
        assert going.judge(OpenLane(queue, "t"), 0, 0, None) is Verdict.CANCEL
        assert (going.is_over, going.is_cut_short) == (is_over, is_over)


def test_a_full_queue_is_passed_over_and_the_others_go_on() -> None:
    full, other = OpenQueue("full", free=1), OpenQueue("other")
    in_full, in_other = OpenLane(full, "t"), OpenLane(other, "t")
    going = walk(9, [full, other])
    assert going.judge(in_full, None, 0, None) is Verdict.TAKE
    assert not in_full.is_open
    assert going.judge(in_full, None, 0, None) is Verdict.PASS
    assert going.judge(in_other, None, 0, None) is Verdict.TAKE


def test_where_every_queue_is_limited_the_last_slot_ends_the_walk() -> None:
    one, two = OpenQueue("one", free=1), OpenQueue("two", free=1)
    going = walk(9, [one, two])
    for queue in (one, two):
        assert not going.is_over
        assert going.judge(OpenLane(queue, "t"), None, 0, None) is Verdict.TAKE
    assert going.is_over
    assert not going.is_cut_short


def test_jobs_of_a_full_key_are_parked_and_too_many_of_them_end_the_walk() -> None:
    queue = OpenQueue("q", config=QueueConfig(key_concurrency=1))
    lane = OpenLane(queue, "t")
    going = walk(9, [queue], free=2)
    verdicts = [going.judge(lane, None, 0, "k") for _ in range(2 + TURNED_AWAY_AT_ONCE)]
    assert verdicts[:2] == [Verdict.TAKE] * 2
    assert set(verdicts[2:]) == {Verdict.PARK}
    assert going.is_cut_short
    assert going.judge(lane, None, 0, None) is Verdict.TAKE


def test_keys_do_not_count_where_nothing_limits_them() -> None:
    queue = OpenQueue("q")
    going = walk(9, [queue], free=0)
    assert going.judge(OpenLane(queue, "t"), None, 0, "k") is Verdict.TAKE


def test_a_breaker_lets_nothing_through_then_one_job_and_no_other_for_a_pause() -> None:
    rule = Breaker(failures=2, pause_seconds=1)
    state = BreakerState().failed(rule, NOW)
    assert state.is_closed
    state = state.failed(rule, NOW)
    queue = OpenQueue("q")
    assert open_lane(queue, "t", state, NOW) is None
    assert state.next_probe_at(NOW) == NOW + 1_000_000
    later = NOW + 1_000_000
    lane = open_lane(queue, "t", state, later)
    assert lane is not None
    going = Walk(later, 9, [queue], lambda _queue, _key: 0)
    assert going.judge(lane, None, 0, None) is Verdict.TAKE
    assert going.judge(lane, None, 0, None) is Verdict.PASS
    assert not lane.is_open
    state = state.probed(later)
    assert open_lane(queue, "t", state, later) is None
    assert state.next_probe_at(later) == later + 1_000_000


@pytest.mark.parametrize("limit", [3, 9])
@pytest.mark.parametrize("free", [0, 2, 5, UNLIMITED])
@pytest.mark.parametrize(
    "config", [QueueConfig(), QueueConfig(key_concurrency=1), QueueConfig(starts_per_second=1)]
)
@pytest.mark.parametrize("probe", [None, BreakerState(failures_in_row=1)])
def test_plain_jobs_taken_together_are_those_taken_one_by_one(
    limit: int, free: int, config: QueueConfig, probe: BreakerState | None
) -> None:
    def begin() -> tuple[OpenQueue, OpenLane, Walk]:
        queue = OpenQueue("q", free, config)
        going = Walk(NOW, limit, [queue], lambda _queue, _key: 0, free_slots=1)
        return queue, OpenLane(queue, "t", probe), going

    queue, lane, going = begin()
    together = going.plain_left(lane)
    going.took(lane, together)
    other_queue, other_lane, other = begin()
    one_by_one = 0
    while not other.is_over and other.judge(other_lane, None, 0, None) is Verdict.TAKE:
        one_by_one += 1
    if probe is not None or config.starts_per_second is not None:
        assert not together  # Each of these has to be judged.
    else:
        assert (together, queue.free) == (one_by_one, other_queue.free)
        assert going.is_over == other.is_over
