"""Reads: what people and pages look at. They change nothing, and every store says the same."""

from __future__ import annotations

from datetime import timedelta
from typing import Final, get_args

from leasehold.core.model.search import HeavyField
from leasehold.testing.soak.calls import FOLLOW, Call, call
from leasehold.testing.soak.swarm import Feature
from leasehold.testing.soak.verbs.base import Scene, verb
from leasehold.testing.soak.verbs.ordering import job_filter

HEAVY: Final = get_args(HeavyField)


@verb("search", 3, Feature.READS)
def search(scene: Scene) -> Call:
    return call(
        "search",
        where=job_filter(scene),
        limit=scene.random.choice((2, 100)),
        without=scene.random.choice(((), (), ("payload",), ("result", "metadata"), HEAVY)),
    )


@verb("count", 2, Feature.READS)
def count(scene: Scene) -> Call:
    return call("count", where=job_filter(scene), counted_max=scene.random.choice((2, 10_000)))


@verb("follow", 3, Feature.READS)
def follow(scene: Scene) -> Call:
    return call(FOLLOW, limit=scene.random.choice((1, 3, 1000)))


@verb("position", 3, Feature.READS)
def position(scene: Scene) -> Call:
    return call("position", job_id=scene.some_ids(1)[0])


@verb("peek", 2, Feature.READS)
def peek(scene: Scene) -> Call:
    return call("peek", queue=scene.queue(), limit=scene.random.choice((1, 5)))


@verb("graph", 2, Feature.READS)
def graph(scene: Scene) -> Call:
    return call("graph", job_ids=scene.some_ids(2))


@verb("attempts", 2, Feature.READS)
def attempts(scene: Scene) -> Call:
    return call("attempts", job_id=scene.some_ids(1)[0])


@verb("log", 2, Feature.REPORTS)
def log(scene: Scene) -> Call:
    return call("log", job_id=scene.some_ids(1)[0])


@verb("find ids", 1, Feature.READS)
def find_ids(scene: Scene) -> Call:
    return call("find_ids", prefix=scene.random.choice(("job-", "job-1", "x")), limit=5)


@verb("statistics", 1, Feature.READS)
def stats(scene: Scene) -> Call:
    return call("stats", queue=scene.queue())


@verb("one queue", 1, Feature.READS)
def queue_info(scene: Scene) -> Call:
    return call("queue_info", queue=scene.random.choice((*scene.swarm.queues, "no-such-queue")))


@verb("one key", 1, Feature.KEYS)
def key_info(scene: Scene) -> Call:
    return call("key_info", queue=scene.queue(), key="tenant-a")


@verb("metrics", 1, Feature.READS)
def metrics(scene: Scene) -> Call:
    queue = scene.random.choice((None, scene.queue()))
    return call("metrics", queue=queue, window_seconds=scene.random.choice((60.0, 3600.0, -1.0)))


@verb("series", 1, Feature.READS)
def series(scene: Scene) -> Call:
    return call("series", queue=scene.random.choice((None, scene.queue())), minutes=5)


@verb("daily", 1, Feature.READS)
def daily(scene: Scene) -> Call:
    return call("daily", queue=scene.random.choice((None, scene.queue())), days=3)


@verb("timeline", 1, Feature.READS)
def timeline(scene: Scene) -> Call:
    back = scene.random.choice((timedelta(minutes=7), timedelta(days=40)))
    return call(
        "timeline",
        metrics=scene.random.choice((["submitted", "lost"], ["retried"], ["wait_count"])),
        queue=scene.random.choice((None, scene.queue())),
        since=scene.seen.now - back,
        resolution=scene.random.choice(("minute", "day")),
    )


@verb("failures", 1, Feature.READS)
def failures(scene: Scene) -> Call:
    return call("failures", queue=scene.random.choice((None, scene.queue())), limit=5)


@verb("worker totals", 1, Feature.READS)
def worker_totals(scene: Scene) -> Call:  # noqa: ARG001 - every verb sees the scene.
    return call("worker_totals", limit=5)


@verb("metrics by queue", 1, Feature.READS)
def metrics_by_queue(scene: Scene) -> Call:  # noqa: ARG001 - every verb sees the scene.
    return call("metrics_by_queue")


@verb("lifetimes", 1, Feature.READS)
def lifetimes(scene: Scene) -> Call:  # noqa: ARG001 - every verb sees the scene.
    return call("lifetimes")


@verb("get", 1, Feature.READS)
def get(scene: Scene) -> Call:
    return call("get", job_id=scene.some_ids(1)[0])


@verb("check", 0.5)
def check(scene: Scene) -> Call:  # noqa: ARG001 - every verb sees the scene.
    return call("check")


@verb("history, page by page", 1, Feature.READS)
def history_page(scene: Scene) -> Call:
    limit, cursor = scene.random.choice((0, 1, 3, 100)), scene.random.choice((None, "2"))
    return call("history_page", job_id=scene.some_ids(1)[0], limit=limit, cursor=cursor)


@verb("log, page by page", 1, Feature.REPORTS)
def log_page(scene: Scene) -> Call:
    return call("log_page", job_id=scene.some_ids(1)[0], limit=scene.random.choice((1, 100)))


@verb("audit log", 1, Feature.READS)
def audit_page(scene: Scene) -> Call:
    return call("audit_page", limit=scene.random.choice((1, 100)))


@verb("names of queues", 1, Feature.SURVEYS)
def queues(scene: Scene) -> Call:  # noqa: ARG001 - every verb sees the scene.
    return call("queues")


@verb("describe", 1, Feature.SURVEYS)
def describe(scene: Scene) -> Call:  # noqa: ARG001 - every verb sees the scene.
    return call("describe")
