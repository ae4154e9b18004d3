"""CAN, RPL, DIS, PRI: what people do to jobs."""

from __future__ import annotations

from typing import Any

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.outcome import Complete, Release
from leasehold.core.model.status import Event, Status
from leasehold.env import ManualClock
from leasehold.errors import InvalidJobError, InvalidTransitionError, JobNotFoundError
from leasehold.testing.conformance.base import (
    FAILURE,
    ConformanceBase,
    assert_history_replays,
    draft,
    events,
    get,
    job_of,
    kill,
    lease_all,
    lease_one,
    settle,
    submit,
)


class PeopleClauses(ConformanceBase):
    def test_can_1_a_waiting_job_never_runs(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("failed"))
        settle(store, lease_one(store), FAILURE)
        submit(store, draft("pending"), draft("scheduled", delay_seconds=1))
        answers = store.cancel(["pending", "scheduled", "failed"], reason="no need", actor="me")
        for name, answer in zip(["pending", "scheduled", "failed"], answers, strict=True):
            assert answer == get(store, name)
            job = get(store, name)
            assert (job.status, job.reason) == (Status.CANCELLED, "no need")
            assert job.completed_at == store.now()
            assert_history_replays(store, job)
        clock.advance(600)
        assert store.promote() == 0
        assert lease_all(store) == []
        assert store.stats().cancelled == 3

    def test_can_2_a_running_job_is_asked_to_stop(self, store: Store) -> None:
        submit(store, draft())
        lease = lease_one(store)
        job = job_of(store.cancel(["job"], reason="first", actor="me"))
        assert (job.status, job.cancel_requested) == (Status.RUNNING, "first")
        job = job_of(store.cancel(["job"], reason="second", actor="me"))
        assert job.cancel_requested == "first"
        assert store.stats().cancelled == 0
        assert settle(store, lease, Release()).status is Status.CANCELLED
        assert get(store).reason == "first"
        assert Event.CANCEL_REQUESTED in events(store)
        assert_history_replays(store, get(store))

    def test_can_2_or_ends_when_its_lease_is_lost(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft())
        lease_one(store, lease_seconds=10)
        store.cancel(["job"], reason="no need", actor="me")
        clock.advance(10)
        assert store.recover().cancelled == 1
        assert get(store).status is Status.CANCELLED

    def test_can_4_a_reason_is_text(self, store: Store) -> None:
        submit(store, draft())
        lease = lease_one(store)
        for reason in (b"\xff\x00", 2**70, ["a"]):
            wrong: Any = reason
            with pytest.raises(InvalidJobError):
                store.cancel(["job"], reason=wrong, actor="me")
            with pytest.raises(InvalidJobError):
                store.recover_one(
                    "job", lease.version, reset_attempts=False, reason=wrong, actor="me"
                )
        assert get(store).cancel_requested is None
        assert store.check() == []

    def test_can_3_what_cannot_be_cancelled(self, store: Store) -> None:
        kill(store, "dead")
        submit(store, draft("done"), draft("waiting"))
        settle(store, lease_one(store), Complete())
        before = get(store, "done")
        answers = store.cancel(["done", "dead", "nobody", "waiting"], reason="", actor="me")
        assert isinstance(answers[0], InvalidTransitionError)
        assert isinstance(answers[1], InvalidTransitionError)
        assert isinstance(answers[2], JobNotFoundError)
        assert answers[3] == get(store, "waiting")
        assert get(store, "done") == before

    def test_rpl_1_dead_and_cancelled_jobs_run_again(self, store: Store) -> None:
        dead = kill(store, "dead", payload=b"[1,2]")
        submit(store, draft("cancelled", payload=b"[3]"))
        store.cancel(["cancelled"], reason="oops", actor="me")
        answers = store.replay(["dead", "cancelled"], reset_attempts=False, actor="me")
        for name, answer in zip(["dead", "cancelled"], answers, strict=True):
            job = get(store, name)
            assert answer == job
            assert (job.status, job.completed_at, job.reason) == (Status.PENDING, None, None)
            assert_history_replays(store, job)
        assert get(store, "dead").lease_version == dead.lease_version
        leases = {lease.job_id: lease for lease in lease_all(store)}
        assert (leases["dead"].payload, leases["cancelled"].payload) == (b"[1,2]", b"[3]")
        assert leases["dead"].version > dead.lease_version

    def test_rpl_1_a_late_start_is_forgiven(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft(start_within_seconds=1))
        clock.advance(2)
        assert lease_all(store) == []
        assert job_of(store.replay(["job"], reset_attempts=True, actor="me")).start_by is None
        assert lease_one(store).job_id == "job"

    def test_rpl_2_with_reset_the_full_allowance(self, store: Store) -> None:
        submit(store, draft(max_retries=0))
        settle(store, lease_one(store), FAILURE)
        store.replay(["job"], reset_attempts=False, actor="me")
        settle(store, lease_one(store), FAILURE)
        job = job_of(store.replay(["job"], reset_attempts=True, actor="me"))
        assert (job.attempts, job.allowance) == (0, 1)
        lease = lease_one(store)
        assert (lease.attempt, lease.allowance) == (1, 1)
        assert_history_replays(store, get(store))

    def test_rpl_2_without_reset_one_attempt_more(self, store: Store) -> None:
        submit(store, draft(max_retries=0))
        settle(store, lease_one(store), FAILURE)
        job = job_of(store.replay(["job"], reset_attempts=False, actor="me"))
        assert (job.attempts, job.allowance) == (1, 2)
        lease = lease_one(store)
        assert (lease.attempt, lease.allowance) == (2, 2)
        assert settle(store, lease, FAILURE).status is Status.DEAD
        assert_history_replays(store, get(store))

    def test_rpl_2_what_was_left_is_not_lost(self, store: Store) -> None:
        submit(store, draft(max_retries=3))
        store.cancel(["job"], reason="", actor="me")
        job = job_of(store.replay(["job"], reset_attempts=False, actor="me"))
        assert (job.attempts, job.allowance) == (0, 5)

    def test_rpl_3_other_jobs_cannot_be_replayed(self, store: Store) -> None:
        submit(store, draft("done"), draft("running"), draft("pending"))
        settle(store, lease_one(store), Complete())
        lease_one(store)
        submit(store, draft("scheduled", delay_seconds=1))
        names = ["done", "running", "pending", "scheduled"]
        before = [get(store, name) for name in names]
        answers = store.replay([*names, "nobody"], reset_attempts=True, actor="me")
        assert all(isinstance(answer, InvalidTransitionError) for answer in answers[:4])
        assert isinstance(answers[4], JobNotFoundError)
        assert [get(store, name) for name in names] == before

    def test_dis_1_only_what_has_ended(self, store: Store) -> None:
        dead = kill(store, "dead")
        submit(store, draft("running"), draft("pending"))
        lease_one(store)
        answers = store.discard(["running", "dead", "pending", "nobody"], actor="me")
        assert isinstance(answers[0], InvalidTransitionError)
        assert answers[1] == dead
        assert isinstance(answers[2], InvalidTransitionError)
        assert isinstance(answers[3], JobNotFoundError)
        assert store.get("dead") is None
        assert (store.history("dead"), store.attempts("dead")) == ([], [])
        assert store.log("dead").lines == []
        stats = store.stats()
        assert (stats.cleaned, stats.counts[Status.DEAD], stats.dead) == (1, 0, 1)
        assert store.check() == []

    def test_dis_2_a_version_is_never_granted_again(self, store: Store) -> None:
        submit(store, draft())
        for _ in range(5):
            settle(store, lease_one(store), Release())
        lease = lease_one(store)
        settle(store, lease, Complete())
        store.discard(["job"], actor="me")
        submit(store, draft())
        assert lease_one(store).version > lease.version

    def test_dis_3_the_key_is_free_again(self, store: Store) -> None:
        kill(store, "first", idempotency_key="key")
        store.discard(["first"], actor="me")
        (answer,) = submit(store, draft("second", idempotency_key="key", payload=b"[2]"))
        assert (answer.id, answer.is_duplicate) == ("second", False)

    def test_pri_1_a_waiting_job_keeps_its_place_in_time(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit(store, draft("a"), draft("b"), draft("c", priority=70))
        submit(store, draft("later", delay_seconds=5))
        assert store.reprioritize("c", 50, actor="me") == get(store, "c")
        store.reprioritize("b", 60, actor="me")
        store.reprioritize("b", 50, actor="me")
        store.reprioritize("later", 99, actor="me")
        clock.advance(5)
        assert [lease.job_id for lease in lease_all(store)] == ["later", "a", "b", "c"]
        assert events(store, "b")[1:3] == [Event.REPRIORITIZED] * 2
        assert_history_replays(store, get(store, "b"))

    def test_pri_1_what_cannot_be_reprioritized(self, store: Store) -> None:
        submit(store, draft("running"))
        lease = lease_one(store)
        with pytest.raises(InvalidTransitionError):
            store.reprioritize("running", 1, actor="me")
        settle(store, lease, Complete())
        with pytest.raises(InvalidTransitionError):
            store.reprioritize("running", 1, actor="me")
        with pytest.raises(JobNotFoundError):
            store.reprioritize("nobody", 1, actor="me")
        submit(store, draft("waiting"))
        with pytest.raises(InvalidJobError):
            store.reprioritize("waiting", 101, actor="me")
        assert get(store, "waiting").priority == 50
