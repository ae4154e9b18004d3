"""LIM-2, LIM-3, LIM-5, LIM-6: how many jobs of a queue run, how fast they come, its defaults."""

from __future__ import annotations

from datetime import timedelta

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete, Fail, JobError, Release
from leasehold.core.model.queue_config import QueueConfig
from leasehold.core.model.records import Submitted
from leasehold.core.model.retry import Constant
from leasehold.core.model.status import Status
from leasehold.env import ManualClock
from leasehold.errors import (
    LeaseholdError,
    QueueFullError,
    RateLimitedError,
)
from leasehold.testing.conformance.base import (
    FATAL,
    ConformanceBase,
    at_once,
    draft,
    get,
    lease_all,
    lease_one,
    settle,
    submit,
)
from leasehold.testing.conformance.waking import Ears


def limit(store: Store, queue: str = "default", **options: float | None) -> None:
    store.create_queue(queue, QueueConfig.of(options), actor="me")


def numbered(count: int, prefix: str = "job", **options: object) -> list[Draft]:
    return [draft(f"{prefix}-{n}", **options) for n in range(count)]


def refused(store: Store, *drafts: Draft) -> QueueFullError:
    """The error for jobs that must not be let in."""
    with pytest.raises(QueueFullError) as caught:
        store.submit(drafts)
    assert all(store.get(each.id) is None for each in drafts)
    return caught.value


