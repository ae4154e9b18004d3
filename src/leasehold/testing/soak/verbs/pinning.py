"""Pins: deploy marks, named views, and workers that are asked to stop."""

from __future__ import annotations

from leasehold.core.model.pins import PIN_KINDS
from leasehold.testing.soak.calls import Call, call
from leasehold.testing.soak.swarm import Feature
from leasehold.testing.soak.verbs.base import Scene, verb
from leasehold.testing.soak.verbs.ordering import ACTOR

NAMES = ("v1", "v2", "worker-0")
NO_NAME = ""


@verb("pin", 4, Feature.PINS)
def pin(scene: Scene) -> Call:
    random = scene.random
    return call(
        "pin",
        kind=random.choice(PIN_KINDS),
        name=NO_NAME if scene.luck(0.1) else random.choice(NAMES),
        text=random.choice(("", "one", "other")),
        actor=random.choice((ACTOR, "somebody")),
    )


@verb("unpin", 2, Feature.PINS)
def unpin(scene: Scene) -> Call:
    random = scene.random
    return call("unpin", kind=random.choice(PIN_KINDS), name=random.choice(NAMES), actor=ACTOR)


@verb("list pins", 2, Feature.PINS)
def pins(scene: Scene) -> Call:
    return call("pins", kind=scene.random.choice(PIN_KINDS))
