"""Settings, and the repair of a clock that was wrong."""

from __future__ import annotations

from leasehold.testing.soak.calls import Call, call
from leasehold.testing.soak.swarm import Feature
from leasehold.testing.soak.verbs.base import Scene, verb
from leasehold.testing.soak.verbs.ordering import ACTOR

VALUES: dict[str, tuple[float | int | None, ...]] = {
    "max_retries": (0, 2),
    "backoff_base": (0.5, 3.0),
    "timeout_seconds": (None, 12.0),
    "lease_seconds": (8.0, 30.0),
    "lease_extension_max": (10.0, 100.0),
    "retention_completed_seconds": (None, 10.0),
    "retention_cancelled_seconds": (None, 10.0),
    "retention_dead_seconds": (None, 40.0),
    "prune_interval": (None, 30.0),
    "no_such_setting": (1,),
    "backoff_factor": (1.5, 0.5),
}
"""Settings, and values to give them; the last two are, or may be, refused."""


@verb("set a setting", 5, Feature.SETTINGS)
def set_setting(scene: Scene) -> Call:
    name = scene.random.choice(tuple(VALUES))
    return call("set_setting", name=name, value=scene.random.choice(VALUES[name]), actor=ACTOR)


@verb("unset a setting", 2, Feature.SETTINGS)
def unset_setting(scene: Scene) -> Call:
    return call("unset_setting", name=scene.random.choice(tuple(VALUES)), actor=ACTOR)


@verb("repair the clock", 3, Feature.REPAIRS)
def repair_clock(scene: Scene) -> Call:  # noqa: ARG001 - every verb sees the scene.
    return call("repair_clock", actor=ACTOR)
