"""Submits: single jobs and batches with every field, good and bad ones, within transactions too."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any

import msgspec

from leasehold.core.model.job import Draft
from leasehold.core.model.limits import PAYLOAD_BYTES_MAX
from leasehold.core.model.retry import Constant, Delays, Exponential, Linear, RetryPolicy
from leasehold.testing.soak.calls import SUBMIT_WITHIN, Call, call
from leasehold.testing.soak.swarm import Feature
from leasehold.testing.soak.verbs.base import Scene, verb

TASKS = ("work", "mail", "rare")


@verb("submit", 30)
def submit(scene: Scene) -> Call:
    return scene.once(call("submit", drafts=drafts(scene), partial=scene.luck(0.4)))


@verb("submit within a transaction", 6, Feature.TRANSACTIONS)
def submit_within(scene: Scene) -> Call:
    return call(
        SUBMIT_WITHIN, drafts=drafts(scene), partial=scene.luck(0.4), commit=scene.luck(0.7)
    )


@verb("submit a workflow", 6, Feature.DEPENDENCIES)
def submit_workflow(scene: Scene) -> Call:
    """A small graph in one call, in any order; now and then a circle."""
    random = scene.random
    made = [draft(scene) for _ in range(random.randint(2, 5))]
    for index in range(1, len(made)):
        needs = tuple(each.id for each in random.sample(made[:index], random.randint(1, index)))
        made[index] = _waiting(scene, made[index], (*made[index].depends_on, *needs))
    if scene.luck(0.1):
        made[0] = _waiting(scene, made[0], (made[-1].id,))
    random.shuffle(made)
    return call("submit", drafts=made, partial=scene.luck(0.4))


def drafts(scene: Scene) -> list[Draft]:
    made = [draft(scene) for _ in range(scene.random.choice((1, 1, 1, 2, 4)))]
    if scene.luck(0.05):
        made.append(_bad(scene))
    if scene.luck(0.05):
        made.append(msgspec.structs.replace(made[0], task="mail"))
    return made


def draft(scene: Scene) -> Draft:
    random, book = scene.random, scene.book
    reused = book.gone_ids and scene.luck(0.15)
    known = list(scene.seen.jobs)
    job_id = random.choice(book.gone_ids) if reused else book.new_id()
    if known and scene.luck(0.04):
        job_id = random.choice(known)
    made = Draft(
        id=job_id,
        task=random.choices(TASKS, (6, 2, 1))[0],
        payload=b'{"args":[%d],"kwargs":{}}' % random.randint(0, 3),
        queue=scene.queue(),
        priority=random.choice((0, 10, 50, 50, 50, 75, 100)),
        max_retries=random.choice((None, 0, 1, 3)),
        retry=policy(random),
        lease_seconds=random.choice((None, None, scene.swarm.lease_seconds / 2)),
        parent_id=random.choice((None, None, "group")),
        metadata={"tenant": "a", "n": 1} if scene.luck(0.3) else None,
        result_ttl_seconds=random.choice((None, None, 30.0)),
    )
    return msgspec.structs.replace(made, **_extras(scene))


def _extras(scene: Scene) -> dict[str, Any]:
    """The fields of a job by the run's features."""
    random, extras = scene.random, dict[str, Any]()
    luck = random.random()
    if luck < 0.2:
        extras["delay_seconds"] = random.choice((0.0, 2.0, 20.0, 100.0))
    elif luck < 0.3:
        extras["run_at"] = scene.clock.now() + timedelta(seconds=random.choice((-5, 3, 60)))
    if scene.has(Feature.DEADLINES):
        extras |= _deadlines(scene)
    if scene.has(Feature.IDEMPOTENCY) and scene.luck(0.5):
        extras["idempotency_key"] = f"key-{random.randint(1, 8)}"
    if scene.has(Feature.KEYS) and scene.luck(0.7):
        extras["limit_key"] = random.choice(("tenant-a", "tenant-b", "tenant-c"))
    if scene.has(Feature.LIMITS) and scene.luck(0.3):
        extras["client"] = random.choice(("web", "cron"))
    if scene.has(Feature.DEPENDENCIES) and scene.luck(0.4):
        extras |= _dependencies(scene)
    return extras


def _deadlines(scene: Scene) -> dict[str, Any]:
    random, extras = scene.random, dict[str, Any]()
    if scene.luck(0.4):
        soon = timedelta(seconds=random.choice((-10, 30, 1000, 5000)))
        extras["deadline"] = scene.clock.now() + soon
    if scene.luck(0.4):
        extras["start_within_seconds"] = random.choice((1.0, 15.0, 200.0))
    if scene.luck(0.2):
        extras["timeout_seconds"] = 10.0
    return extras


def _dependencies(scene: Scene) -> dict[str, Any]:
    """Mostly unfinished jobs; now and then one that has ended, or never was."""
    random = scene.random
    known = [each for each, job in scene.seen.jobs.items() if not job.is_terminal]
    if not known or scene.luck(0.2):
        known = list(scene.seen.jobs)
    if scene.luck(0.03):
        known = ["no-such-job"]
    extras: dict[str, Any] = {
        "depends_on": tuple(random.sample(known, min(len(known), random.randint(1, 2)))),
        "on_dependency_failure": random.choice(("cancel", "fail", "ignore")),
    }
    if scene.swarm.prompt:
        # A late job's end may free another late one: when that is met is a store's own business.
        extras["start_within_seconds"] = None
    return extras


def _waiting(scene: Scene, made: Draft, needs: tuple[str, ...]) -> Draft:
    return msgspec.structs.replace(
        made,
        depends_on=needs,
        start_within_seconds=None if scene.swarm.prompt else made.start_within_seconds,
        on_dependency_failure=scene.random.choice(("cancel", "fail", "ignore")),
    )


def _bad(scene: Scene) -> Draft:
    """A draft that no store takes."""
    made = Draft(id=scene.book.new_id(), task="work")
    wrong: list[dict[str, Any]] = [
        {"priority": 101},
        {"payload": b'"' + b"x" * PAYLOAD_BYTES_MAX + b'"'},
        {"delay_seconds": -1.0},
        {"queue": ""},
    ]
    return msgspec.structs.replace(made, **scene.random.choice(wrong))


def policy(random: Random) -> RetryPolicy | None:
    return random.choice(
        (
            None,
            Constant(random.choice((0.0, 4.0))),
            Linear(1.0, 3.0, 8.0),
            Delays((0.0, 5.0)),
            Exponential(0.5, 3.0, 0.5, 20.0),
        )
    )
