"""What programs and people ask of a store: one function per verb, which draws a call."""

from leasehold.testing.soak.verbs import (
    admitting,
    cleaning,
    holding,
    operating,
    ordering,
    queueing,
    reading,
    repeating,
    scheduling,
    submitting,
    tuning,
)
from leasehold.testing.soak.verbs.base import ADVANCE, VERBS, Scene, Verb

__all__ = [
    "ADVANCE",
    "VERBS",
    "Scene",
    "Verb",
    "admitting",
    "cleaning",
    "holding",
    "operating",
    "ordering",
    "queueing",
    "reading",
    "repeating",
    "scheduling",
    "submitting",
    "tuning",
]
