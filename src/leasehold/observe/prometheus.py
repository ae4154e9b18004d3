"""The metrics of a store for Prometheus: figures that the store keeps anyway, under SPEC's names.

Counters and histograms are the store's lifetime figures: they only grow, whichever processes come
and go, and every process reports the same. No job is scanned for them.
"""

from __future__ import annotations

import platform
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce
from typing import Any, Final

import msgspec

from leasehold.core.contract.looking import looking
from leasehold.core.contract.store import Store
from leasehold.core.model.histogram import BOUNDS, Measurements
from leasehold.core.model.queue_config import QueueInfo, QueueState
from leasehold.core.model.records import SILENT_SECONDS
from leasehold.core.model.span import BANDS, SUBMITTED_IN, WAIT_IN, Span
from leasehold.core.model.status import Status
from leasehold.core.rules.lifetime import QueueLifetime
from leasehold.env import EPOCH, Env
from leasehold.observe.exposition import Family, Sample, histogram, render
from leasehold.version import __version__

ENDS: Final = ("completed", "dead", "cancelled")
QUEUES_NAMED_MAX: Final = 200
"""How many queues are reported by name, oldest first; the rest are one sum."""
OTHER: Final = "other"

# Every power of two from a millisecond to 19 hours. They are bounds of the store's own histograms,
# so no sample is told in the wrong bucket; a bucket ends one microsecond before the next begins.
_EDGES: Final = tuple(2**power for power in range(10, 37))
BUCKET_SECONDS: Final = tuple((edge - 1) / 1e6 for edge in _EDGES)
_EDGE_OF_BUCKET: Final = tuple(
    bisect_right(_EDGES, 0 if bucket == 0 else BOUNDS[bucket - 1])
    for bucket in range(len(BOUNDS) + 1)
)


