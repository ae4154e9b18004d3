"""MET-19 to MET-23: what fails, since when and how often, and what each worker did."""

from __future__ import annotations

from datetime import timedelta

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.failure import HOURS_KEPT, SAMPLE_MAX
from leasehold.core.model.lease import Lease, Settled, Settlement
from leasehold.core.model.outcome import Cancel, Complete, Fail, JobError, Release
from leasehold.core.model.span import WORKERS_KEPT
from leasehold.core.rules.failures import FAILURES_MAX
from leasehold.env import ManualClock
from leasehold.errors import (
    InvalidPageError,
    LeaseholdError,
)
from leasehold.testing.conformance.base import (
    FAILURE,
    ConformanceBase,
    draft,
    lease_all,
    lease_one,
    settle,
    submit,
)
from leasehold.testing.conformance.measuring import MINUTE

TRACEBACK = """Traceback (most recent call last):
  File "/srv/shop/{file}.py", line {line}, in {function}
    connect()
  File "/usr/lib/python3.11/site-packages/smtp/client.py", line 12, in connect
    raise TimeoutError
"""


def fatal(message: str, *, file: str = "mail", line: int = 1, function: str = "send") -> Fail:
    traceback = TRACEBACK.format(file=file, line=line, function=function)
    return Fail(JobError("TimeoutError", message, traceback), retryable=False)


def fail(store: Store, job_id: str, outcome: Fail, *, queue: str = "default") -> Lease:
    submit(store, draft(job_id, queue=queue))
    lease = lease_one(store, queues=(queue,))
    settle(store, lease, outcome)
    return lease


