"""Schedules: set, changed, paused, run out of turn, fired, removed."""

from __future__ import annotations

import msgspec

from leasehold.core.model.job import Draft
from leasehold.core.model.schedule import Misfire, ScheduleDraft
from leasehold.core.model.timing import Cron, Every
from leasehold.testing.soak.calls import Call, call
from leasehold.testing.soak.swarm import Feature
from leasehold.testing.soak.verbs.base import Scene, verb
from leasehold.testing.soak.verbs.ordering import ACTOR

NAMES = ("nightly", "often")
PERIODS = (10.0, 60.0, 300.0)


@verb("set a schedule", 4, Feature.SCHEDULES)
def set_schedule(scene: Scene) -> Call:
    random = scene.random
    job = Draft(id="template", task="work", queue=scene.queue(), retry=None, max_retries=1)
    timing = random.choice((Every(random.choice(PERIODS)), Cron("* * * * *"), Cron("*/5 * * * *")))
    misfires: list[Misfire] = ["run_once", "skip", "catch_up"]
    draft = ScheduleDraft(
        name=random.choice(NAMES),
        timing=timing,
        job=job,
        misfire=random.choice(misfires),
        catch_up_max=random.choice((1, 3, 100)),
        grace_seconds=random.choice((0.0, 30.0)),
        overlap=random.choice(("allow", "allow", "skip")),
    )
    if scene.luck(0.05):
        draft = msgspec.structs.replace(draft, catch_up_max=0)
    return call("set_schedule", draft=draft, actor=ACTOR)


@verb("fire schedules", 6, Feature.SCHEDULES)
def fire_schedules(scene: Scene) -> Call:  # noqa: ARG001 - every verb sees the scene.
    return call("fire_schedules")


@verb("pause a schedule", 2, Feature.SCHEDULES)
def pause_schedule(scene: Scene) -> Call:
    name, paused = scene.random.choice(NAMES), scene.luck(0.5)
    return call("pause_schedule", name=name, paused=paused, actor=ACTOR)


@verb("run a schedule", 2, Feature.SCHEDULES)
def run_schedule(scene: Scene) -> Call:
    name = scene.random.choice(NAMES)
    return call("run_schedule", name=name, job_id=scene.book.new_id(), actor=ACTOR)


@verb("remove a schedule", 1, Feature.SCHEDULES)
def remove_schedule(scene: Scene) -> Call:
    return call("remove_schedule", name=scene.random.choice(NAMES), actor=ACTOR)


@verb("look at a schedule", 1, Feature.SCHEDULES)
def get_schedule(scene: Scene) -> Call:
    return call("get_schedule", name=scene.random.choice(NAMES))
