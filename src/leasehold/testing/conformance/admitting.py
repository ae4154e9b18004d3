"""LIM-1, LIM-4: how many jobs of a queue may wait, and that a refused submit leaves no trace."""

from __future__ import annotations

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.job import Draft
from leasehold.core.model.outcome import Complete, Release
from leasehold.core.model.records import Submitted
from leasehold.core.model.status import Status
from leasehold.env import ManualClock
from leasehold.errors import (
    DuplicateJobError,
    LeaseholdError,
    QueueFullError,
)
from leasehold.testing.conformance.base import (
    FAILURE,
    FATAL,
    RETRY_SECONDS,
    ConformanceBase,
    at_once,
    draft,
    get,
    lease_one,
    settle,
    submit,
)
from leasehold.testing.conformance.limiting import limit, numbered, refused
from leasehold.testing.conformance.scheduling import set_schedule


def chain(length: int, prefix: str = "step") -> list[Draft]:
    """Jobs of which each waits for the one before."""
    return [
        draft(f"{prefix}-{n}", depends_on=(f"{prefix}-{n - 1}",) if n else ())
        for n in range(length)
    ]


class AdmittingClauses(ConformanceBase):
    # -- depth -------------------------------------------------------------------------------

    def test_lim_1_no_more_jobs_than_max_depth_are_pending(self, store: Store) -> None:
        limit(store, max_depth=3)
        submit(store, *numbered(3))
        error = refused(store, draft("extra"))
        assert "'default' is full (3 of 3 pending)" in str(error)
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
        assert "do not fit" in str(error)

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
        # A job that has to wait for a job of the full queue is accepted.
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
        # A job that ends at once, because of its dependency, is never pending.
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
        assert "4 jobs do not fit" in str(error)

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

    # -- refusals ----------------------------------------------------------------------------

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

    def test_lim_4_a_schedule_that_is_run_out_of_turn_is_refused_and_counted(
        self, store: Store
    ) -> None:
        limit(store, max_depth=1)
        set_schedule(store)
        store.run_schedule("ping", job_id="first", actor="me")
        with pytest.raises(QueueFullError, match=r"'default' is full \(1 of 1 pending\)"):
            store.run_schedule("ping", job_id="second", actor="me")
        assert store.run_schedule("ping", job_id="first", actor="me").id == "first"
        stats = store.stats("default")
        assert (stats.rejected, stats.submitted) == (1, 1)
        run = [each for each in store.audit_page().records if each.action == "run_schedule"]
        assert [each.detail["job"] for each in run] == ["first"]
