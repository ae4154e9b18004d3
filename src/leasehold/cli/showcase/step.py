"""One step of `demo`, and how it says that something did not come out as promised."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import NamedTuple

from leasehold.cli.showcase.stage import ShowcaseStage
from leasehold.core.model.history import Attempt


class StepFailedError(Exception):
    """Raised when something did not come out as promised."""


class ShowcaseStep(NamedTuple):
    """One thing that Leasehold can do."""

    name: str
    explanation: str
    play: Callable[[ShowcaseStage], str]
    """Does it; returns the observation, or raises."""


def expect(came_true: bool, otherwise: str) -> None:
    """Raise StepFailedError, naming the actual value, unless the condition came true."""
    if not came_true:
        raise StepFailedError(otherwise)


def most_at_once(attempts: Iterable[Attempt]) -> int:
    """How many of these attempts ran at the same time, at most."""
    attempts = list(attempts)
    ends = [(attempt.ended_at, -1) for attempt in attempts if attempt.ended_at is not None]
    steps = sorted([*((attempt.started_at, 1) for attempt in attempts), *ends])
    return max(accumulate(change for _, change in steps))
