"""Rules of queues: created, changed, paused, drained, deleted."""

from __future__ import annotations

from random import Random
from typing import Any

from leasehold.core.model.queue_config import QueueConfig, QueueState
from leasehold.core.model.queue_retention import QueueRetention
from leasehold.core.model.retry import Constant
from leasehold.testing.soak.calls import Call, call
from leasehold.testing.soak.swarm import Feature
from leasehold.testing.soak.verbs.base import Scene, verb
from leasehold.testing.soak.verbs.ordering import ACTOR


@verb("create a queue", 2, Feature.QUEUES)
def create_queue(scene: Scene) -> Call:
    name = scene.random.choice((scene.queue(), scene.queue(), ""))
    config = QueueConfig(max_depth=scene.random.choice((None, 20)))
    return call("create_queue", queue=name, config=config, actor=ACTOR)


@verb("limit a queue", 6, Feature.LIMITS)
def limit_queue(scene: Scene) -> Call:
    random = scene.random
    change: dict[str, Any] = random.choice(
        (
            {"max_depth": random.choice((None, 3, 8))},
            {"max_concurrency": random.choice((None, 1, 2, 4))},
            {"rate_per_second": random.choice((None, 0.2, 2.0))},
            {"client_rate_per_second": random.choice((None, 0.5))},
            {"starts_per_second": random.choice((None, 0.05, 0.5, 2.0))},
        )
    )
    return call("update_queue", queue=scene.queue(), changes=change, actor=ACTOR)


@verb("limit keys", 5, Feature.KEYS)
def limit_keys(scene: Scene) -> Call:
    random = scene.random
    change: dict[str, Any] = random.choice(
        (
            {"key_concurrency": random.choice((None, 1, 1, 2))},
            {"key_concurrency": random.choice((1, 3))},
            {"key_rate_per_second": random.choice((None, 0.5))},
            {"key_starts_per_second": random.choice((None, 0.05, 0.5, 2.0))},
        )
    )
    return call("update_queue", queue=scene.queue(), changes=change, actor=ACTOR)


@verb("change a queue", 3, Feature.QUEUES)
def update_queue(scene: Scene) -> Call:
    drawn = [_defaults, _scoring, _bad]
    if not scene.swarm.prompt:
        # What a store forgets by itself, and when, is its own business: that is not compared.
        drawn.append(_retention)
    change = scene.random.choice(drawn)(scene.random)
    return call("update_queue", queue=scene.queue(), changes=change, actor=ACTOR)


@verb("set a queue's state", 4, Feature.QUEUES)
def set_queue_state(scene: Scene) -> Call:
    active = QueueState.ACTIVE
    state = scene.random.choice((active, active, QueueState.PAUSED, QueueState.DRAINING))
    queue = scene.random.choice((scene.queue(), scene.queue(), scene.queue(), "no-such-queue"))
    return call("set_queue_state", queue=queue, state=state, actor=ACTOR)


@verb("delete a queue", 1, Feature.QUEUES)
def delete_queue(scene: Scene) -> Call:
    return call("delete_queue", queue=scene.queue(), force=scene.luck(0.5), actor=ACTOR)


def _defaults(random: Random) -> dict[str, Any]:
    return random.choice(
        (
            {"lease_seconds": random.choice((None, 9.0))},
            {"max_retries": random.choice((None, 1))},
            {"retry": random.choice((None, Constant(3.0)))},
        )
    )


def _retention(random: Random) -> dict[str, Any]:
    kept = QueueRetention(dead_seconds=30.0, cancelled_seconds=None)
    return {"retention": random.choice((None, QueueRetention(completed_seconds=20.0), kept))}


def _scoring(random: Random) -> dict[str, Any]:
    return random.choice(
        (
            {"fifo_mode": random.choice((True, False))},
            {"aging_factor": random.choice((None, 10.0, 3600.0))},
            {"retry_penalty": random.choice((0.0, 2.0, 30.0))},
            {"max_priority": random.choice((None, 60))},
            {"deadline_weight": random.choice((0.0, 30.0))},
        )
    )


def _bad(random: Random) -> dict[str, Any]:
    return random.choice(({"max_depth": 0}, {"no_such_rule": 1}, {"rate_per_second": -1.0}))
