"""CLK-4 to CLK-7: the repair of a store's clock that was wrong for long."""

from __future__ import annotations

import pytest

from leasehold.core.contract.clock_store import ClockRepair
from leasehold.core.contract.local_store import LocalStore, local_part
from leasehold.core.model.breaker import Breaker
from leasehold.core.model.job import Draft, Job
from leasehold.core.model.lease import Renewal
from leasehold.core.model.outcome import Fail, JobError
from leasehold.core.model.records import Submitted, WorkerInfo
from leasehold.core.model.retry import Constant
from leasehold.core.model.schedule import ScheduleDraft
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.core.model.timing import Every
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
from leasehold.testing.conformance.clocking import DAYS, HOUR, YEARS, confirm


class RepairingClockClauses(ConformanceBase):
    def test_clk_4_what_was_put_off_is_still_as_far_off(
        self, store: LocalStore, clock: ManualClock
    ) -> None:
        submit(store, draft("before", delay_seconds=DAYS), draft("retried", retry=Constant(600)))
        lease = lease_one(store)
        due = get(store, "before").run_at
        clock.step_wall_clock(YEARS)
        for _ in range(2):
            store.renew("worker", [Renewal("retried", lease.version, 300)])
            clock.advance(61)
        store.renew("worker", [Renewal("retried", lease.version, 300)])
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

    def test_clk_4_jobs_keep_their_order(self, store: LocalStore, clock: ManualClock) -> None:
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
        self, store: LocalStore, clock: ManualClock
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

    def test_clk_4_it_is_audited(self, store: LocalStore, clock: ManualClock) -> None:
        go_wrong(store, clock)
        clock.step_wall_clock(-YEARS)
        repaired(store)
        [record] = [each for each in store.audit_page().records if each.action == "repair_clock"]
        assert (record.actor, record.at) == ("me", store.now())

    def test_clk_5_no_job_may_run_meanwhile(self, store: LocalStore, clock: ManualClock) -> None:
        submit(store, draft())
        go_wrong(store, clock)
        lease = lease_one(store, lease_seconds=60)
        clock.step_wall_clock(-YEARS)
        with pytest.raises(InvalidTransitionError, match="1 running job"):
            repaired(store)
        assert get(store).lease_version == lease.version
        assert store.now() > clock.now()
        # At half its pace, the lease of a lost holder is over in two minutes.
        clock.advance(120)
        repaired(store)
        assert store.now() == clock.now()
        assert lease_one(store).version > lease.version

    def test_clk_5_no_worker_may_live(self, store: LocalStore, clock: ManualClock) -> None:
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

    def test_clk_6_time_goes_on_from_there(self, store: LocalStore, clock: ManualClock) -> None:
        go_wrong(store, clock)
        clock.step_wall_clock(-YEARS)
        repaired(store)
        for _ in range(3):
            clock.advance(10)
            store.promote()
            assert store.now() == clock.now()

    def test_clk_7_a_clock_that_is_right_is_left_alone(
        self, store: LocalStore, clock: ManualClock
    ) -> None:
        submit(store, draft())
        clock.advance(1)
        repair = repaired(store)
        assert (repair.before, repair.after, repair.changed) == (clock.now(), clock.now(), {})
        assert [each for each in store.audit_page().records if each.action == "repair_clock"] == []


def go_wrong(store: LocalStore, clock: ManualClock) -> None:
    """Let the clock be ahead for so long that the store believes it."""
    clock.step_wall_clock(YEARS)
    confirm(store, clock)
    assert store.now() == clock.now()


def repaired(store: LocalStore) -> ClockRepair:
    """Set the clock back; a store may declare that it has no need for that."""
    try:
        return local_part(store, "repairing the clock").repair_clock(actor="me")
    except UnsupportedError as error:
        pytest.skip(f"declared by the store: {error}")


def by_priority(store: LocalStore) -> list[Job]:
    """All jobs, the highest priority first, then those submitted first."""
    jobs = reversed(store.search(JobFilter(), limit=100).jobs)
    return sorted(jobs, key=lambda job: -job.priority)
