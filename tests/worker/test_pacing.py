"""The pure parts of the loop: leasing ahead, handing back, and stopping."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from hypothesis import given
from hypothesis import strategies as st

from leasehold.core.model.lease import Lease
from leasehold.worker.inhand import InHand
from leasehold.worker.leases import LeaseManager
from leasehold.worker.prefetch import (
    JOBS_MAX,
    JOBS_MAX_OF_SLOW_STORE,
    RUN_SECONDS_MAX,
    WORK_SECONDS,
    Prefetch,
)
from leasehold.worker.stopping import KILL_SECONDS, LAST_SECONDS, Stopping, StopReason
from leasehold.worker.unrunnable import DELAY_SECONDS_MAX, Unrunnable
from support.child_tasks import add
from support.runs import call_run
from support.workers import MoodyStore, submit_to

if TYPE_CHECKING:
    from leasehold.worker.run import Run


@given(st.integers(1, 64), st.lists(st.floats(0, 0.05), max_size=20))
def test_leasing_ahead_is_bounded_in_number_and_in_time(slots: int, samples: list[float]) -> None:
    prefetch = Prefetch(slots)
    assert prefetch.jobs_ahead == 0
    for seconds in samples:
        prefetch.measured(seconds, 1, seconds)
        assert 0 <= prefetch.jobs_ahead <= JOBS_MAX
    if samples and min(samples) > RUN_SECONDS_MAX:
        assert prefetch.jobs_ahead == 0
    if samples:
        least = max(min(samples), 1e-6)
        assert prefetch.jobs_ahead * least <= slots * WORK_SECONDS * 1.001


def test_slow_runs_end_leasing_ahead_soon_and_a_reset_at_once() -> None:
    prefetch = Prefetch(4)
    prefetch.measured(0.001, 100, 0.00002)
    assert prefetch.jobs_ahead > 0
    prefetch.measured(1.0, 1, 1.0)
    assert prefetch.jobs_ahead == 0
    prefetch = Prefetch(4)
    prefetch.measured(0.001, 100, 0.00002)
    prefetch.reset()
    assert prefetch.jobs_ahead == 0


def test_more_is_leased_ahead_while_the_slots_run_out_of_jobs_during_exchanges() -> None:
    prefetch = Prefetch(8)

    def ahead() -> int:
        prefetch.measured(0.001, 100, 0.00002)
        return prefetch.jobs_ahead

    assert ahead() == JOBS_MAX
    prefetch.more_came(ran_dry=True)
    assert ahead() == 2 * JOBS_MAX
    for _ in range(9):
        prefetch.more_came(ran_dry=True)
    assert ahead() == JOBS_MAX_OF_SLOW_STORE
    prefetch.more_came(ran_dry=False)
    assert JOBS_MAX < ahead() < JOBS_MAX_OF_SLOW_STORE
    for _ in range(99):
        prefetch.more_came(ran_dry=False)
    assert ahead() == JOBS_MAX


def test_slots_that_were_idle_before_an_exchange_began_have_run_out_of_jobs_too() -> None:
    prefetch = Prefetch(8)
    in_hand = InHand(prefetch)

    def ahead() -> int:
        prefetch.measured(0.001, 100, 0.00002)
        return in_hand.jobs_ahead

    in_hand.more_came(asked_at=50.0, ended=0)
    assert ahead() == JOBS_MAX, "nothing was handed over yet"
    in_hand.batch_handed_over(call_run(add, 1, 2).run, 50.0)
    in_hand.more_came(asked_at=50.0 + WORK_SECONDS / 2, ended=0)
    assert ahead() == 2 * JOBS_MAX
    in_hand.more_came(asked_at=50.0 + 2 * WORK_SECONDS, ended=0)
    assert ahead() == 2 * JOBS_MAX, "they had little time left to get their threads"


def test_an_exchange_is_put_off_while_most_of_many_short_jobs_have_yet_to_run() -> None:
    prefetch = Prefetch(8)
    in_hand = InHand(prefetch)
    prefetch.measured(0.001, 100, 0.00002)
    assert in_hand.jobs_ahead == JOBS_MAX
    in_hand.occupying = cast("set[Run]", set(range(JOBS_MAX // 2 + 1)))
    assert in_hand.most_have_yet_to_run
    in_hand.occupying.pop()
    assert not in_hand.most_have_yet_to_run


def test_an_exchange_is_not_put_off_where_jobs_take_time() -> None:
    prefetch = Prefetch(8)
    in_hand = InHand(prefetch)
    prefetch.measured(0.1, 100, 0.001)
    assert 0 < in_hand.jobs_ahead < JOBS_MAX
    in_hand.occupying = cast("set[Run]", set(range(in_hand.jobs_ahead)))
    assert not in_hand.most_have_yet_to_run


def test_one_slow_run_among_many_short_ones_is_remembered_and_forgotten() -> None:
    prefetch = Prefetch(4)
    prefetch.measured(0.3, 1000, 0.29)
    assert prefetch.jobs_ahead == 0
    prefetch.measured(0.001, 100, 0.00002)
    assert prefetch.jobs_ahead == 0
    prefetch.measured(0.003, 300, 0.00002)
    assert prefetch.jobs_ahead > 0


def lease_of(store: MoodyStore, job_id: str) -> Lease:
    submit_to(store, "nobody-knows", id=job_id)
    return LeaseManager(store, "me").acquire()[0]


def test_what_cannot_be_run_is_handed_back_for_longer_each_time(store: MoodyStore) -> None:
    unrunnable = Unrunnable()
    one, other = lease_of(store, "one"), lease_of(store, "other")
    delays = [unrunnable.release(one, "no such task").delay_seconds for _ in range(12)]
    assert delays[:4] == [1, 2, 4, 8]
    assert delays == sorted(delays)
    assert delays[-1] == DELAY_SECONDS_MAX
    assert unrunnable.release(other, "nor this").delay_seconds == 1


def test_a_task_that_comes_to_be_known_is_looked_for_as_any_other(store: MoodyStore) -> None:
    unrunnable = Unrunnable()
    lease = lease_of(store, "one")
    unrunnable.release(lease, "no such task")
    assert unrunnable.lanes() == ((lease.queue, lease.task),)
    unrunnable.take_turn()
    assert unrunnable.lanes() == ()
    unrunnable.release(lease, "still none")
    unrunnable.can_be_run(lease)
    assert unrunnable.lanes() == ()
    assert unrunnable.tasks == {}


def test_a_person_gets_the_grace_and_then_the_rest_back() -> None:
    stopping = Stopping(grace_seconds=30)
    assert not stopping.is_over(0, has_work=False)
    stopping.ask(StopReason.STOPPED)
    assert stopping.begins_now(100)
    assert not stopping.begins_now(101)
    assert not stopping.grace_ends_now(129)
    assert stopping.next_moment(129) == 130
    assert stopping.grace_ends_now(130)
    assert not stopping.grace_ends_now(131)
    assert not stopping.is_last_chance(131)
    assert stopping.is_last_chance(130 + KILL_SECONDS)
    assert not stopping.is_over(131, has_work=True)
    assert stopping.is_over(131, has_work=False)
    assert stopping.is_over(130 + LAST_SECONDS, has_work=True)


def test_hurry_ends_the_grace() -> None:
    stopping = Stopping(grace_seconds=30)
    stopping.hurry()
    assert stopping.begins_now(0)
    assert stopping.grace_ends_now(0)
    assert stopping.reason is StopReason.STOPPED


def test_a_worn_worker_waits_as_long_as_it_takes_until_a_person_asks() -> None:
    stopping = Stopping(grace_seconds=30)
    stopping.ask(StopReason.MAX_JOBS)
    assert stopping.is_asked
    assert not stopping.begins_now(0)
    assert not stopping.grace_ends_now(1e9)
    stopping.ask(StopReason.STOPPED)
    assert stopping.begins_now(1e9)
    assert stopping.reason is StopReason.STOPPED
    stopping.ask(StopReason.MAX_MEMORY)
    assert stopping.reason is StopReason.STOPPED


def test_only_worn_workers_ask_to_be_started_anew() -> None:
    assert [reason for reason in StopReason if reason.recycled] == [
        StopReason.MAX_JOBS,
        StopReason.MAX_MEMORY,
        StopReason.STUCK,
    ]
