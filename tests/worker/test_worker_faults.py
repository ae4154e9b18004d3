"""The worker when its store is in trouble, or its lease is gone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial

import pytest

from leasehold.core.model.job import Draft
from leasehold.core.model.lease import Exchange, Lease, LeaseRequest, Settlement
from leasehold.core.model.limits import PAYLOAD_BYTES_MAX
from leasehold.core.model.outcome import Complete, Fail, JobError, Snooze
from leasehold.core.model.retry import Constant
from leasehold.core.model.schedule import ScheduleDraft
from leasehold.core.model.status import Event, Status
from leasehold.core.model.timing import Every
from leasehold.env import Env, ManualClock
from leasehold.errors import (
    InvalidJobError,
    InvalidTransitionError,
    LeaseLostError,
    RequestTooLargeError,
    StoreError,
    StoreUnavailableError,
)
from leasehold.worker.context import JobContext, current_job
from leasehold.worker.hooks import Hooks
from leasehold.worker.leases import LeaseManager
from leasehold.worker.settling import Settling
from leasehold.worker.stopping import StopReason
from leasehold.worker.worker import Worker
from support.workers import PATIENCE_SECONDS, MoodyStore, Tasks, submit_to

Start = Callable[..., Worker]


class Held:
    """A task that runs until it should stop, or is let go, and what its worker said."""

    def __init__(self, tasks: Tasks) -> None:
        self.begun = threading.Event()
        self.go = threading.Event()
        self.told = threading.Event()
        self.errors: list[LeaseLostError | StoreError] = []
        self.context: JobContext | None = None
        self.hooks = Hooks(on_lease_lost=self._on_lease_lost)
        tasks.add(self.task)

    def task(self) -> str:
        self.context = current_job()
        self.begun.set()
        assert self.go.wait(PATIENCE_SECONDS)
        return "stale"

    def _on_lease_lost(self, lease: Lease, error: LeaseLostError | StoreError) -> None:
        self.errors.append(error)
        self.told.set()

    def until_begun(self) -> None:
        assert self.begun.wait(PATIENCE_SECONDS)


def test_a_finished_result_outlives_a_store_that_is_away(
    store: MoodyStore, tasks: Tasks, start_worker: Start
) -> None:
    held = Held(tasks)
    job_id = submit_to(store, "task")
    start_worker(heartbeat_interval_seconds=0.05)
    held.until_begun()
    store.refused.add("exchange")
    calls = store.calls["exchange"]
    held.go.set()
    store.until(lambda: store.calls["exchange"] >= calls + 3)
    assert store.job(job_id).status is Status.RUNNING
    # Its lease is kept as long as its result waits.
    store.renewed.clear()
    store.until(lambda: job_id in store.renewed)
    store.refused.clear()
    assert store.until_status(job_id, Status.COMPLETED).result == "stale"


def test_after_failed_heartbeats_the_job_is_abandoned_and_its_result_discarded(
    store: MoodyStore, tasks: Tasks, start_worker: Start
) -> None:
    held = Held(tasks)
    job_id = submit_to(store, "task")
    worker = start_worker(heartbeat_interval_seconds=0.02, hooks=held.hooks)
    held.until_begun()
    # Not before: a beat that fails while nothing is held counts too.
    store.refused.add("renew")
    assert held.told.wait(PATIENCE_SECONDS)
    assert held.context is not None
    assert held.context.lease_lost
    held.go.set()
    assert worker.stop()
    events = [event.event for event in store.history(job_id)]
    assert Event.ABANDONED in events
    assert events.count(Event.HEARTBEAT_FAILED) >= 3
    assert Event.COMPLETED not in events
    assert store.job(job_id).result_data is None
    assert worker.statistics.leases_lost == 1
    assert len(held.errors) == 1


def test_a_stale_result_is_discarded_and_the_new_holder_keeps_the_job(
    store: MoodyStore, tasks: Tasks, start_worker: Start
) -> None:
    held = Held(tasks)
    job_id = submit_to(store, "task")
    worker = start_worker(hooks=held.hooks, slots=1)
    held.until_begun()
    version = store.job(job_id).lease_version
    worker.request_stop()  # It must not lease the job again.
    store.recover_one(job_id, version, reset_attempts=False, reason="test")
    [lease] = LeaseManager(store, "other").acquire()
    held.go.set()
    assert worker.wait(PATIENCE_SECONDS) is StopReason.STOPPED
    [error] = held.errors
    assert isinstance(error, LeaseLostError)
    job = store.job(job_id)
    assert (job.status, job.worker, job.lease_version) == (Status.RUNNING, "other", lease.version)
    assert Event.VERSION_MISMATCH in [event.event for event in store.history(job_id)]


def test_a_closed_store_ends_the_worker(
    store: MoodyStore, tasks: Tasks, start_worker: Start
) -> None:
    worker = start_worker(poll_interval_seconds=0.01, enable_recovery=False)
    store.until(lambda: store.calls["exchange"] >= 1)
    store.close()
    assert worker.wait(PATIENCE_SECONDS) is StopReason.STORE_LOST


def test_a_stop_does_not_wait_for_ever_for_a_store_that_is_away(
    store: MoodyStore, tasks: Tasks, start_worker: Start
) -> None:
    held = Held(tasks)
    submit_to(store, "task")
    worker = start_worker(grace_seconds=0)
    held.until_begun()
    store.refused.add("exchange")
    worker.request_stop()
    assert worker.wait(PATIENCE_SECONDS) is StopReason.STOPPED
    held.go.set()


def test_a_tick_that_breaks_does_not_end_the_worker(
    store: MoodyStore, tasks: Tasks, start_worker: Start
) -> None:
    broken = threading.Event()

    def explode() -> None:
        del store.before["exchange"]
        broken.set()
        raise RuntimeError("a bug")

    tasks.add(lambda: None, "quick")
    store.before["exchange"] = explode
    start_worker()
    assert broken.wait(PATIENCE_SECONDS)
    store.until_status(submit_to(store, "quick"), Status.COMPLETED)


def test_a_store_that_goes_away_behind_an_exchange_breaks_no_tick(
    store: MoodyStore,
    tasks: Tasks,
    start_worker: Start,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The answer says when it was given, so that nothing has to be asked to make use of it."""
    tasks.add(lambda: None, "later")
    hourly = ScheduleDraft(name="s", timing=Every(3600), job=Draft(id="s", task="later"))
    store.set_schedule(hourly, actor="me")
    run_at = store.now() + timedelta(seconds=0.1)

    def lost() -> datetime:
        raise StoreUnavailableError("the connection is lost")

    monkeypatch.setattr(store, "now", lost)
    start_worker()
    store.until_status(submit_to(store, "later", run_at=run_at), Status.COMPLETED)
    assert [line for line in caplog.messages if "unexpected error in its main loop" in line] == []


