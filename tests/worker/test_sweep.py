from __future__ import annotations

from collections.abc import Callable

import pytest

from leasehold.core.model.lease import Lease, Settled, SweepReport
from leasehold.core.model.outcome import JobError
from leasehold.core.model.status import Status
from leasehold.env import Env, ManualClock
from leasehold.errors import StoreUnavailableError
from leasehold.worker.banner import NAMES_MAX
from leasehold.worker.hooks import Hooks
from leasehold.worker.leases import LeaseManager
from leasehold.worker.lost import LINES_MAX
from leasehold.worker.sweep import ProvesDeath, RecoverySweep
from leasehold.worker.worker import Worker
from support.workers import MoodyStore, MortalStore, submit_to


def lose_a_job(store: MoodyStore, clock: ManualClock) -> str:
    job_id = submit_to(store, "t")
    LeaseManager(store, "gone", lease_seconds=10).acquire()
    clock.advance(11)
    return job_id


def advance_until(
    store: MoodyStore, clock: ManualClock, condition: Callable[[], bool], seconds: float = 1.0
) -> None:
    """Turn the clock, a little at a time, as often as it takes."""
    while not condition():
        clock.advance(seconds)
        with store.news:
            store.news.wait(0.01)


def test_it_recovers_and_reports(timed_store: MoodyStore, clock: ManualClock, env: Env) -> None:
    job_id = lose_a_job(timed_store, clock)
    sweep = RecoverySweep(timed_store, env=env)
    report = sweep.scan_and_recover()
    assert (report.expired_found, report.recovered, report.checkpoints_created) == (1, 1, 1)
    assert timed_store.job(job_id).status is Status.PENDING
    statistics = sweep.statistics()
    assert not statistics.is_running
    assert (statistics.total_scans, statistics.total_recovered, statistics.total_dead) == (1, 1, 0)
    assert statistics.last_scan == clock.now()
    assert statistics.last_report == report


def test_hooks_are_called_for_a_lost_job_as_for_any_failure(
    timed_store: MoodyStore, clock: ManualClock, env: Env, caplog: pytest.LogCaptureFixture
) -> None:
    job_id = submit_to(timed_store, "t", max_retries=1, metadata={"for": "eve"})
    heard: list[tuple[str, Lease, Settled, JobError]] = []
    hooks = Hooks(
        on_failure=lambda *about: heard.append(("failed", *about)),
        on_dead=lambda *about: heard.append(("dead", *about)),
    )
    leased = []
    for _ in range(2):
        leased += LeaseManager(timed_store, "gone", lease_seconds=10).acquire()
        clock.advance(11)
        # The task is unknown to both; the first to sweep is the one that tells.
        for _ in range(2):
            RecoverySweep(timed_store, env=env, hooks=hooks).scan_and_recover()
    assert [(kind, lease) for kind, lease, _, _ in heard] == [
        ("failed", leased[0]), ("failed", leased[1]), ("dead", leased[1])
    ]  # fmt: skip
    assert [settled.status for _, _, settled, _ in heard] == [
        Status.PENDING, Status.DEAD, Status.DEAD
    ]  # fmt: skip
    assert {error.type for _, _, _, error in heard} == {"WorkerLost"}
    lines = [each for each in caplog.records if each.getMessage().startswith(f"job {job_id} (t)")]
    assert [each.levelname for each in lines] == ["WARNING", "ERROR"]
    first, last = (each.getMessage() for each in lines)
    assert "attempt 1 failed with WorkerLost: worker gone let its lease expire" in first
    assert first.endswith("; it will run again")
    assert last.endswith("; it is dead: all 2 attempts are used up")


