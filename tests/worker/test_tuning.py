"""Running workers follow the settings of the store; what they were given in code stays."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from leasehold.core.model.lease import Consumer, LeaseRequest
from leasehold.core.model.retention import PruneReport
from leasehold.core.model.settings import StoredSettings
from leasehold.core.model.status import Event, Status
from leasehold.env import Env, ManualClock
from leasehold.errors import UnsupportedError, WorkerNotFoundError
from leasehold.queue.upkeep import Upkeep
from leasehold.worker.heartbeat import Heartbeat
from leasehold.worker.pruner import Pruner
from leasehold.worker.stopping import StopReason
from leasehold.worker.tuning import Tuning
from leasehold.worker.worker import Worker
from support.workers import PATIENCE_SECONDS, MoodyStore, Tasks, submit_to

Start = Callable[..., Worker]


class CountingStore(MoodyStore):
    """One that also counts looks at its settings and calls of prune."""

    def settings(self) -> StoredSettings:
        self._called("settings")
        return super().settings()

    def prune(self, *args: object, **options: object) -> PruneReport:
        self._called("prune")
        return super().prune(*args, **options)  # type: ignore[arg-type]


@pytest.fixture
def store() -> CountingStore:
    return CountingStore()


def put(store: MoodyStore, name: str, value: float) -> None:
    store.set_setting(name, value, actor="me")


def many_more(store: MoodyStore, call: str) -> None:
    """Wait until a call has come again and again, as it would not by default."""
    before = store.calls[call]
    store.until(lambda: store.calls[call] >= before + 20)


def test_an_idle_worker_polls_as_often_as_is_set(store: CountingStore, start_worker: Start) -> None:
    start_worker()
    put(store, "poll_interval", 0.01)
    many_more(store, "exchange")


def test_it_beats_as_often_as_is_set(store: CountingStore, start_worker: Start) -> None:
    start_worker()
    put(store, "heartbeat_interval", 0.1)
    many_more(store, "renew")


def test_it_sweeps_as_often_as_is_set(store: CountingStore, start_worker: Start) -> None:
    start_worker()
    put(store, "sweep_interval", 0.1)
    many_more(store, "recover")


def test_what_was_set_before_it_started_counts(store: CountingStore, start_worker: Start) -> None:
    put(store, "sweep_interval", 0.1)
    start_worker()
    many_more(store, "recover")


def test_it_gives_up_after_as_many_failures_as_are_set(
    store: CountingStore, tasks: Tasks, start_worker: Start
) -> None:
    go = threading.Event()
    tasks.add(lambda: go.wait(PATIENCE_SECONDS), "wait")
    put(store, "heartbeat_failure_threshold", 1)
    put(store, "heartbeat_interval", 0.1)
    job_id = submit_to(store, "wait")
    start_worker()
    store.until_status(job_id, Status.RUNNING)
    store.refused.add("renew")
    store.until(lambda: Event.ABANDONED in events(store, job_id))
    go.set()
    assert events(store, job_id).count(Event.HEARTBEAT_FAILED) == 1


def events(store: MoodyStore, job_id: str) -> list[Event]:
    return [event.event for event in store.history(job_id)]


def test_its_leases_are_as_long_as_is_set(
    store: CountingStore, tasks: Tasks, start_worker: Start
) -> None:
    go = threading.Event()
    tasks.add(lambda: go.wait(PATIENCE_SECONDS), "wait")
    start_worker()
    put(store, "lease_seconds", 60)
    job = store.until_status(submit_to(store, "wait"), Status.RUNNING)
    assert job.lease_acquired_at is not None
    assert job.lease_expires_at is not None
    assert (job.lease_expires_at - job.lease_acquired_at).total_seconds() == 60
    go.set()


def test_a_worker_without_a_free_slot_hears_of_it_with_its_heartbeat(
    store: CountingStore, tasks: Tasks, start_worker: Start
) -> None:
    go = threading.Event()
    tasks.add(lambda: go.wait(PATIENCE_SECONDS), "wait")
    jobs = [submit_to(store, "wait") for _ in range(2)]
    start_worker(heartbeat_interval_seconds=0.05)
    for job_id in jobs:
        store.until_status(job_id, Status.RUNNING)
    put(store, "sweep_interval", 0.1)
    many_more(store, "recover")
    go.set()


def test_a_worker_stops_when_the_store_says_so(store: CountingStore, start_worker: Start) -> None:
    worker, other = start_worker(), start_worker()
    Upkeep(store, "me").stop_worker(worker.id)
    assert worker.wait(PATIENCE_SECONDS) is StopReason.STOPPED
    assert other.is_running
    assert [each.id for each in store.workers()] == [other.id]


def test_a_stop_was_meant_for_the_worker_that_there_was(
    store: CountingStore, start_worker: Start
) -> None:
    first = start_worker(worker_id="the-one")
    Upkeep(store, "me").stop_worker("the-one")
    assert first.wait(PATIENCE_SECONDS) is StopReason.STOPPED
    second = start_worker(worker_id="the-one")
    put(store, "poll_interval", 0.01)
    many_more(store, "exchange")
    assert second.is_running
    Upkeep(store, "me").stop_worker("the-one")
    assert second.wait(PATIENCE_SECONDS) is StopReason.STOPPED


def test_only_a_worker_that_is_there_and_listens_can_be_asked_to_stop(
    store: CountingStore,
) -> None:
    with pytest.raises(WorkerNotFoundError, match="nobody"):
        Upkeep(store, "me").stop_worker("nobody")
    consumer = Consumer(queues=("default",), host="here", pid=1)
    store.exchange(request=LeaseRequest(worker="loop", queues=("default",), consumer=consumer))
    with pytest.raises(UnsupportedError, match="which cannot be asked to stop"):
        Upkeep(store, "me").stop_worker("loop")


def test_what_it_was_given_in_code_stays(store: CountingStore, start_worker: Start) -> None:
    worker = start_worker(
        poll_interval_seconds=3600,
        heartbeat_interval_seconds=3600,
        sweep_interval_seconds=3600,
        lease_seconds=7,
    )
    looked = store.calls["settings"]
    for name in ("poll_interval", "heartbeat_interval", "sweep_interval"):
        put(store, name, 0.1)
    put(store, "heartbeat_failure_threshold", 9)
    store.until(lambda: store.calls["settings"] > looked)
    store.until(lambda: worker._heartbeat._failure_threshold == 9)
    assert worker._loop.poll_interval_seconds == 3600
    assert worker._heartbeat._interval_seconds == 3600
    assert worker._sweep is not None
    assert worker._sweep._interval_seconds == 3600
    assert worker._tuning.seconds("lease_seconds") == 7


def test_a_pruner_looks_at_once_when_retention_changes(
    clock: ManualClock, env: Env, start_worker: Start
) -> None:
    store = CountingStore(env)
    start_worker(store=store, env=env)
    put(store, "max_retries", 1)
    store.until(lambda: store.calls["settings"] >= 2)
    # The clock stands still: by itself it would look within a minute.
    put(store, "prune_interval", 60)
    store.until(lambda: store.calls["prune"] > 0)
    assert clock.monotonic() == 0


def test_a_hurry_cuts_no_pause_within_a_clean_up_short(clock: ManualClock, env: Env) -> None:
    pruner = Pruner(CountingStore(env), env=env)
    pruner.hurry()
    pruner._rest(3600)
    pauses = threading.Thread(target=pruner._pause, args=(5,))
    pauses.start()
    while not clock._waiting:
        pauses.join(0.001)
    clock.advance(5)
    pauses.join(PATIENCE_SECONDS)
    assert not pauses.is_alive()


def test_a_store_that_cannot_say_leaves_what_was_known(store: CountingStore) -> None:
    told: list[frozenset[str]] = []
    tuning = Tuning(store, {}, told.append)
    put(store, "poll_interval", 2)
    tuning.look()
    put(store, "poll_interval", 3)
    store.refused.add("settings")
    tuning.note(store.exchange().settings_generation)
    assert tuning.seconds("poll_interval") == 2
    store.refused.clear()
    tuning.note(store.exchange().settings_generation)
    assert tuning.seconds("poll_interval") == 3
    assert told == [{"poll_interval"}] * 2


def test_it_looks_only_when_something_changed(store: CountingStore) -> None:
    tuning = Tuning(store, {})
    for _ in range(5):
        tuning.note(store.exchange().settings_generation)
    assert store.calls["settings"] == 0
    put(store, "poll_interval", 2)
    for _ in range(5):
        tuning.note(store.exchange().settings_generation)
    assert store.calls["settings"] == 1


def test_an_older_answer_does_not_undo_a_newer_one(store: CountingStore) -> None:
    put(store, "poll_interval", 2)
    old = store.settings()
    put(store, "poll_interval", 3)
    tuning = Tuning(store, {})
    tuning.look()
    store.settings = lambda: old  # type: ignore[method-assign]
    tuning.look()
    assert tuning.seconds("poll_interval") == 3


def test_a_failing_look_is_no_failed_heartbeat(store: CountingStore) -> None:
    beaten = threading.Event()

    def on_beat() -> None:
        beaten.set()
        Tuning(store, {}).look()

    store.refused.add("settings")
    heartbeat = Heartbeat(
        store, "me", interval_seconds=0.01, on_lost=print, on_cancel=print, on_beat=on_beat
    )
    heartbeat.start()
    assert beaten.wait(PATIENCE_SECONDS)
    heartbeat.stop()
    assert heartbeat.consecutive_failures == 0


class FarStore(CountingStore):
    """One that cannot prove the death of its workers."""

    worker_lease_seconds = 30.0


def test_where_no_death_is_proved_leases_are_short_unless_somebody_says_otherwise() -> None:
    here, far = CountingStore(), FarStore()
    assert Tuning(here, {}).lease_seconds_asked is None
    assert Tuning(far, {"lease_seconds": 90.0}).lease_seconds_asked == 90.0
    tuning = Tuning(far, {})
    assert tuning.lease_seconds_asked == 30.0
    put(far, "lease_seconds", 120.0)
    tuning.look()
    assert tuning.lease_seconds_asked is None  # the store has it from the setting
    assert tuning.seconds("lease_seconds") == 120.0


@pytest.mark.parametrize(("setting", "seconds"), [(None, 30), (60, 60)])
def test_a_worker_of_such_a_store_leases_for_as_long(
    tasks: Tasks, start_worker: Start, setting: float | None, seconds: float
) -> None:
    store = FarStore()
    go = threading.Event()
    tasks.add(lambda: go.wait(PATIENCE_SECONDS), "wait")
    if setting is not None:
        put(store, "lease_seconds", setting)
    start_worker(store=store)
    job = store.until_status(submit_to(store, "wait"), Status.RUNNING)
    assert job.lease_acquired_at is not None
    assert job.lease_expires_at is not None
    assert (job.lease_expires_at - job.lease_acquired_at).total_seconds() == seconds
    go.set()
