"""The figures for Prometheus: the names of SPEC, exact, of any store, and never going back."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.connect import connect
from leasehold.core.contract.store import Store
from leasehold.core.model.histogram import Measurements, bucket_of
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import Lease, LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete, Fail, JobError, Outcome
from leasehold.core.model.queue_config import QueueConfig, QueueInfo
from leasehold.core.model.records import WorkerInfo
from leasehold.core.model.retention import Scope
from leasehold.core.model.retry import Constant
from leasehold.core.model.span import Measure, Span
from leasehold.core.model.status import Status
from leasehold.core.rules.lifetime import QueueLifetime
from leasehold.env import EPOCH, Env, ManualClock
from leasehold.observe.exposition import render
from leasehold.observe.prometheus import (
    BUCKET_SECONDS,
    QUEUES_NAMED_MAX,
    Sight,
    exposition,
    families,
)
from support import promtool
from support.exposed import Exposed, Labels, exposed

QUEUE = frozenset({"queue"})
OF_THE_STORE: dict[str, tuple[str, frozenset[str]]] = {
    "jobs_submitted_total": ("counter", frozenset({"queue", "priority_band"})),
    "jobs_leased_total": ("counter", frozenset({"queue", "worker"})),
    "jobs_completed_total": ("counter", frozenset({"queue", "status"})),
    "job_failures_total": ("counter", frozenset({"queue", "error_type"})),
    "job_wait_seconds": ("histogram", frozenset({"queue", "priority_band"})),
    "job_run_seconds": ("histogram", QUEUE),
    "lease_held_seconds": ("histogram", QUEUE),
    "queue_depth": ("gauge", frozenset({"queue", "status"})),
    "queue_oldest_pending_age_seconds": ("gauge", QUEUE),
    "dead_letters": ("gauge", QUEUE),
    "active_workers": ("gauge", QUEUE),
    "stale_leases": ("gauge", QUEUE),
    "lease_renewals_total": ("counter", frozenset()),
    "leases_lost_total": ("counter", frozenset()),
    "recovered_total": ("counter", QUEUE),
    "refused_total": ("counter", frozenset({"queue", "reason"})),
    "retries": ("gauge", frozenset({"queue", "attempt"})),
    "redis_fallback_mode": ("gauge", frozenset()),
    "build_info": ("gauge", frozenset({"version", "python", "store"})),
}
"""SPEC 16, but for what is the service's own."""
FOR_THE_ALERTS = {
    "queue_depth_limit": ("gauge", QUEUE),
    "queue_paused": ("gauge", QUEUE),
    "store_clock_ahead_seconds": ("gauge", frozenset[str]()),
    "store_free_bytes": ("gauge", frozenset[str]()),
    "cleanup_seconds": ("gauge", frozenset[str]()),
    "redis_evicted_keys_total": ("counter", frozenset[str]()),
}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else str(tmp_path / "jobs.db")


@pytest.fixture
def store(url: str, clock: ManualClock) -> Iterator[Store]:
    store = connect(url, env=Env(clock=clock))
    yield store
    store.close()


def told(store: Store, clock: ManualClock) -> Exposed:
    return exposed(exposition(store, Env(clock=clock)))


def lease(store: Store, worker: str = "w", **options: object) -> Lease:
    request = LeaseRequest(worker=worker, limit=1, **options)  # type: ignore[arg-type]
    [found] = store.exchange(request=request).leases
    return found


def end(store: Store, lease: Lease, outcome: Outcome) -> None:
    store.exchange([Settlement(lease.job_id, lease.version, outcome)])


def make_history(store: Store, clock: ManualClock) -> None:
    """Something of everything that is counted."""
    store.create_queue("mail", QueueConfig(max_depth=3), actor="me")
    drafts = [Draft(id=f"job-{n}", task="t", queue="mail", retry=Constant(1)) for n in range(3)]
    store.submit(drafts)
    store.submit([Draft(id="too many", task="t", queue="mail")], partial=True)
    clock.advance(2)
    queues = ("mail",)
    end(store, lease(store, queues=queues), Complete())
    end(store, lease(store, queues=queues), Fail(JobError("KeyError", "no")))
    end(store, lease(store, queues=queues), Fail(JobError("OSError", "no"), retryable=False))
    clock.advance(2)
    lost = lease(store, worker="lost", queues=queues, lease_seconds=200)
    clock.advance(150)
    assert lost.attempt == 2
    life = store.register_worker(
        WorkerInfo(
            id="alive",
            host="h",
            pid=1,
            queues=queues,
            slots=1,
            started_at=clock.now(),
            heartbeat_at=clock.now(),
        )
    )
    store.prune(scope=Scope(force=True), actor="me")
    assert life is not None


def test_every_metric_has_its_name_type_and_labels(store: Store, clock: ManualClock) -> None:
    make_history(store, clock)
    found = told(store, clock)
    expected = OF_THE_STORE | FOR_THE_ALERTS
    if store.describe()["kind"] == "memory":
        del expected["store_free_bytes"]
    for name, (kind, labels) in expected.items():
        assert found.types.get(f"leasehold_{name}") == kind, name
        if kind == "histogram":
            assert found.labels_of(f"{name}_bucket") == {labels | {"le"}}, name
            assert found.labels_of(f"{name}_count") == {labels}, name
        else:
            assert found.labels_of(name) == {labels}, name
    assert found.types.keys() == {f"leasehold_{name}" for name in expected}


def test_promtool_finds_nothing_wrong(store: Store, clock: ManualClock) -> None:
    make_history(store, clock)
    promtool.check("metrics", stdin=exposition(store, Env(clock=clock)))


