"""The store's clock while the clocks of the machine disagree: CLK-1 to CLK-7."""

from __future__ import annotations

from datetime import timedelta

import pytest

from leasehold.core.breaker import Breaker
from leasehold.core.clock_store import ClockRepair
from leasehold.core.job import Draft, Job
from leasehold.core.lease import Renewal, Renewed
from leasehold.core.outcome import Complete, Fail, JobError
from leasehold.core.records import Submitted, WorkerInfo
from leasehold.core.retry import Constant
from leasehold.core.schedule import ScheduleDraft
from leasehold.core.search import JobFilter
from leasehold.core.status import Status
from leasehold.core.store import Store
from leasehold.core.timing import Every
from leasehold.env import ManualClock
from leasehold.errors import InvalidTransitionError, UnsupportedError
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

    # -- a clock that was wrong for long -----------------------------------------------------

    def test_clk_4_what_was_put_off_is_still_as_far_off(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit(store, draft("before", delay_seconds=DAYS), draft("retried", retry=Constant(600)))
        lease = lease_one(store)
        due = get(store, "before").run_at
        clock.step_wall_clock(YEARS)
        store.promote()
        clock.advance(61)
        (renewed,) = store.renew("worker", [Renewal("retried", lease.version, 300)])
        assert isinstance(renewed, Renewed)
        assert store.now() == clock.now()
        settle(store, lease, Fail(JobError("OSError", "no luck")))
        submit(store, draft("delayed", delay_seconds=300), draft("pending"))
        clock.step_wall_clock(-YEARS)
        assert store.now() > clock.now()
        repair = repaired(store)
        assert (repair.after, store.now()) == (clock.now(), clock.now())
        assert (repair.before - repair.after).total_seconds() > YEARS - 1
        assert [each.job_id for each in lease_all(store)] == ["pending"]
        clock.advance(300)
        assert [each.job_id for each in lease_all(store)] == ["delayed"]
        clock.advance(300)
        [again] = lease_all(store)
        assert (again.job_id, again.version > lease.version) == ("retried", True)
        for name in ("before", "retried", "delayed", "pending"):
            assert_history_replays(store, get(store, name))
            times = [event.at for event in store.history(name)]
            assert times == sorted(times)
            assert times[-1] <= store.now()
        job = get(store, "before")
        assert (job.status, job.run_at) == (Status.SCHEDULED, due)
        assert store.check() == []

    def test_clk_4_jobs_keep_their_order(self, store: Store, clock: ManualClock) -> None:
        go_wrong(store, clock)
        submit(store, *(draft(f"old-{number}", priority=number % 3) for number in range(30)))
        clock.advance(1)
        submit(store, draft("last of the old", priority=2))
        wanted = [each.id for each in by_priority(store)]
        clock.step_wall_clock(-YEARS)
        repaired(store)
        submit(store, draft("new", priority=2))
        leased = [lease_one(store).job_id for _ in range(32)]
        assert [name for name in leased if name != "new"] == wanted
        assert leased.index("new") == leased.index("last of the old") + 1
        assert store.check() == []

    def test_clk_4_schedules_keys_and_breakers_go_on(
        self, store: Store, clock: ManualClock
    ) -> None:
        every = ScheduleDraft(name="every", timing=Every(60), job=Draft(id="tick", task="tick"))
        store.set_schedule(every, actor="me")
        go_wrong(store, clock)
        store.fire_schedules()
        submit(store, draft("keyed", idempotency_key="key"), draft("broken", task="breaks"))
        lease = lease_one(store, tasks=("breaks",))
        breaker = Breaker(1, 120)
        settle(store, lease, Fail(JobError("OSError", "no luck"), True, 0.0, breaker))
        clock.step_wall_clock(-YEARS)
        repaired(store)
        clock.advance(60)
        assert store.fire_schedules().jobs == 1
        assert lease_all(store, tasks=("breaks",)) == []
        clock.advance(60)
        assert lease_one(store, tasks=("breaks",)).job_id == "broken"
        again = draft("other", task="work", idempotency_key="key")
        (answer,) = store.submit([again])
        assert isinstance(answer, Submitted)
        assert answer.is_duplicate
        clock.advance(24 * HOUR)
        (answer,) = store.submit([again])
        assert isinstance(answer, Submitted)
        assert not answer.is_duplicate

    def test_clk_4_it_is_audited(self, store: Store, clock: ManualClock) -> None:
        go_wrong(store, clock)
        clock.step_wall_clock(-YEARS)
        repaired(store)
        [record] = [each for each in store.audit_log() if each.action == "repair_clock"]
        assert (record.actor, record.at) == ("me", store.now())

    def test_clk_5_no_job_may_run_meanwhile(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft())
        go_wrong(store, clock)
        lease = lease_one(store, lease_seconds=60)
        clock.step_wall_clock(-YEARS)
        with pytest.raises(InvalidTransitionError, match="1 job"):
            repaired(store)
        assert get(store).lease_version == lease.version
        assert store.now() > clock.now()
        # At half its pace, the lease of a lost holder is over in two minutes.
        clock.advance(120)
        repaired(store)
        assert store.now() == clock.now()
        assert lease_one(store).version > lease.version

    def test_clk_5_no_worker_may_live(self, store: Store, clock: ManualClock) -> None:
        go_wrong(store, clock)
        clock.step_wall_clock(-YEARS)
        moment = store.now()
        life = store.register_worker(
            WorkerInfo(
                id="worker", host="here", pid=1, queues=("default",), slots=2,
                started_at=moment, heartbeat_at=moment,
            )
        )  # fmt: skip
        with pytest.raises(InvalidTransitionError, match="worker"):
            repaired(store)
        life.close()
        repaired(store)
        assert store.now() == clock.now()

    def test_clk_6_time_goes_on_from_there(self, store: Store, clock: ManualClock) -> None:
        go_wrong(store, clock)
        clock.step_wall_clock(-YEARS)
        repaired(store)
        for _ in range(3):
            clock.advance(10)
            store.promote()
            assert store.now() == clock.now()

    def test_clk_7_a_clock_that_is_right_is_left_alone(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit(store, draft())
        clock.advance(1)
        repair = repaired(store)
        assert (repair.before, repair.after, repair.changed) == (clock.now(), clock.now(), {})
        assert [each for each in store.audit_log() if each.action == "repair_clock"] == []


def go_wrong(store: Store, clock: ManualClock) -> None:
    """Let the clock be ahead for so long that the store believes it."""
    clock.step_wall_clock(YEARS)
    confirm(store, clock)
    assert store.now() == clock.now()


def repaired(store: Store) -> ClockRepair:
    """Set the clock back; a store may declare that it has no need for that."""
    try:
        return store.repair_clock(actor="me")
    except UnsupportedError as error:
        pytest.skip(f"declared by the store: {error}")


def by_priority(store: Store) -> list[Job]:
    """All jobs, the highest priority first, then those submitted first."""
    jobs = reversed(store.search(JobFilter(), limit=100).jobs)
    return sorted(jobs, key=lambda job: -job.priority)
