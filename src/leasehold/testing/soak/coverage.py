"""Coverage: which verbs, faults, transitions, errors and rules a soak has met, and which never."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from leasehold.core.model.status import TRANSITIONS
from leasehold.testing.soak.swarm import CallFault

ERRORS: Final = (
    "CycleError",
    "DuplicateJobError",
    "IdempotencyConflictError",
    "InvalidJobError",
    "InvalidOrderError",
    "InvalidPageError",
    "InvalidPinError",
    "InvalidQueueError",
    "InvalidScheduleError",
    "InvalidSettingError",
    "InvalidTokenError",
    "InvalidTransitionError",
    "InvalidWindowError",
    "JobNotFoundError",
    "LeaseConflictError",
    "LeaseExpiredError",
    "LeaseLostError",
    "OperationNotFoundError",
    "PayloadError",
    "PayloadTooLargeError",
    "QueueClosedError",
    "QueueExistsError",
    "QueueFullError",
    "QueueNotEmptyError",
    "QueueNotFoundError",
    "RateLimitedError",
    "ScheduleNotFoundError",
    "TokenExistsError",
    "TokenNotFoundError",
    "UnauthenticatedError",
    "UnknownDependencyError",
)
"""Every error that a verb is refused with; the others are about the store itself."""


@dataclass(slots=True)
class Coverage:
    """The events met, and how often."""

    verbs: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    transitions: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)

    def add(self, other: Coverage) -> None:
        """Count what another run has met, too."""
        for name in self.__slots__:
            getattr(self, name).update(getattr(other, name))

    def never(self, verbs: Iterable[str], rules: Iterable[str]) -> list[str]:
        """What should have been met and was not, in words."""
        return [
            f"{kind} {name!r}"
            for kind, wanted, met in (
                ("verb", verbs, self.verbs),
                ("fault", CallFault, self.faults),
                ("transition", all_transitions(), self.transitions),
                ("error", ERRORS, self.errors),
                ("rule", rules, self.rules),
            )
            for name in wanted
            if not met[name]
        ]

    def table(self) -> Iterator[str]:
        """Lines for people: every kind, the rarest first."""
        for kind in self.__slots__:
            met: Counter[str] = getattr(self, kind)
            yield f"{kind}:"
            shown = [f"{name} {met[name]:,}" for name in sorted(met, key=lambda each: met[each])]
            yield from _wrapped(shown)


def transition(event: str, before: str | None, after: str | None) -> str:
    """The name of a transition."""
    return f"{event}: {before or 'new'} to {after}"


def all_transitions() -> Iterator[str]:
    """Every step that the table of the core allows."""
    for event, steps in TRANSITIONS.items():
        for before, afters in steps.items():
            for after in sorted(afters):
                yield transition(event, before, after)


def _wrapped(words: list[str], width: int = 96) -> Iterator[str]:
    line = "  "
    for word in words:
        if len(line) + len(word) > width:
            yield line.rstrip(" ,")
            line = "  "
        line += f"{word}, "
    yield line.rstrip(" ,")