class FailingClauses(ConformanceBase):
    def test_met_19_the_same_failure_is_counted_together(self, store: Store) -> None:
        fail(store, "one", fatal("no answer from 10.0.0.1 after 2.5 s"))
        fail(store, "two", fatal("no answer from 10.0.0.27 after 30 s", line=7))
        fail(store, "three", fatal("no answer from 10.0.0.1 after 2.5 s", function="receive"))
        fail(store, "four", fatal("no route to <host>"))
        fail(store, "five", fatal("no answer from 10.0.0.1 after 2.5 s"), queue="other")
        found = store.failures()
        assert [(each.queue, each.message, each.frame, each.count) for each in found[:1]] == [
            ("default", "no answer from <n> after <n> s", "shop/mail.py in send", 2),
        ]  # fmt: skip
        assert [each.count for each in found] == [2, 1, 1, 1]
        assert len({each.fingerprint for each in found}) == 4
        assert {each.error_type for each in found} == {"TimeoutError"}
        assert [each.queue for each in store.failures("other")] == ["other"]
        assert store.failures("nobody") == store.failures(task="nobody") == []
        assert store.failures(task=found[0].task, limit=1) == found[:1]

    def test_met_19_a_batch_counts_like_one_by_one(self, store: Store) -> None:
        submit(store, *(draft(f"job-{number}") for number in range(7)))
        leases = lease_all(store)
        answers = store.exchange(
            [
                Settlement(lease.job_id, lease.version, fatal(f"error {number}"))
                for number, lease in enumerate(leases)
            ]
        ).settled
        assert not any(isinstance(answer, LeaseholdError) for answer in answers)
        [found] = store.failures()
        assert (found.count, found.message) == (7, "error <n>")
        assert found.jobs == tuple(lease.job_id for lease in leases[::-1])[:SAMPLE_MAX]

    def test_met_19_lost_workers_are_failures_too(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("one"), draft("two"))
        lease_all(store, worker="w-1", limit=1, lease_seconds=5)
        lease_all(store, worker="w-2", limit=1, lease_seconds=5)
        clock.advance(6)
        store.recover()
        [found] = store.failures()
        assert (found.error_type, found.count, found.frame) == ("WorkerLost", 2, "")

    def test_met_19_who_was_asked_to_stop_did_not_fail(self, store: Store) -> None:
        submit(store, draft("one"), draft("two"), draft("three"))
        one, two, three = lease_all(store)
        store.cancel([one.job_id], reason="", actor="me")
        settle(store, one, FAILURE)
        settle(store, two, Cancel())
        settle(store, three, Release())
        assert store.failures() == []

    def test_met_19_a_late_settlement_counts_nowhere(self, store: Store) -> None:
        lease = fail(store, "job", fatal("no"))
        late = (fatal("no"), Complete())
        settlements = [Settlement(lease.job_id, lease.version, each) for each in late]
        again, refused = store.exchange(settlements).settled
        assert isinstance(again, Settled)
        assert isinstance(refused, LeaseholdError)
        assert [each.count for each in store.failures()] == [1]
        assert [each.failed for each in store.worker_totals()] == [1]

    def test_met_20_since_when_and_in_which_jobs(self, store: Store, clock: ManualClock) -> None:
        begin = clock.now()
        for number in range(SAMPLE_MAX + 2):
            fail(store, f"job-{number}", fatal("no"))
            clock.advance(MINUTE)
        [found] = store.failures()
        assert found.first_at == begin
        assert found.last_at == clock.now() - timedelta(seconds=MINUTE)
        assert found.jobs == tuple(f"job-{number}" for number in range(SAMPLE_MAX + 1, 1, -1))
        store.discard(list(found.jobs), actor="me")
        assert store.failures() == [found]

    def test_met_20_how_often_in_each_hour(self, store: Store, clock: ManualClock) -> None:
        clock.advance(3600 - clock.now().timestamp() % 3600)
        for number, passed in enumerate((10, 10, 3600, 2 * 3600, HOURS_KEPT * 3600)):
            clock.advance(passed)
            fail(store, f"job-{number}", fatal("no"))
            if number == 3:
                assert store.failures()[0].hours == (1, 0, 1, 2)
        [found] = store.failures()
        assert (found.count, found.hours) == (5, (1, *(0,) * (HOURS_KEPT - 1)))
        assert found.hours_at(clock.now() + timedelta(hours=1))[:3] == (0, 1, 0)

    def test_met_20_a_job_is_named_once(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("job", max_retries=5))
        for _ in range(3):
            settle(store, lease_one(store), FAILURE)
            clock.advance(3600)
        [found] = store.failures()
        assert (found.count, found.jobs) == (3, ("job",))

    def test_met_21_those_that_come_again_are_kept(self, store: Store, clock: ManualClock) -> None:
        for number in range(2):
            fail(store, f"job-{number}", fatal("again and again"))
        fail(store, "once", fatal("only once"))
        clock.advance(MINUTE)
        letters = "abcdefghijkl"
        words = [a + b + c for a in letters for b in letters for c in letters]
        for first in range(0, FAILURES_MAX, 100):
            part = words[first : first + 100]
            submit(store, *(draft(f"job-{word}") for word in part))
            store.exchange(
                [
                    Settlement(lease.job_id, lease.version, fatal(f"{word} is missing"))
                    for word, lease in zip(part, lease_all(store, limit=100), strict=True)
                ]
            )
            clock.advance(1)
        found = store.failures(limit=10_000)
        assert len(found) <= FAILURES_MAX
        messages = {each.message for each in found}
        assert "again and again" in messages
        assert "only once" not in messages
        assert f"{words[FAILURES_MAX - 1]} is missing" in messages

    def test_met_21_pages_have_bounds(self, store: Store) -> None:
        for limit in (0, -1, 10_001):
            with pytest.raises(InvalidPageError, match="limit must be"):
                store.failures(limit=limit)
            with pytest.raises(InvalidPageError, match="limit must be"):
                store.worker_totals(limit=limit)

    def test_met_22_what_each_worker_did(self, store: Store, clock: ManualClock) -> None:
        begin = clock.now()
        submit(store, *(draft(f"job-{number}", max_retries=3) for number in range(8)))
        one, two, three, four = lease_all(store, worker="busy", limit=4, lease_seconds=150)
        [five] = lease_all(store, worker="idle", limit=1)
        settle(store, one, Complete())
        clock.advance(MINUTE)
        settle(store, five, Complete())
        clock.advance(MINUTE + 5)
        settle(store, two, FAILURE)
        settle(store, three, Release())
        clock.advance(MINUTE)
        store.recover()  # the fourth is lost
        busy, idle = store.worker_totals()
        assert (busy.worker, busy.leased, busy.completed, busy.failed, busy.lost) == (
            "busy", 4, 1, 1, 1,
        )  # fmt: skip
        assert (idle.worker, idle.leased, idle.completed, idle.failed, idle.lost) == (
            "idle", 1, 1, 0, 0,
        )  # fmt: skip
        assert (idle.first_at, idle.last_at) == (begin, begin + timedelta(minutes=1))
        assert (busy.first_at, busy.last_at) == (begin, begin + timedelta(minutes=3))
        assert four.worker == "busy"
        stats = store.stats()
        for name in ("leased", "completed", "failed", "lost"):
            assert getattr(busy, name) + getattr(idle, name) == getattr(stats, name)
        assert store.worker_totals(limit=1) == [busy]

    def test_met_22_a_job_that_is_handed_back_is_no_work(
        self, store: Store, clock: ManualClock
    ) -> None:
        begin = clock.now()
        submit(store, draft())
        lease = lease_one(store)
        clock.advance(MINUTE)
        settle(store, lease, Release())
        [worked] = store.worker_totals()
        assert (worked.leased, worked.last_at) == (1, begin)

    def test_met_23_only_the_latest_workers_are_kept(
        self, store: Store, clock: ManualClock
    ) -> None:
        number = WORKERS_KEPT + 2
        submit(store, *(draft(f"job-{each}") for each in range(number)))
        for each in range(number):
            lease_all(store, worker=f"w-{each:04}", limit=1)
            clock.advance(MINUTE if each == 1 else 0)
        clock.advance(MINUTE)
        submit(store, draft("next"))
        kept = {each.worker for each in store.worker_totals(limit=10_000)}
        assert len(kept) == WORKERS_KEPT
        assert {"w-0000", "w-0001"}.isdisjoint(kept)