@pytest.mark.parametrize(
    "refusal",
    [
        UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"),
        InvalidJobError("text that is not UTF-8 cannot be stored"),
        RequestTooLargeError("too large"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_outcome_that_cannot_be_stored_fails_its_own_job_only(
    store: MoodyStore, tasks: Tasks, start_worker: Start, refusal: Exception
) -> None:
    original = store.exchange

    def picky(
        settlements: Sequence[Settlement] = (), request: LeaseRequest | None = None
    ) -> Exchange:
        for settlement in settlements:
            if isinstance(settlement.outcome, Snooze):
                raise refusal
        return original(settlements, request)

    store.exchange = picky  # type: ignore[method-assign]
    tasks.add(lambda: Snooze(1, "\ud800"), "strange")
    tasks.add(lambda: None, "quick")
    strange, quick = submit_to(store, "strange"), submit_to(store, "quick")
    start_worker()
    store.until_status(quick, Status.COMPLETED)
    store.until_status(strange, Status.DEAD)
    job = store.get(strange)
    assert job is not None
    assert job.error is not None
    assert "cannot be stored" in job.error.message


@pytest.mark.parametrize(
    "bug",
    [IndexError, ValueError, TypeError, OverflowError, RecursionError, InvalidTransitionError],
)
def test_a_bug_of_the_store_while_it_settles_does_not_condemn_the_job(
    store: MoodyStore, tasks: Tasks, start_worker: Start, bug: type[Exception]
) -> None:
    original = store.exchange
    left = [2]  # One for the exchange with everybody's outcomes, one for that of this job alone.

    def buggy(
        settlements: Sequence[Settlement] = (), request: LeaseRequest | None = None
    ) -> Exchange:
        if settlements and left[0]:
            left[0] -= 1
            raise bug("of the store, not of the outcome")
        return original(settlements, request)

    store.exchange = buggy  # type: ignore[method-assign]
    tasks.add(lambda: "done", "good")
    good = submit_to(store, "good", retry=Constant(0))
    start_worker()
    job = store.until_status(good, Status.COMPLETED)
    assert (job.result, job.attempts) == ("done", 2)


def test_a_worker_recovers_what_another_one_lost(
    store: MoodyStore, tasks: Tasks, start_worker: Start
) -> None:
    tasks.add(lambda: None, "quick")
    job_id = submit_to(store, "quick")
    LeaseManager(store, "gone", lease_seconds=0.01).acquire()
    worker = start_worker(sweep_interval_seconds=0.05)
    store.until_status(job_id, Status.COMPLETED)
    # A scan is counted when it has ended: by then others may have run what it took back.
    assert worker.stop()
    sweep = worker.statistics.sweep
    assert sweep is not None
    assert sweep.total_recovered == 1


def test_a_long_job_keeps_its_lease(
    timed_store: MoodyStore, tasks: Tasks, start_worker: Start, clock: ManualClock, env: Env
) -> None:
    store = timed_store
    held = Held(tasks)
    job_id = submit_to(store, "task")
    start_worker(store=store, env=env, lease_seconds=60, sweep_interval_seconds=10)
    held.until_begun()

    def renewed_and_swept(times: int) -> bool:
        return store.calls["renew"] >= times and store.calls["recover"] > times

    for times in range(1, 7):
        clock.advance(25)
        store.until(partial(renewed_and_swept, times))
    held.go.set()
    assert store.until_status(job_id, Status.COMPLETED).attempts == 1


def test_a_refused_note_is_not_told_as_a_large_result(store: MoodyStore) -> None:
    told: list[str] = []
    settling = Settling(Hooks(on_dead=lambda lease, settled, error: told.append(error.message)))
    job_id = submit_to(store, "task")
    [lease] = LeaseManager(store, "me").acquire()
    # As a service answers a note that is no JSON.
    refused = Fail(JobError("PayloadError", "the note: it is no JSON"), retryable=False)
    answer = store.exchange([Settlement(lease.job_id, lease.version, refused)])
    settling.answered([(lease, Complete(b"1", note=b"{"))], answer.settled)
    assert told == ["the store refused the job's result or its note; the job's own error says why"]
    assert store.job(job_id).status is Status.DEAD


def test_a_result_that_the_store_refuses_is_told_as_a_failure(store: MoodyStore) -> None:
    told: list[str] = []
    settling = Settling(
        Hooks(
            on_success=lambda lease, settled: told.append("success"),
            on_dead=lambda lease, settled, error: told.append(error.type),
        )
    )
    job_id = submit_to(store, "task")
    [lease] = LeaseManager(store, "me").acquire()
    settling.add(lease, Complete(b'"%s"' % (b"x" * PAYLOAD_BYTES_MAX)))
    sent = settling.waiting()
    settlements = [Settlement(lease.job_id, lease.version, outcome) for lease, outcome in sent]
    settling.answered(sent, store.exchange(settlements).settled)
    assert told == ["PayloadTooLargeError"]
    assert (settling.completed, settling.dead, len(settling)) == (0, 1, 0)
    assert store.job(job_id).status is Status.DEAD
