"""CLK-1 to CLK-3: the store's clock while the clocks of the machine disagree."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta

from leasehold.core.contract.store import Store
from leasehold.core.model.lease import Renewal, Renewed
from leasehold.core.model.outcome import Complete
from leasehold.core.model.status import Status
from leasehold.env import ManualClock
from leasehold.testing.conformance.base import (
    ConformanceBase,
    assert_history_replays,
    draft,
    get,
    lease_all,
    lease_one,
    settle,
    submit,
)
from leasehold.testing.conformance.recovering import worker_info

HOUR = 3600
YEARS = 14 * 365 * 24 * HOUR
DAYS = 3 * 24 * HOUR


def confirm(store: Store, clock: ManualClock) -> None:
    """Let the store see a jump for as long as it doubts it."""
    store.promote()
    clock.advance(61)
    store.promote()


class ClockClauses(ConformanceBase):
    def test_clk_1_one_bad_reading_does_no_harm(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("before"))
        begun = store.now()
        clock.step_wall_clock(YEARS)
        submit(store, draft("meanwhile", delay_seconds=10))
        lease = lease_one(store, lease_seconds=60)
        assert store.now() == begun
        clock.step_wall_clock(-YEARS)
        clock.advance(10)
        assert [each.job_id for each in lease_all(store)] == ["meanwhile"]
        clock.advance(50)
        assert store.now() == begun + timedelta(seconds=60)
        assert store.recover().recovered == 1
        assert get(store, lease.job_id).status is Status.PENDING

    def test_clk_1_a_jump_that_lasts_is_followed(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft(delay_seconds=HOUR))
        clock.step_wall_clock(HOUR)
        assert store.promote() == 0
        clock.advance(59)
        assert store.promote() == 0
        clock.advance(1)
        assert store.promote() == 1
        assert store.now() == clock.now()

    def test_clk_1_every_write_must_have_seen_it(self, store: Store, clock: ManualClock) -> None:
        begun = store.now()
        for _ in range(100):
            clock.step_wall_clock(YEARS)
            store.promote()
            clock.step_wall_clock(-YEARS)
            store.promote()
            clock.advance(1)
        assert store.now() == begun + timedelta(seconds=100)

    def test_clk_1_looking_believes_nothing(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft())
        begun = store.now()
        clock.step_wall_clock(YEARS)
        store.promote()
        clock.advance(90)
        assert store.now() == begun + timedelta(seconds=90)
        clock.step_wall_clock(-YEARS)
        submit(store, draft("after"))
        assert get(store, "after").created_at == begun + timedelta(seconds=90)

    def test_clk_1_after_a_restart_the_wall_clock_counts(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit(store, draft(delay_seconds=DAYS))
        clock.step_wall_clock(DAYS)
        clock.restart()
        assert store.promote() == 1
        assert store.now() == clock.now()

    def test_clk_1_after_a_restart_in_another_decade_it_is_doubted(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit(store, draft())
        begun = store.now()
        clock.restart()
        clock.step_wall_clock(YEARS)
        store.promote()
        assert store.now() == begun
        confirm(store, clock)
        assert store.now() == clock.now()

    def test_clk_1_a_sweep_that_believes_a_jump_looks_by_its_new_time(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit(store, draft(start_within_seconds=HOUR))
        clock.step_wall_clock(DAYS)
        store.promote()
        clock.advance(60)
        store.recover()
        assert store.now() == clock.now()
        assert get(store).status is Status.CANCELLED

    def test_clk_2_while_the_wall_clock_is_behind_delays_and_leases_pass(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit(store, draft("runs"), draft("waits", delay_seconds=60))
        lease_one(store, lease_seconds=60)
        clock.step_wall_clock(-HOUR)
        store.promote()
        clock.advance(119)
        assert (store.promote(), store.recover().expired_found) == (0, 0)
        clock.advance(1)
        assert (store.promote(), store.recover().expired_found) == (1, 1)

    def test_clk_2_the_wall_clock_catches_up(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft())
        clock.step_wall_clock(-HOUR)
        for _ in range(2 * HOUR // 60):
            store.promote()
            assert store.now() > clock.now()
            clock.advance(60)
        store.promote()
        clock.advance(60)
        assert store.now() == clock.now()

    def test_clk_3_no_lease_ends_by_a_jump(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft(max_retries=0))
        lease = lease_one(store, lease_seconds=300)
        clock.step_wall_clock(DAYS)
        assert store.recover().expired_found == 0
        confirm(store, clock)
        assert store.now() == clock.now()
        assert store.recover().expired_found == 0
        for _ in range(3):
            (answer,) = store.renew("worker", [Renewal("job", lease.version, 300)])
            assert isinstance(answer, Renewed)
            assert answer.granted_seconds == 300
            clock.advance(299)
        settle(store, lease, Complete())
        assert get(store).status is Status.COMPLETED
        assert_history_replays(store, get(store))

    def test_clk_3_no_lease_ends_while_the_machine_sleeps(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit(store, draft(max_retries=0))
        lease = lease_one(store, lease_seconds=300)
        clock.suspend(8 * HOUR)
        assert store.recover().expired_found == 0
        assert store.now() == clock.now()
        (answer,) = store.renew("worker", [Renewal("job", lease.version, 300)])
        assert isinstance(answer, Renewed)
        settle(store, lease, Complete())

    def test_clk_3_no_worker_falls_silent_while_the_machine_sleeps(
        self, store: Store, clock: ManualClock
    ) -> None:
        with closing(store.register_worker(worker_info(store))):
            clock.advance(100)
            clock.suspend(8 * HOUR)
            store.promote()
            [worker] = store.workers()
            assert worker.heartbeat_at == store.now() - timedelta(seconds=100)

    def test_clk_3_a_lost_lease_still_ends(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft())
        lease_one(store, lease_seconds=300)
        clock.advance(100)
        clock.suspend(8 * HOUR)
        store.promote()
        clock.advance(199)
        assert store.recover().expired_found == 0
        clock.advance(1)
        assert store.recover().recovered == 1

    def test_clk_3_what_expired_before_the_jump_stays_expired(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit(store, draft())
        lease_one(store, lease_seconds=300)
        clock.advance(301)
        clock.suspend(HOUR)
        assert store.recover().recovered == 1
