"""The swarm: which features and faults one run has, and how often. Each seed draws its own.

A run with every feature at once hides defects that a run with three of them shows: rare
combinations are met when most of the others are turned off.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random
from typing import Final


class Feature(StrEnum):
    """The features that the programs of a run use; verbs and fields of jobs belong to one."""

    ALWAYS = "always"
    BREAKERS = "breakers"
    CLEANUPS = "clean-ups"
    CLOCKS = "clocks"
    DEADLINES = "deadlines"
    DEPENDENCIES = "dependencies"
    IDEMPOTENCY = "idempotency"
    KEYS = "keys"
    LIMITS = "limits"
    OPERATIONS = "operations"
    PEOPLE = "people"
    PINS = "pins"
    QUEUES = "queues"
    READS = "reads"
    REPAIRS = "clock repairs"
    """Not every store can be repaired: such a run is made on those that can."""
    REPEATS = "repeated requests"
    REPORTS = "reports"
    SCHEDULES = "schedules"
    SESSIONS = "sessions"
    """Of people who come in by a token, and jobs that its holders submit."""
    SETTINGS = "settings"
    SURVEYS = "surveys"
    TOKENS = "tokens"
    TRANSACTIONS = "transactions"
    WORKERS = "workers"


DRAWN_LAST: Final = (Feature.PINS, Feature.SESSIONS, Feature.SURVEYS)
"""What else a seed draws stays as it was before there were these."""


class CallFault(StrEnum):
    """The faults around a call."""

    REPEATED = "repeated"
    """No reply came, so the caller sends the same request again."""
    REPLY_LOST = "reply lost"
    """It happened, and the caller never hears of it."""
    REPEATED_LATE = "repeated late"
    """The same request arrives once more when others have moved on."""
    DELAYED = "delayed"
    """The request arrives late."""
    CRASHED = "crashed"
    """A holder dies with all its leases."""
    STOPPED = "stopped"
    """A holder stands still, often past the end of its leases, and comes back."""
    RESTARTED = "restarted"
    """The store is closed and opened again."""


@dataclass(frozen=True, slots=True)
class SoakSwarm:
    """The kind of one run."""

    features: frozenset[Feature]
    chances: dict[CallFault, float]
    """How likely each fault is at each call; a fault that is off is not in here."""
    queues: tuple[str, ...]
    workers: tuple[str, ...]
    lease_seconds: float
    pace_seconds: tuple[float, ...]
    """By how much time passes when it does."""
    prompt: bool
    """Whether jobs are promoted the moment they are due. Stores are free to do so later, so that
    only prompt runs can be compared; the others are made on one store, and judged."""
    weights: dict[str, float]
    """How much more often than usual a verb is drawn."""

    def has(self, feature: Feature) -> bool:
        return feature in self.features

    @classmethod
    def draw(cls, random: Random, verbs: tuple[str, ...]) -> SoakSwarm:
        """The swarm of a seed."""
        share = random.choice((0.25, 0.5, 0.8))
        faults = random.choice((0.0, 0.4, 0.8))
        swarm = cls(
            features=_features(random, share),
            chances={
                fault: random.choice((0.02, 0.05, 0.15))
                for fault in CallFault
                if random.random() < faults
            },
            queues=random.choice((("default",), ("default", "bulk"), ("default", "bulk", "slow"))),
            workers=tuple(f"worker-{number}" for number in range(random.randint(1, 3))),
            lease_seconds=random.choice((5.0, 20.0, 60.0)),
            pace_seconds=random.choice(((0.1, 1.0, 5.0), (1.0, 10.0, 30.0), (5.0, 61.0, 600.0))),
            prompt=random.random() < 0.7,
            weights={verb: random.choice((0.5, 1.0, 1.0, 3.0)) for verb in verbs},
        )
        last = {feature for feature in (Feature.OPERATIONS, *DRAWN_LAST) if random.random() < share}
        if Feature.SESSIONS in last:
            last.add(Feature.TOKENS)
        return replace(swarm, features=swarm.features | last)


def _features(random: Random, share: float) -> frozenset[Feature]:
    last = (Feature.OPERATIONS, *DRAWN_LAST)
    others = [feature for feature in Feature if feature not in last]
    drawn = {feature for feature in others if random.random() < share}
    if random.random() < 0.8:
        drawn.discard(Feature.REPAIRS)
    if Feature.REPAIRS in drawn:
        drawn.add(Feature.CLOCKS)
        # How long a reply is kept goes by the clock that is repaired.
        drawn.discard(Feature.REPEATS)
    return frozenset({Feature.ALWAYS, *drawn})
