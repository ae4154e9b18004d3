"""LIM: a queue's limits. How many jobs wait and run at once, how fast they come, the defaults."""

from __future__ import annotations

from datetime import timedelta

import pytest

from leasehold.core.job import Draft
from leasehold.core.lease import LeaseRequest, Settlement
from leasehold.core.outcome import Complete, Fail, JobError, Release
from leasehold.core.queue_config import QueueConfig
from leasehold.core.records import Submitted
from leasehold.core.retry import Constant
from leasehold.core.status import Status
from leasehold.core.store import Store
from leasehold.env import ManualClock
from leasehold.errors import (
    DuplicateJobError,
    LeaseholdError,
    QueueFullError,
    RateLimitedError,
)
from leasehold.testing.conformance.base import (
    FAILURE,
    FATAL,
    RETRY_SECONDS,
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


def chain(length: int, prefix: str = "step") -> list[Draft]:
    """Jobs of which each waits for the one before."""
    return [
        draft(f"{prefix}-{n}", depends_on=(f"{prefix}-{n - 1}",) if n else ())
        for n in range(length)
    ]


def refused(store: Store, *drafts: Draft) -> QueueFullError:
    """The error for jobs that must not be let in."""
    with pytest.raises(QueueFullError) as caught:
        store.submit(drafts)
    assert all(store.get(each.id) is None for each in drafts)
    return caught.value


class LimitingClauses(ConformanceBase):
    # -- depth -------------------------------------------------------------------------------

    def test_lim_1_no_more_jobs_than_max_depth_are_pending(self, store: Store) -> None:
        limit(store, max_depth=3)
        submit(store, *numbered(3))
        error = refused(store, draft("extra"))
        assert "'default' is full with 3 pending" in str(error)
        assert error.retry_after_seconds is not None
        assert error.retry_after_seconds > 0
        assert error.queue == "default"
        submit(store, draft("elsewhere", queue="q2"))
        held = lease_one(store)
        submit(store, draft("extra"))
        settle(store, held, Complete())
        refused(store, draft("another"))
        assert store.check() == []

    def test_lim_1_all_or_nothing_and_each_for_itself(self, store: Store) -> None:
        limit(store, max_depth=3)
        submit(store, draft("first"))
        refused(store, *numbered(3))
        answers = store.submit(numbered(3), partial=True)
        assert [type(answer) for answer in answers] == [Submitted, Submitted, QueueFullError]
        assert store.stats("default").counts[Status.PENDING] == 3

    def test_lim_1_what_never_fits_is_told_so(self, store: Store) -> None:
        limit(store, max_depth=3)
        error = refused(store, *numbered(4))
        assert error.retry_after_seconds is None
        assert "never fit" in str(error)

    def test_lim_1_what_is_due_later_does_not_count(self, store: Store) -> None:
        limit(store, max_depth=1)
        submit(store, draft("later", delay_seconds=60), draft("sooner", delay_seconds=30))
        submit(store, draft("now"))
        refused(store, draft("another"))
        submit(store, draft("tomorrow", delay_seconds=86_400))

    def test_lim_1_what_waits_for_others_does_not_count(self, store: Store) -> None:
        limit(store, max_depth=3)
        submit(store, *chain(5))
        submit(store, draft("second"), draft("third"))
        assert store.stats("default").counts[Status.PENDING] == 3
        # A chain makes one job pending, so it is refused for now, however long it is.
        error = refused(store, *chain(5, prefix="more"))
        assert error.retry_after_seconds is not None
        # One that has to wait for a job of the full queue is let in.
        submit(store, draft("behind", depends_on=("second",)))
        settle(store, lease_one(store), Complete())
        assert store.stats("default").counts[Status.PENDING] == 3, "unblocking was refused"
        refused(store, *chain(2, prefix="more"))
        settle(store, lease_one(store), FATAL)
        submit(store, *chain(5, prefix="more"))
        assert store.check() == []

    def test_lim_1_what_is_satisfied_already_counts(self, store: Store) -> None:
        limit(store, max_depth=1)
        submit(store, draft("done", idempotency_key="key"))
        settle(store, lease_one(store), Complete())
        submit(store, draft("failed"))
        settle(store, lease_one(store), FATAL)
        submit(store, draft("waits"))
        refused(store, draft("next", depends_on=("done",)))
        refused(store, draft("next", depends_on=("failed",), on_dependency_failure="ignore"))
        # A duplicate stands for the job that is done.
        same = draft("same", idempotency_key="key")
        with pytest.raises(QueueFullError):
            store.submit([same, draft("next", depends_on=("same",))])
        # What ends at once, because of what it depends on, is never pending.
        (answer,) = submit(store, draft("next", depends_on=("failed",)))
        assert answer.status is Status.CANCELLED
        assert store.stats("default").counts[Status.PENDING] == 1

    def test_lim_1_only_new_pending_jobs_are_too_many_for_good(self, store: Store) -> None:
        limit(store, max_depth=3)
        submit(store, draft("first", idempotency_key="first"))
        known = [draft(f"again-{n}", idempotency_key="first") for n in range(3)]
        alike = [draft(f"alike-{n}", idempotency_key="alike") for n in range(3)]
        later = numbered(3, prefix="later", delay_seconds=60)
        error = refused(store, *known, *alike, *later, *numbered(2))
        assert error.retry_after_seconds is not None, "three of them are new and pending"
        error = refused(store, *known, *alike, *later, *numbered(3))
        assert error.retry_after_seconds is None
        assert "4 jobs never fit" in str(error)

    def test_lim_1_what_comes_back_by_itself_is_never_refused(
        self, store: Store, clock: ManualClock
    ) -> None:
        limit(store, max_depth=1)
        submit(store, draft("delayed", delay_seconds=1))
        for name in ("retried", "lost", "released", "dead"):
            submit(store, draft(name))
            held = lease_one(store, lease_seconds=2)
            if name == "retried":
                settle(store, held, FAILURE)
            elif name == "released":
                submit(store, draft("fills"))
                settle(store, held, Release())
                assert store.cancel(["fills"], reason="", actor="me")
                (job,) = store.cancel(["released"], reason="", actor="me")
                assert not isinstance(job, LeaseholdError)
            elif name == "dead":
                settle(store, held, FATAL)
        submit(store, draft("waits"))
        clock.advance(RETRY_SECONDS)
        store.recover()
        store.promote()
        store.replay(["dead"], reset_attempts=False, actor="me")
        statuses = [get(store, name).status for name in ("delayed", "retried", "lost", "dead")]
        assert statuses == [Status.PENDING] * 4
        refused(store, draft("extra"))
        assert store.check() == []

    def test_lim_1_a_race_lets_nobody_slip_in(self, store: Store) -> None:
        limit(store, max_depth=5)

        def one(number: int) -> int:
            answers = store.submit(numbered(4, prefix=f"thread-{number}"), partial=True)
            return sum(isinstance(answer, Submitted) for answer in answers)

        assert sum(at_once(6, one)) == 5
        assert store.stats("default").counts[Status.PENDING] == 5

    def test_lim_1_when_to_come_back_is_measured(self, store: Store, clock: ManualClock) -> None:
        limit(store, max_depth=2)
        # One job every two seconds, for two minutes.
        for n in range(60):
            submit(store, draft(f"done-{n}"))
            settle(store, lease_one(store), Complete())
            clock.advance(2)
        submit(store, *numbered(2))
        error = refused(store, draft("extra"))
        assert error.retry_after_seconds == pytest.approx(2.0, rel=0.1)
        error = refused(store, draft("extra"), draft("another"))
        assert error.retry_after_seconds == pytest.approx(4.0, rel=0.1)

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
        # What ann was refused was not taken from what all share.
        submit(store, *numbered(2, prefix="bob", client="bob"))
        refused(store, draft("cid", client="cid"))

    def test_lim_3_more_than_a_burst_never_fits(self, store: Store) -> None:
        limit(store, rate_per_second=2)
        error = refused(store, *numbered(5))
        assert error.retry_after_seconds is None
        assert "4 at most in a burst" in str(error)

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

    # -- what is refused ---------------------------------------------------------------------

    def test_lim_4_refusals_are_counted(self, store: Store) -> None:
        limit(store, max_depth=2)
        refused(store, *numbered(3))
        store.submit(numbered(3), partial=True)
        refused(store, draft("extra"))
        stats = store.stats("default")
        assert (stats.rejected, stats.submitted) == (5, 2)
        assert store.check() == []

    def test_lim_4_a_refused_call_uses_up_nothing(self, store: Store) -> None:
        limit(store, rate_per_second=2)
        submit(store, draft("taken"))
        refused(store, *numbered(4))
        with pytest.raises(DuplicateJobError):
            store.submit([draft("one"), draft("taken")])
        submit(store, *numbered(3))
        refused(store, draft("extra"))

    def test_lim_4_a_known_key_is_answered_all_the_same(self, store: Store) -> None:
        limit(store, max_depth=1, rate_per_second=0.5)
        submit(store, draft("first", idempotency_key="key"))
        for _ in range(3):
            (again,) = submit(store, draft("second", idempotency_key="key"))
            assert (again.id, again.is_duplicate) == ("first", True)
        refused(store, draft("third", idempotency_key="other"))
        assert store.stats("default").rejected == 1

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
