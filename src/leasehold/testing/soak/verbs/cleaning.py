"""Clean-ups: begun, gone on with, given up; and reads of the archive."""

from __future__ import annotations

from leasehold.core.model.retention import RetentionPolicy, Scope
from leasehold.core.model.search import JobFilter
from leasehold.testing.soak.calls import CLEAN_UP, Call, call
from leasehold.testing.soak.swarm import Feature
from leasehold.testing.soak.verbs.base import Scene, verb
from leasehold.testing.soak.verbs.ordering import ACTOR

RETENTION_SETTINGS = frozenset(
    ("retention_completed_seconds", "retention_cancelled_seconds", "retention_dead_seconds")
)


@verb("begin a clean-up", 5, Feature.CLEANUPS)
def begin(scene: Scene) -> Call:
    random = scene.random
    policy: RetentionPolicy | None = RetentionPolicy(
        completed_seconds=random.choice((None, 5.0, 60.0)),
        cancelled_seconds=random.choice((None, 5.0, 60.0)),
        dead_seconds=random.choice((None, None, 30.0)),
        interval_seconds=random.choice((1.0, 60.0)),
        worth_cleaning=random.choice((0, 5)),
        # Stores do not agree yet whose histories go first.
        history_events_max=None if scene.swarm.prompt else random.choice((None, None, 20)),
    )
    settled = scene.seen.settings.values.keys() >= RETENTION_SETTINGS
    if settled and not scene.swarm.prompt and scene.luck(0.7):
        # A store that was made with a policy keeps to that: stores of two kinds cannot be compared.
        policy = None
    scope = random.choice(
        (
            Scope(),
            Scope(),
            Scope(force=True),
            Scope(emergency=True),
            Scope(emergency=True, dead=True),
        )
    )
    if scene.swarm.prompt:
        return call(CLEAN_UP, policy=policy, scope=scope, actor=ACTOR)
    return call("prune", policy=policy, run=None, scope=scope, actor=ACTOR)


@verb("go on with a clean-up", 12, Feature.CLEANUPS)
def go_on(scene: Scene) -> Call | None:
    if scene.book.prune_run is None:
        return None
    run, begun = scene.book.prune_run
    limit = scene.random.choice((1, 2, 1000))
    return call("prune", **{**begun.arguments, "run": run, "limit": limit})


@verb("list clean-ups", 1, Feature.CLEANUPS)
def cleanups(scene: Scene) -> Call:  # noqa: ARG001 - every verb sees the scene.
    return call("cleanups", limit=5)


@verb("look into the archive", 3, Feature.CLEANUPS)
def archived(scene: Scene) -> Call:
    known = scene.book.gone_ids or ["no-such-job"]
    return call("archived", job_id=scene.random.choice(known))


@verb("search the archive", 2, Feature.CLEANUPS)
def search_archive(scene: Scene) -> Call:
    where = scene.random.choice(
        (JobFilter(), JobFilter(tasks=("work",)), JobFilter(priority_min=1))
    )
    return call(
        "search_archive",
        where=where,
        slowest_first=scene.random.choice((False, True)),
        limit=scene.random.choice((3, 100)),
    )