class LimitingClauses(ConformanceBase):
    # -- concurrency -------------------------------------------------------------------------

    def test_lim_2_no_more_jobs_than_max_concurrency_run(self, store: Store) -> None:
        limit(store, max_concurrency=2)
        submit(store, *numbered(3), draft("other", task="resize", priority=90))
        submit(store, draft("free", queue="q2", priority=0))
        leases = lease_all(store, queues=("default", "q2"))
        assert [lease.job_id for lease in leases] == ["other", "job-0", "free"]
        assert lease_all(store, tasks=("work",)) == []
        settle(store, leases[0], FATAL)
        assert [lease.job_id for lease in lease_all(store)] == ["job-1"]
        assert lease_all(store) == []
        assert store.check() == []

    def test_lim_2_a_group_is_limited_too(self, store: Store) -> None:
        limit(store, max_concurrency=1)
        submit(store, *numbered(3, parent_id="parent"))
        submit(store, draft("free", queue="q2", parent_id="parent", priority=0))
        leases = lease_all(store, queues=("default", "q2"), parent_id="parent")
        assert [lease.job_id for lease in leases] == ["job-0", "free"]

    def test_lim_2_a_slot_is_free_in_the_exchange_that_settles(self, store: Store) -> None:
        limit(store, max_concurrency=1)
        submit(store, *numbered(3))
        lease = lease_one(store)
        for expected in ("job-1", "job-2"):
            answer = store.exchange(
                [Settlement(lease.job_id, lease.version, Complete())],
                LeaseRequest(worker="worker", limit=10),
            )
            (lease,) = answer.leases
            assert lease.job_id == expected

    def test_lim_2_a_lost_holder_gives_its_slot_back(
        self, store: Store, clock: ManualClock
    ) -> None:
        limit(store, max_concurrency=1)
        submit(store, draft("lost"), draft("waits"))
        held = lease_one(store, lease_seconds=10)
        clock.advance(11)
        # An expired lease may still settle: until it is taken back its job counts as running.
        assert lease_all(store) == []
        store.recover()
        # Its attempt is spent, which costs it its place; but there is a slot again.
        assert [lease.job_id for lease in lease_all(store)] == ["waits"]
        (answer,) = store.exchange([Settlement("lost", held.version, Complete())]).settled
        assert isinstance(answer, LeaseholdError)
        assert lease_all(store) == []

    def test_lim_2_a_race_lets_no_job_too_many_run(self, store: Store) -> None:
        limit(store, max_concurrency=3)
        submit(store, *numbered(20))

        def turn(number: int) -> list[int]:
            seen = []
            for _ in range(10):
                leases = lease_all(store, limit=2, worker=f"worker-{number}")
                info = store.queue_info("default")
                assert info is not None
                seen.append(info.running)
                store.exchange(
                    [Settlement(each.job_id, each.version, Release()) for each in leases]
                )
            return seen

        assert max(max(seen) for seen in at_once(4, turn)) <= 3
        assert len(lease_all(store)) == 3

    def test_lim_2_jobs_not_started_in_time_take_no_slot(
        self, store: Store, clock: ManualClock
    ) -> None:
        limit(store, max_concurrency=1)
        submit(store, draft("late", start_within_seconds=1), draft("fine"), draft("next"))
        clock.advance(2)
        assert [lease.job_id for lease in lease_all(store)] == ["fine"]
        assert get(store, "late").status is Status.CANCELLED

    # -- rates -------------------------------------------------------------------------------

    def test_lim_3_a_burst_then_the_rate(self, store: Store, clock: ManualClock) -> None:
        limit(store, rate_per_second=2)
        submit(store, *numbered(4))
        error = refused(store, draft("extra"))
        assert isinstance(error, RateLimitedError)
        assert error.retry_after_seconds == pytest.approx(0.5, abs=1e-3)
        assert (error.queue, error.limit, error.remaining) == ("default", 4, 0)
        assert error.reset_at == store.now() + timedelta(seconds=2)
        clock.advance(0.4)
        refused(store, draft("extra"))
        clock.advance(0.1)
        submit(store, draft("extra"))
        refused(store, draft("another"))
        clock.advance(60)
        submit(store, *numbered(4, prefix="again"))
        refused(store, draft("another"))

    def test_lim_3_each_client_has_its_own(self, store: Store, clock: ManualClock) -> None:
        limit(store, client_rate_per_second=1)
        submit(store, *numbered(2, prefix="ann", client="ann"))
        error = refused(store, draft("ann-more", client="ann"))
        assert isinstance(error, RateLimitedError)
        assert "'ann'" in str(error)
        submit(store, *numbered(2, prefix="bob", client="bob"))
        submit(store, *numbered(2, prefix="nobody"))
        refused(store, draft("nobody-more"))
        clock.advance(1)
        submit(store, draft("ann-more", client="ann"))

    def test_lim_3_both_rates_hold_together(self, store: Store) -> None:
        limit(store, rate_per_second=2, client_rate_per_second=1)
        answers = store.submit(numbered(3, prefix="ann", client="ann"), partial=True)
        assert [type(answer) for answer in answers] == [Submitted, Submitted, RateLimitedError]
        assert isinstance(answers[2], RateLimitedError)
        assert (answers[2].limit, answers[2].remaining) == (2, 0)
        # What ann was refused was not taken from what all share.
        submit(store, *numbered(2, prefix="bob", client="bob"))
        refused(store, draft("cid", client="cid"))

    def test_lim_3_more_than_a_burst_never_fits(self, store: Store) -> None:
        limit(store, rate_per_second=2)
        submit(store, draft("first"))
        error = refused(store, *numbered(5))
        assert isinstance(error, RateLimitedError)
        assert error.retry_after_seconds is None
        assert (error.limit, error.remaining) == (4, 3)
        assert error.reset_at == store.now() + timedelta(seconds=0.5)
        assert "and 4 at once" in str(error)

    def test_lim_3_after_the_time_told_it_fits(self, store: Store, clock: ManualClock) -> None:
        limit(store, rate_per_second=0.3)
        submit(store, draft("first"))
        error = refused(store, draft("second"))
        assert error.retry_after_seconds is not None
        clock.advance(error.retry_after_seconds + 1e-6)
        submit(store, draft("second"))

    def test_lim_3_a_race_lets_nobody_slip_in(self, store: Store) -> None:
        limit(store, rate_per_second=3)

        def one(number: int) -> int:
            answers = store.submit(numbered(3, prefix=f"thread-{number}"), partial=True)
            return sum(isinstance(answer, Submitted) for answer in answers)

        assert sum(at_once(6, one)) == 6

    # -- waking ------------------------------------------------------------------------------

    def test_lim_5_room_in_a_full_queue_is_told(self, store: Store) -> None:
        limit(store, max_depth=2)
        submit(store, *numbered(2))
        ears = Ears(store)
        store.subscribe(ears)
        lease_one(store)
        assert ears.wait_for(lambda: ears.ready > 0)
        lease_one(store)
        submit(store, *numbered(2, prefix="more"))
        ears.ready = 0
        store.cancel(["more-0"], reason="", actor="me")
        assert ears.wait_for(lambda: ears.ready > 0)

    def test_lim_5_a_free_slot_is_told(self, store: Store, clock: ManualClock) -> None:
        limit(store, max_concurrency=1)
        submit(store, *numbered(3))
        held = lease_one(store)
        ears = Ears(store)
        store.subscribe(ears)
        settle(store, held, Complete())
        assert ears.wait_for(lambda: ears.ready > 0)
        lease_one(store, lease_seconds=1)
        clock.advance(2)
        ears.ready = 0
        store.recover()
        assert ears.wait_for(lambda: ears.ready > 0)

    # -- defaults ----------------------------------------------------------------------------

    def test_lim_6_jobs_that_name_none_get_the_queues_defaults(self, store: Store) -> None:
        config = QueueConfig(lease_seconds=60, max_retries=1, retry=Constant(9))
        store.create_queue("mail", config, actor="me")
        submit(
            store,
            Draft(id="plain", task="work", queue="mail"),
            Draft(
                id="own", task="work", queue="mail",
                lease_seconds=7, max_retries=0, retry=Constant(3),
            ),
        )  # fmt: skip
        plain, own = lease_all(store, queues=("mail",), lease_seconds=500)
        assert (plain.lease_seconds, plain.allowance, plain.retry) == (60, 2, Constant(9))
        assert (own.lease_seconds, own.allowance, own.retry) == (7, 1, Constant(3))
        settled = settle(store, plain, Fail(JobError("OSError", "bad luck")))
        assert settled.run_at == store.now() + timedelta(seconds=9)
        assert get(store, "plain").max_retries == 1
        store.update_queue("mail", {"max_retries": 5}, actor="me")
        assert get(store, "plain").max_retries == 1