def test_a_lost_job_that_was_to_be_cancelled_is_no_failure(
    timed_store: MoodyStore, clock: ManualClock, env: Env, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[object] = []
    job_id = submit_to(timed_store, "t")
    LeaseManager(timed_store, "gone", lease_seconds=10).acquire()
    timed_store.cancel([job_id], reason="not needed", actor="test")
    clock.advance(11)
    hooks = Hooks(on_failure=lambda *about: heard.append(about))
    RecoverySweep(timed_store, env=env, hooks=hooks).scan_and_recover()
    assert heard == []
    assert "it is cancelled, as was asked for" in caplog.text


def test_of_many_lost_jobs_only_the_first_have_a_line(
    timed_store: MoodyStore, clock: ManualClock, env: Env, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(LINES_MAX + 3):
        submit_to(timed_store, "t")
    LeaseManager(timed_store, "gone", lease_seconds=10).acquire(limit=LINES_MAX + 3)
    clock.advance(11)
    heard: list[str] = []
    hooks = Hooks(on_failure=lambda lease, *_: heard.append(lease.job_id))
    RecoverySweep(timed_store, env=env, hooks=hooks).scan_and_recover()
    assert caplog.text.count("it will run again") == LINES_MAX
    assert "and 3 more lost jobs" in caplog.text
    assert len(set(heard)) == len(heard) == LINES_MAX + 3


@pytest.mark.parametrize(
    ("deaths", "told"),
    [
        (1, "; 1 worker died: worker-000"),
        (NAMES_MAX, f"; {NAMES_MAX} workers died: worker-000, "),
        (NAMES_MAX + 180, f"worker-{NAMES_MAX - 1:03d}, and 180 more"),
    ],
)
def test_a_host_that_goes_down_with_many_workers_fills_one_short_line(
    timed_store: MoodyStore,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    deaths: int,
    told: str,
) -> None:
    names = tuple(f"worker-{number:03d}" for number in reversed(range(deaths)))
    report = SweepReport(expired_found=deaths, recovered=deaths, workers_proved_dead=names)
    monkeypatch.setattr(timed_store, "recover", lambda: report)
    RecoverySweep(timed_store).scan_and_recover()
    [line] = [each for each in caplog.messages if each.startswith("recovery sweep:")]
    assert told in line
    assert line.count("worker-") == min(deaths, NAMES_MAX)


def test_a_lost_job_that_cannot_be_read_is_told_all_the_same(
    timed_store: MoodyStore,
    clock: ManualClock,
    env: Env,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job_id = lose_a_job(timed_store, clock)
    heard: list[object] = []
    hooks = Hooks(on_failure=lambda *about: heard.append(about))

    def get(_job_id: str) -> None:
        raise StoreUnavailableError("gone for a moment")

    monkeypatch.setattr(timed_store, "get", get)
    report = RecoverySweep(timed_store, env=env, hooks=hooks).scan_and_recover()
    assert (report.recovered, heard) == (1, [])
    assert f"job {job_id} cannot be read: gone for a moment" in caplog.text
    assert f"job {job_id} (its task cannot be read): attempt 1 failed" in caplog.text


def test_it_sweeps_at_its_start_and_at_every_interval(
    timed_store: MoodyStore, clock: ManualClock, env: Env
) -> None:
    job_id = lose_a_job(timed_store, clock)
    sweep = RecoverySweep(timed_store, env=env, interval_seconds=60)
    sweep.start()
    try:
        timed_store.until_status(job_id, Status.PENDING)
        assert sweep.statistics().is_running
        began = clock.monotonic()
        advance_until(timed_store, clock, lambda: timed_store.calls["recover"] == 2)
        assert clock.monotonic() - began >= 59
    finally:
        sweep.stop()
    assert not sweep.statistics().is_running


def test_a_failing_scan_is_counted_and_the_next_one_comes(
    timed_store: MoodyStore, clock: ManualClock, env: Env
) -> None:
    job_id = lose_a_job(timed_store, clock)
    timed_store.refused.add("recover")
    sweep = RecoverySweep(timed_store, env=env, interval_seconds=60)
    sweep.start()
    try:
        advance_until(timed_store, clock, lambda: sweep.statistics().total_errors >= 1)
        timed_store.refused.clear()
        advance_until(timed_store, clock, lambda: timed_store.job(job_id).status is Status.PENDING)
        report = sweep.statistics().last_report
        assert report is not None
        assert report.errors == 0
    finally:
        sweep.stop()


def test_a_failed_scan_says_why(timed_store: MoodyStore, env: Env) -> None:
    timed_store.refused.add("recover")
    report = RecoverySweep(timed_store, env=env).scan_and_recover()
    assert report.errors == 1
    assert report.last_error is not None
    assert "refused" in report.last_error.message


def test_a_proved_death_is_swept_at_once(
    mortal_store: MortalStore, clock: ManualClock, env: Env
) -> None:
    assert isinstance(mortal_store, ProvesDeath)
    sweep = RecoverySweep(mortal_store, env=env, interval_seconds=60, death_check_seconds=1)
    sweep.start()
    try:
        mortal_store.until(lambda: mortal_store.calls["recover"] == 1)
        began = clock.monotonic()
        mortal_store.before["recover"] = mortal_store.dead.clear
        mortal_store.dead.add("somebody")
        advance_until(mortal_store, clock, lambda: mortal_store.calls["recover"] == 2, 0.5)
        assert clock.monotonic() - began < 30
    finally:
        sweep.stop()


def test_a_store_that_cannot_prove_death_is_not_asked(timed_store: MoodyStore) -> None:
    assert not isinstance(timed_store, ProvesDeath)


def test_sweeps_pause_for_one_lease_after_a_clock_jump(
    mortal_store: MortalStore, clock: ManualClock, env: Env
) -> None:
    submit_to(mortal_store, "t", id="held")
    LeaseManager(mortal_store, "alive", lease_seconds=300).acquire()
    sweep = RecoverySweep(mortal_store, env=env, interval_seconds=60, pause_seconds=300)
    sweep.start()
    try:
        mortal_store.until(lambda: mortal_store.calls["recover"] == 1)
        clock.step_wall_clock(3600)
        jumped_at = clock.monotonic()
        advance_until(mortal_store, clock, lambda: sweep.statistics().is_paused)
        assert mortal_store.job("held").status is Status.RUNNING
        advance_until(mortal_store, clock, lambda: mortal_store.calls["recover"] == 2, 5)
        assert clock.monotonic() - jumped_at >= 300
    finally:
        sweep.stop()


def test_a_worker_calls_its_hooks_for_the_jobs_that_its_sweep_takes_back(
    store: MoodyStore, start_worker: Callable[..., Worker]
) -> None:
    """Its tasks are none: whoever sweeps tells, whether or not it knows the task."""
    job_id = submit_to(store, "t", max_retries=0)
    LeaseManager(store, "gone", lease_seconds=0.001).acquire()
    heard: list[str] = []

    def on_dead(lease: Lease, _settled: Settled, error: JobError) -> None:
        heard.append(f"{lease.job_id} {lease.worker} {error.type}")

    start_worker(hooks=Hooks(on_dead=on_dead), sweep_interval_seconds=0.05)
    store.until(lambda: bool(heard))
    assert heard == [f"{job_id} gone WorkerLost"]