class Sight(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a store at one moment."""

    version: str
    store: str
    """The kind of store."""
    queues: list[QueueInfo]
    lifetimes: list[QueueLifetime]
    stale_leases: dict[str, int]
    """Running jobs whose holder gave no sign of life for two minutes, by queue."""
    clock_ahead_seconds: float
    free_bytes: int | None = None
    cleanup_seconds: float | None = None
    """How long the latest clean-up took, or has taken."""
    redis: Mapping[str, Any] | None = None
    """The state of the Redis beside it, if there is one."""


def exposition(store: Store, env: Env) -> bytes:
    """The metrics of a store for Prometheus, independent of any process."""
    return render(families(look_at(store, env)))


def look_at(store: Store, env: Env) -> Sight:
    """Read the figures to report for a store."""
    described = store.describe()
    cleanup = next(iter(store.cleanups(1)), None)
    return Sight(
        version=__version__,
        store=str(described.get("kind", "unknown")),
        queues=store.list_queues(),
        lifetimes=looking(store).lifetimes(),
        stale_leases=Counter(job.queue for job in store.stuck(SILENT_SECONDS)),
        clock_ahead_seconds=(store.now() - env.now()).total_seconds(),
        free_bytes=described.get("free_bytes"),
        cleanup_seconds=None if cleanup is None else cleanup.duration_seconds,
        redis=described.get("redis"),
    )


def families(sight: Sight) -> Iterator[Family]:
    """All metrics of a store."""
    sight = _bounded(sight)
    yield from _lifetime_families(sight.lifetimes)
    yield from _standing_families(sight)
    yield from _store_families(sight)


def _bounded(sight: Sight) -> Sight:
    """The same with one sum for all but the oldest queues, so that the named ones stay the same."""
    by_age = sorted(sight.queues, key=lambda each: (each.created_at or EPOCH, each.name))
    if len(by_age) <= QUEUES_NAMED_MAX:
        return sight
    named, rest = by_age[:QUEUES_NAMED_MAX], by_age[QUEUES_NAMED_MAX:]
    names = {each.name for each in named}
    counts: Counter[Status] = Counter()
    for each in rest:
        counts.update(each.counts)
    others = [each for each in sight.lifetimes if each.queue not in names]
    ages = [each.oldest_pending_age_seconds or 0 for each in others]
    together = QueueLifetime(
        queue=OTHER,
        ever=reduce(Span.beside, (each.ever for each in others), Span()),
        leased_by=sum((Counter(each.leased_by) for each in others), Counter()),
        failed_with=sum((Counter(each.failed_with) for each in others), Counter()),
        oldest_pending_age_seconds=max(ages, default=None),
        active_workers=max((each.active_workers for each in others), default=0),
    )
    stale = sum(n for queue, n in sight.stale_leases.items() if queue not in names)
    return msgspec.structs.replace(
        sight,
        queues=[*named, QueueInfo(name=OTHER, counts=counts)],
        lifetimes=[*(each for each in sight.lifetimes if each.queue in names), together],
        stale_leases={**sight.stale_leases, OTHER: stale},
    )


# -- since the store was made --------------------------------------------------------------------


def _lifetime_families(lifetimes: Iterable[QueueLifetime]) -> Iterator[Family]:
    every = list(lifetimes)
    by_queue = {each.queue: each.ever for each in every}

    def counted(of: Callable[[Span], int]) -> list[Sample]:
        return [Sample({"queue": queue}, of(ever)) for queue, ever in by_queue.items()]

    yield Family(
        "jobs_submitted_total",
        "counter",
        "Jobs that were submitted, by band of their priority.",
        [
            Sample({"queue": queue, "priority_band": band}, getattr(ever, SUBMITTED_IN[band]))
            for queue, ever in by_queue.items()
            for band in BANDS
        ],
    )
    yield Family(
        "jobs_leased_total",
        "counter",
        "Jobs that were leased, by workers that did something lately.",
        [
            Sample({"queue": each.queue, "worker": worker}, leased)
            for each in every
            for worker, leased in sorted(each.leased_by.items())
        ],
    )
    yield Family(
        "jobs_completed_total",
        "counter",
        "Jobs that ended, by how they did; one that is replayed may end again.",
        [
            Sample({"queue": queue, "status": end}, getattr(ever, end))
            for queue, ever in by_queue.items()
            for end in ENDS
        ],
    )
    yield Family(
        "job_failures_total",
        "counter",
        "Attempts that failed or whose worker was lost, by type of error.",
        [
            Sample({"queue": each.queue, "error_type": name}, failed)
            for each in every
            for name, failed in sorted(each.failed_with.items())
        ],
    )
    yield Family(
        "job_wait_seconds",
        "histogram",
        "From when a job became available until it was leased.",
        [
            sample
            for queue, ever in by_queue.items()
            for band in BANDS
            for sample in _histogram(
                {"queue": queue, "priority_band": band}, ever.measured(WAIT_IN[band])
            )
        ],
    )
    yield Family(
        "job_run_seconds",
        "histogram",
        "From the lease until the attempt completed or failed.",
        [s for queue, ever in by_queue.items() for s in _histogram({"queue": queue}, ever.runs)],
    )
    yield Family(
        "lease_held_seconds",
        "histogram",
        "From the lease to its end, however it ended.",
        [s for queue, ever in by_queue.items() for s in _histogram({"queue": queue}, ever.holds)],
    )
    yield Family(
        "lease_renewals_total",
        "counter",
        "Renewals of leases.",
        [Sample({}, sum(ever.renewed for ever in by_queue.values()))],
    )
    yield Family(
        "leases_lost_total",
        "counter",
        "Leases that were taken from their holders: those expired or died, or a person ordered it.",
        [Sample({}, sum(ever.lost for ever in by_queue.values()))],
    )
    yield Family(
        "recovered_total",
        "counter",
        "Jobs that were taken back from a lost worker and run again.",
        counted(lambda ever: ever.recovered),
    )
    yield Family(
        "refused_total",
        "counter",
        "Jobs that were not accepted, by reason.",
        [
            Sample({"queue": queue, "reason": reason}, refused)
            for queue, ever in by_queue.items()
            for reason, refused in (
                ("queue_full", ever.rejected - ever.rate_limited),
                ("rate_limited", ever.rate_limited),
            )
        ],
    )
    yield Family(
        "retries",
        # It grows like a counter, but does not have a counter's name.
        "gauge",
        "How often an attempt of that number failed and was followed by another one.",
        [
            Sample({"queue": queue, "attempt": str(attempt)}, failed)
            for queue, ever in by_queue.items()
            for attempt, failed in sorted(ever.retries.items())
        ],
    )


def _histogram(labels: dict[str, str], measured: Measurements) -> Iterator[Sample]:
    if not measured.buckets:
        return
    counts = [0] * (len(_EDGES) + 1)
    for bucket, jobs in measured.buckets.items():
        counts[_EDGE_OF_BUCKET[bucket]] += jobs
    yield from histogram(labels, BUCKET_SECONDS, counts, measured.micros / 1e6)


# -- as it stands --------------------------------------------------------------------------------


def _standing_families(sight: Sight) -> Iterator[Family]:
    queues, lifetimes = sight.queues, sight.lifetimes

    def gauge(name: str, meaning: str, samples: Iterable[tuple[str, Any]]) -> Family:
        told = [Sample({"queue": queue}, value) for queue, value in samples if value is not None]
        return Family(name, "gauge", meaning, told)

    yield Family(
        "queue_depth",
        "gauge",
        "Jobs in each status.",
        [
            Sample({"queue": each.name, "status": status.value}, each.counts.get(status, 0))
            for each in queues
            for status in Status
        ],
    )
    yield gauge(
        "queue_depth_limit",
        "The most jobs that may be pending (max_depth); only of queues that have a limit.",
        ((each.name, each.config.max_depth) for each in queues),
    )
    yield gauge(
        "queue_paused",
        "1 while a queue is paused: its jobs wait on purpose.",
        ((each.name, int(each.state is QueueState.PAUSED)) for each in queues),
    )
    yield gauge(
        "queue_oldest_pending_age_seconds",
        "For how long the job that waits longest could have been leased; 0 if none waits.",
        ((each.queue, each.oldest_pending_age_seconds or 0) for each in lifetimes),
    )
    yield gauge(
        "dead_letters",
        "Jobs that failed for good and wait for a person.",
        ((each.name, each.counts.get(Status.DEAD, 0)) for each in queues),
    )
    yield gauge(
        "active_workers",
        "Workers and consumers that gave a sign of life within two minutes.",
        ((each.queue, each.active_workers) for each in lifetimes),
    )
    yield gauge(
        "stale_leases",
        "Running jobs whose holder gave no sign of life for two minutes.",
        ((each.name, sight.stale_leases.get(each.name, 0)) for each in queues),
    )


def _store_families(sight: Sight) -> Iterator[Family]:
    def gauge(name: str, meaning: str, value: float | None) -> Family:
        return Family(name, "gauge", meaning, [] if value is None else [Sample({}, value)])

    yield gauge(
        "store_clock_ahead_seconds",
        "How far the store's clock is ahead of this machine's.",
        sight.clock_ahead_seconds,
    )
    yield gauge("store_free_bytes", "Free space where the store is.", sight.free_bytes)
    yield gauge(
        "cleanup_seconds",
        "How long the latest clean-up took, or has taken so far.",
        sight.cleanup_seconds,
    )
    redis = sight.redis or {"is_up": True, "evicted_keys": 0}
    yield gauge(
        "redis_fallback_mode",
        "1 while Redis is away and the database serves alone; 0 where none is used.",
        int(not redis["is_up"]),
    )
    # An absent Redis reports nothing: a zero would look like a restart, and the rest like growth.
    evicted = redis.get("evicted_keys")
    yield Family(
        "redis_evicted_keys_total",
        "counter",
        "Keys that Redis threw away for want of memory; 0 where none is used.",
        [] if evicted is None else [Sample({}, evicted)],
    )
    labels = {"version": sight.version, "python": platform.python_version(), "store": sight.store}
    yield Family("build_info", "gauge", "What runs here; always 1.", [Sample(labels, 1)])
