"""The table of verbs, and a verb's view when it draws its call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from leasehold.core.model.lease import Lease
from leasehold.env import ManualClock
from leasehold.testing.soak.book import Book
from leasehold.testing.soak.calls import Call
from leasehold.testing.soak.observing import Snapshot
from leasehold.testing.soak.swarm import Feature, SoakSwarm

ADVANCE: Final = "advance"
"""The verb of time itself: no store is asked anything."""


@dataclass(frozen=True, slots=True)
class Scene:
    """The knowledge of the next actor."""

    random: Random
    seen: Snapshot
    book: Book
    swarm: SoakSwarm
    clock: ManualClock

    def has(self, feature: Feature) -> bool:
        return self.swarm.has(feature)

    def luck(self, chance: float) -> bool:
        return self.random.random() < chance

    def queue(self) -> str:
        return self.random.choice(self.swarm.queues)

    def some_ids(self, most: int = 3) -> list[str]:
        """Present and deleted jobs: now and then one that never was."""
        known = list(self.seen.jobs)
        if self.luck(0.1):
            known = [*self.book.gone_ids[-5:], "no-such-job"]
        if not known:
            return ["no-such-job"]
        return self.random.sample(known, min(len(known), self.random.randint(1, most)))

    def once(self, asked: Call) -> Call:
        """The same, in some runs under an id, so that it may be sent again."""
        if not self.has(Feature.REPEATS) or self.luck(0.5):
            return asked
        return replace(asked, request_id=self.book.new_request_id())

    def lease(self, *, careless: float = 0.2) -> Lease | None:
        """A lease that somebody holds, or believes to hold."""
        leases = self.book.past[-20:] if self.luck(careless) else self.book.held
        return self.random.choice(leases) if leases else None


Drawing = Callable[[Scene], Call | None]
"""Draws a call; None where there is nothing to ask for."""


@dataclass(frozen=True, slots=True)
class SoakVerb:
    """How a verb is drawn, in runs that have its feature, and how often."""

    name: str
    draw: Drawing
    feature: Feature
    weight: float


VERBS: Final[dict[str, SoakVerb]] = {}
"""Every verb, by name."""


def verb(
    name: str, weight: float, feature: Feature = Feature.ALWAYS
) -> Callable[[Drawing], Drawing]:
    """Enter a verb into the table."""

    def enter(draw: Drawing) -> Drawing:
        assert name not in VERBS, f"two verbs are called {name}"
        VERBS[name] = SoakVerb(name, draw, feature, weight)
        return draw

    return enter


@verb(ADVANCE, 30)
def advance(scene: Scene) -> None:
    """Time passes for everybody."""
    scene.clock.advance(scene.random.choice(scene.swarm.pace_seconds))


@verb("leap", 0.5, Feature.CLOCKS)
def leap(scene: Scene) -> None:
    """A long time passes: a day is over, and the window of idempotency keys with it."""
    scene.clock.advance(scene.random.choice((3700.0, 90_000.0)))


@verb("step the wall clock", 2, Feature.CLOCKS)
def step_the_wall_clock(scene: Scene) -> None:
    scene.clock.step_wall_clock(scene.random.choice((-3600.0, -20.0, -1.0, 2.0, 100.0, 4000.0)))


@verb("sleep", 1, Feature.CLOCKS)
def sleep(scene: Scene) -> None:
    """The machine sleeps, unfelt by any process."""
    scene.clock.suspend(scene.random.choice((10.0, 1000.0)))
