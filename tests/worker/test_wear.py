"""When a worker is worn out."""

from __future__ import annotations

from leasehold.worker.stopping import StopReason
from leasehold.worker.wear import ALL_STUCK_SECONDS_MAX, HALF_STUCK_SECONDS_MAX, Wear


def reason(wear: Wear, now: float, stuck: int) -> StopReason | None:
    return wear.reason(now, started_jobs=0, stuck=stuck)


def test_code_that_was_told_to_stop_gets_a_moment_in_which_to_do_so() -> None:
    wear = Wear(slots=1, max_jobs=None, max_memory_mb=None)
    assert reason(wear, 100.0, stuck=1) is None
    assert wear.next_moment() == 100.0 + ALL_STUCK_SECONDS_MAX
    assert reason(wear, 101.0, stuck=0) is None
    assert wear.next_moment() == float("inf")


def test_all_slots_stuck_wear_a_worker_out_soon() -> None:
    wear = Wear(slots=2, max_jobs=None, max_memory_mb=None)
    assert reason(wear, 100.0, stuck=3) is None
    assert reason(wear, 100.0 + ALL_STUCK_SECONDS_MAX, stuck=2) is StopReason.STUCK
    wear.stuck_were_replaced()
    assert wear.next_moment() == float("inf")


def test_half_of_them_wear_it_out_later() -> None:
    wear = Wear(slots=4, max_jobs=None, max_memory_mb=None)
    assert reason(wear, 100.0, stuck=1) is None
    assert wear.next_moment() == float("inf")
    assert reason(wear, 100.0, stuck=2) is None
    assert reason(wear, 100.0 + HALF_STUCK_SECONDS_MAX - 1, stuck=3) is None
    assert reason(wear, 100.0 + HALF_STUCK_SECONDS_MAX, stuck=2) is StopReason.STUCK
