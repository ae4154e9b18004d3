"""BRK: circuit breakers. A task that keeps failing is held back, and probed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from leasehold.core.contract.store import Store
from leasehold.core.model.breaker import Breaker
from leasehold.core.model.lease import LeaseRequest
from leasehold.core.model.outcome import Complete, Fail, JobError, Release
from leasehold.env import ManualClock
from leasehold.testing.conformance.base import (
    FAILURE,
    ConformanceBase,
    draft,
    lease_all,
    lease_one,
    settle,
    submit,
)

PAUSE_SECONDS = 60.0
BROKEN = Fail(
    JobError("ConnectionError", "the mail server is down"),
    retryable=False,
    breaker=Breaker(failures=2, pause_seconds=PAUSE_SECONDS),
)


def submit_mails(store: Store, count: int) -> None:
    submit(store, *(draft(f"mail-{n}", task="mail") for n in range(count)))


def leased(store: Store, **options: Any) -> list[str]:
    return [lease.job_id for lease in lease_all(store, **options)]


def break_mail(store: Store) -> None:
    """Let as many mails fail as hold the task back."""
    for _ in range(2):
        settle(store, lease_one(store, tasks=("mail",)), BROKEN)


class BreakingClauses(ConformanceBase):
    def test_brk_1_a_task_that_keeps_failing_is_held_back(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit_mails(store, 4)
        submit(store, draft("other", task="resize"), draft("elsewhere", task="mail", queue="q2"))
        settle(store, lease_one(store, tasks=("mail",)), BROKEN)
        settle(store, lease_one(store, worker="another", tasks=("mail",)), BROKEN)
        held_at = store.now()
        assert leased(store, tasks=("mail",)) == []
        assert leased(store, queues=("default", "q2")) == ["other", "elsewhere"]
        clock.advance(PAUSE_SECONDS - 1)
        answer = store.exchange((), LeaseRequest(worker="worker", limit=10))
        assert answer.leases == []
        assert answer.next_due_at == held_at + timedelta(seconds=PAUSE_SECONDS)

    def test_brk_1_only_failures_in_a_row_count(self, store: Store) -> None:
        submit_mails(store, 6)
        settle(store, lease_one(store), BROKEN)
        settle(store, lease_one(store), Complete())
        settle(store, lease_one(store), BROKEN)
        assert len(leased(store)) == 3

    def test_brk_1_failures_without_a_breaker_hold_nothing_back(self, store: Store) -> None:
        submit_mails(store, 5)
        for _ in range(4):
            settle(store, lease_one(store), FAILURE)
        assert leased(store) == ["mail-4"]

    def test_brk_2_one_probe_per_pause(self, store: Store, clock: ManualClock) -> None:
        submit_mails(store, 5)
        submit(store, draft("other", task="resize"))
        break_mail(store)
        clock.advance(PAUSE_SECONDS)
        assert leased(store) == ["mail-2", "other"]
        assert leased(store) == []
        clock.advance(PAUSE_SECONDS)
        assert leased(store) == ["mail-3"]

    def test_brk_2_a_failed_probe_holds_the_task_again(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit_mails(store, 5)
        break_mail(store)
        clock.advance(PAUSE_SECONDS)
        probe = lease_one(store)
        clock.advance(1)
        settle(store, probe, BROKEN)
        clock.advance(PAUSE_SECONDS - 1)
        assert leased(store) == []
        clock.advance(1)
        assert leased(store) == ["mail-3"]

    def test_brk_2_a_probe_that_is_handed_back_says_nothing(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit_mails(store, 4)
        break_mail(store)
        clock.advance(PAUSE_SECONDS)
        settle(store, lease_one(store), Release())
        assert leased(store) == []
        clock.advance(PAUSE_SECONDS)
        # A job that was handed back is available only since then.
        assert leased(store) == ["mail-3"]

    def test_brk_3_a_completed_probe_ends_the_hold(self, store: Store, clock: ManualClock) -> None:
        submit_mails(store, 6)
        break_mail(store)
        clock.advance(PAUSE_SECONDS)
        settle(store, lease_one(store), Complete())
        settle(store, lease_one(store), BROKEN)
        assert leased(store) == ["mail-4", "mail-5"]
        assert store.check() == []
