"""FAI, HIS-3: a job's record of its failures, and the words of its history."""

from __future__ import annotations

from datetime import datetime, timedelta

from leasehold.core.contract.store import Store
from leasehold.core.model.job import Job
from leasehold.core.model.lease import Settlement
from leasehold.core.model.limits import ATTEMPT_RECORDS_MAX
from leasehold.core.model.outcome import Cancel, Complete, Release, Snooze
from leasehold.core.model.retention import RetentionPolicy
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Event, Status
from leasehold.env import ManualClock
from leasehold.errors import LeaseLostError
from leasehold.testing.conformance.base import (
    FAILURE,
    FATAL,
    RETRY_SECONDS,
    ConformanceBase,
    assert_history_replays,
    draft,
    get,
    lease_one,
    settle,
    submit,
)
from leasehold.testing.conformance.retaining import EMERGENCY, clean

Failures = tuple[int, datetime | None, datetime | None]


def failures(job: Job) -> Failures:
    return job.failure_count, job.first_failed_at, job.last_failed_at


def fail_often(store: Store, clock: ManualClock, times: int) -> None:
    """Let the one job fail so many times; each time it is due again."""
    for _ in range(times):
        settle(store, lease_one(store), FAILURE)
        clock.advance(RETRY_SECONDS)


def stale_settlement(store: Store, version: int) -> None:
    (answer,) = store.exchange([Settlement("job", version, Complete())]).settled
    assert isinstance(answer, LeaseLostError)