def test_the_values_are_what_happened(store: Store, clock: ManualClock) -> None:
    make_history(store, clock)
    found = told(store, clock)
    mail = {"queue": "mail"}
    assert found.value("jobs_submitted_total", **mail, priority_band="medium") == 3
    assert found.value("jobs_leased_total", **mail, worker="w") == 3
    assert found.value("jobs_leased_total", **mail, worker="lost") == 1
    assert found.value("jobs_completed_total", **mail, status="completed") == 1
    assert found.value("jobs_completed_total", **mail, status="dead") == 1
    assert found.value("job_failures_total", **mail, error_type="KeyError") == 1
    assert found.value("job_wait_seconds_count", **mail, priority_band="medium") == 4
    assert found.value("job_wait_seconds_sum", **mail, priority_band="medium") == 7
    assert found.value("job_run_seconds_count", **mail) == 3
    assert found.value("queue_depth", **mail, status="running") == 1
    assert found.value("queue_depth_limit", **mail) == 3
    assert found.value("dead_letters", **mail) == 1
    assert found.value("active_workers", **mail) == 1
    assert found.value("stale_leases", **mail) == 1
    assert found.value("refused_total", **mail, reason="queue_full") == 1
    assert found.value("retries", **mail, attempt="1") == 1
    clock.advance(60)
    store.recover()
    found = told(store, clock)
    assert found.value("leases_lost_total") == 1
    assert found.value("recovered_total", **mail) == 1
    assert found.value("job_failures_total", **mail, error_type="WorkerLost") == 1
    assert found.value("lease_held_seconds_count", **mail) == 4
    assert found.value("job_run_seconds_count", **mail) == 3


def test_counters_only_grow_whatever_restarts(tmp_path: Path, clock: ManualClock) -> None:
    before: dict[tuple[str, Labels], float] = {}
    for day in range(4):
        store = connect(tmp_path / "jobs.db", env=Env(clock=clock))
        store.submit([Draft(id=f"{day}-{n}", task="t") for n in range(3)])
        for number in range(3):
            clock.advance(40 * number)
            end(store, lease(store, worker=f"w-{number}"), Complete())
            now = told(store, clock).growing
            assert {key for key, value in before.items() if now[key] < value} == set()
            before = now
        clock.advance(timedelta(days=day * 150).total_seconds())
        store.close()
    assert sum(value for (name, _), value in now.items() if name.endswith("leased_total")) == 12


@given(st.lists(st.integers(0, 2**40)))
def test_every_duration_is_in_its_bucket(micros: list[int]) -> None:
    buckets: dict[int, int] = {}
    for each in micros:
        buckets[bucket_of(each)] = buckets.get(bucket_of(each), 0) + 1
    ever = Span(measures={Measure.RUN: Measurements(sum(micros), buckets)})
    found = exposed(render(families(sight(QueueLifetime(queue="q", ever=ever)))))
    if not micros:
        assert "leasehold_job_run_seconds" not in found.types
        return
    for bound in BUCKET_SECONDS:
        le = f"{bound:.6f}".rstrip("0").rstrip(".")
        expected = sum(each <= round(bound * 1e6) for each in micros)
        assert found.value("job_run_seconds_bucket", queue="q", le=le) == expected
    assert found.value("job_run_seconds_bucket", queue="q", le="+Inf") == len(micros)
    assert found.value("job_run_seconds_sum", queue="q") == pytest.approx(sum(micros) / 1e6)


def sight(*lifetimes: QueueLifetime) -> Sight:
    """The first of the queues is the oldest."""
    return Sight(
        version="1",
        store="memory",
        queues=[
            QueueInfo(
                name=each.queue,
                counts={Status.PENDING: each.ever.pending},
                created_at=EPOCH + timedelta(days=number),
            )
            for number, each in enumerate(lifetimes)
        ],
        lifetimes=sorted(lifetimes, key=lambda each: each.queue),
        stale_leases={each.queue: 1 for each in lifetimes},
        clock_ahead_seconds=0,
    )


def test_names_that_need_escapes() -> None:
    odd = 'a"b\\c\nd'
    life = QueueLifetime(queue="q", ever=Span(), failed_with={odd: 3, "lone \ud800": 4})
    text = render(families(sight(life)))
    found = exposed(text)
    assert found.value("job_failures_total", queue="q", error_type=odd) == 3
    assert found.value("job_failures_total", queue="q", error_type="lone ?") == 4
    promtool.check("metrics", stdin=text)


def test_more_queues_than_can_be_named_are_one_sum() -> None:
    number = QUEUES_NAMED_MAX + 3
    lives = [
        QueueLifetime(
            queue=f"q-{number - each:04}",
            ever=Span(leased=2, pending=1),
            leased_by={"w": 2},
            oldest_pending_age_seconds=each,
        )
        for each in range(number)
    ]
    found = exposed(render(families(sight(*lives))))
    oldest, newest = lives[0].queue, lives[-1].queue
    assert found.value("jobs_leased_total", queue=oldest, worker="w") == 2
    assert found.value("jobs_leased_total", queue="other", worker="w") == 6
    assert found.value("queue_depth", queue="other", status="pending") == 3
    assert found.value("stale_leases", queue="other") == 3
    assert found.value("queue_oldest_pending_age_seconds", queue="other") == number - 1
    queues = {dict(labels).get("queue") for _, labels in found.samples} - {None}
    assert len(queues) == QUEUES_NAMED_MAX + 1
    assert newest not in queues
