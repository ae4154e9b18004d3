"""What programs and people ask of a store: one function per verb, which draws a call."""

from leasehold.testing.soak.verbs import (
    admitting,
    cleaning,
    holding,
    operating,
    ordering,
    pinning,
    queueing,
    reading,
    repeating,
    scheduling,
    submitting,
    tuning,
)
from leasehold.testing.soak.verbs.base import ADVANCE, VERBS, Scene, SoakVerb

__all__ = [
    "ADVANCE",
    "VERBS",
    "Scene",
    "SoakVerb",
    "admitting",
    "cleaning",
    "holding",
    "operating",
    "ordering",
    "pinning",
    "queueing",
    "reading",
    "repeating",
    "scheduling",
    "submitting",
    "tuning",
]