class TellingClauses(ConformanceBase):
    # -- failures ----------------------------------------------------------------------------

    def test_fai_1_failed_and_lost_attempts_count(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft())
        assert failures(get(store)) == (0, None, None)
        first = store.now()
        settle(store, lease_one(store), FAILURE)
        assert failures(get(store)) == (1, first, first)
        clock.advance(RETRY_SECONDS)
        lease_one(store, lease_seconds=10)
        clock.advance(10)
        store.recover()
        assert failures(get(store)) == (2, first, store.now())
        lease = lease_one(store)
        assert failures(get(store)) == (2, first, store.now()), "it is told while it runs"
        clock.advance(1)
        settle(store, lease, Complete())
        assert failures(get(store)) == (2, first, store.now() - timedelta(seconds=1))
        (found,) = store.search(JobFilter()).jobs
        assert failures(found) == failures(get(store))

    def test_fai_1_what_is_no_failure(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft())
        settle(store, lease_one(store), Snooze(1))
        clock.advance(1)
        settle(store, lease_one(store), Release())
        lease = lease_one(store)
        store.cancel(["job"], reason="no need", actor="me")
        settle(store, lease, FAILURE)
        assert get(store).status is Status.CANCELLED
        assert failures(get(store)) == (0, None, None)
        store.replay(["job"], reset_attempts=False, actor="me")
        settle(store, lease_one(store), Cancel("enough"))
        assert failures(get(store)) == (0, None, None)

    def test_fai_1_beyond_the_bound_on_records(self, store: Store, clock: ManualClock) -> None:
        first = store.now()
        submit(store, draft(max_retries=ATTEMPT_RECORDS_MAX + 10))
        fail_often(store, clock, ATTEMPT_RECORDS_MAX + 5)
        assert len(store.attempts("job")) == ATTEMPT_RECORDS_MAX
        last = store.now() - timedelta(seconds=RETRY_SECONDS)
        assert failures(get(store)) == (ATTEMPT_RECORDS_MAX + 5, first, last)

    def test_fai_1_a_replay_leaves_them(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft())
        first = store.now()
        settle(store, lease_one(store), FATAL)
        for reset in (True, False):
            clock.advance(60)
            store.replay(["job"], reset_attempts=reset, actor="me")
            assert get(store).failure_count == 1 + (not reset)
            settle(store, lease_one(store), FATAL)
        assert failures(get(store)) == (3, first, store.now())

    def test_fai_1_clean_ups_leave_them(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft())
        fail_often(store, clock, 2)
        settle(store, lease_one(store), Complete())
        told = failures(get(store))
        assert told[0] == 2
        clean(store, RetentionPolicy(history_events_max=0))
        assert (store.history("job"), store.attempts("job")) == ([], [])
        assert failures(get(store)) == told
        clean(store, scope=EMERGENCY)
        old = store.archived("job")
        assert old is not None
        assert (old.failure_count, old.first_failed_at, old.last_failed_at) == told

    def test_fai_1_an_id_that_is_used_again(self, store: Store) -> None:
        submit(store, draft())
        settle(store, lease_one(store), FATAL)
        store.discard(["job"], actor="me")
        submit(store, draft())
        assert failures(get(store)) == (0, None, None)

    # -- words -------------------------------------------------------------------------------

    def test_his_3_who_leased_it_and_how_that_ended(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft(delay_seconds=5))
        clock.advance(5)
        lease = lease_one(store, worker="anna", lease_seconds=60)
        until = (store.now() + timedelta(seconds=60)).isoformat(timespec="seconds")
        clock.advance(2.5)
        settle(store, lease, FAILURE)
        clock.advance(RETRY_SECONDS)
        lease = lease_one(store, worker="bert", lease_seconds=60)
        clock.advance(75)
        settle(store, lease, Complete())
        told = [(each.event.value, each.worker, each.message) for each in store.history("job")]
        assert told[:4] == [
            ("created", None, "submitted; runs later"),
            ("promoted", None, "due"),
            ("leased", "anna", f"leased by anna until {until}"),
            ("failed", "anna", "OSError: the line is dead"),
        ]
        assert told[4] == ("promoted", None, "due for a retry")
        assert told[6] == ("completed", "bert", "completed by bert after 1m15s")

    def test_his_3_from_whom_it_was_recovered_and_why(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit(store, draft())
        lease_one(store, worker="anna", lease_seconds=10)
        clock.advance(10)
        store.recover()
        last = store.history("job")[-1]
        assert (last.event, last.worker) == (Event.RECOVERED, "anna")
        assert last.message.startswith("worker anna let its lease expire at")

    def test_his_3_every_event_has_words(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft(), draft("other", depends_on=("job",)))
        for outcome in (Snooze(1), Release(), Release(1), Cancel()):
            lease = lease_one(store, worker="anna")
            settle(store, lease, outcome)
            clock.advance(1)
        store.replay(["job"], reset_attempts=True, actor="me")
        store.reprioritize("job", 90, actor="me")
        lease = lease_one(store, worker="anna")
        store.tell("job", Event.ABANDONED, worker="anna", version=lease.version, message="")
        store.cancel(["job"], reason="", actor="me")
        settle(store, lease, Complete())
        store.cancel(["other"], reason="", actor="me")
        told = [*store.history("job"), *store.history("other")]
        assert [each for each in told if not each.message] == []
        about_leases = [each for each in told if Status.RUNNING in (each.before, each.after)]
        assert {each.worker for each in about_leases} == {"anna"}
        assert {each.worker for each in told if each not in about_leases} == {None}

    def test_his_3_a_stale_holder_is_named(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft(max_retries=ATTEMPT_RECORDS_MAX + 10))
        old = lease_one(store, worker="anna")
        settle(store, old, FAILURE)
        clock.advance(RETRY_SECONDS)
        stale_settlement(store, old.version)
        fail_often(store, clock, ATTEMPT_RECORDS_MAX)
        stale_settlement(store, old.version)
        assert old.version not in {each.lease_version for each in store.attempts("job")}
        stale_settlement(store, 1_000_000)
        refused = [e for e in store.history("job") if e.event is Event.VERSION_MISMATCH]
        assert [(each.worker, each.lease_version) for each in refused] == [
            ("anna", old.version), ("anna", old.version), (None, 1_000_000),
        ]  # fmt: skip
        assert all("anna" in each.message for each in refused[:2])

    def test_his_3_the_words_outlive_the_records(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft(max_retries=ATTEMPT_RECORDS_MAX + 10))
        lease = lease_one(store, worker="anna", lease_seconds=60)
        clock.advance(3)
        settle(store, lease, Release())
        before = store.history("job")
        fail_often(store, clock, ATTEMPT_RECORDS_MAX)
        assert lease.version not in {each.lease_version for each in store.attempts("job")}
        assert store.history("job")[: len(before)] == before
        assert before[-1].message == "handed back by anna after 3s"
        page = store.history_page("job", limit=1, cursor="2")
        assert page.events == before[2:3], "also if it is read in parts"
        assert_history_replays(store, get(store))

    def test_rec_2_as_many_records_as_are_set(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft(max_retries=100))
        fail_often(store, clock, 6)
        store.set_setting("attempt_records_max", 3, actor="me")
        fail_often(store, clock, 1)
        assert [each.number for each in store.attempts("job")] == [5, 6, 7]
        store.set_setting("attempt_records_max", 4, actor="me")
        fail_often(store, clock, 2)
        assert [each.number for each in store.attempts("job")] == [6, 7, 8, 9]
        assert get(store).failure_count == 9
        assert_history_replays(store, get(store))
