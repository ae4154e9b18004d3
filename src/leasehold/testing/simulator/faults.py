"""Everything that may go wrong, and how often it does in one run."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Final


class Fault(StrEnum):
    """The simulator's faults."""

    CRASH_IDLE = "crash_idle"
    """A process dies between two steps."""
    CRASH_BEFORE = "crash_before"
    """A process dies just before its request leaves."""
    CRASH_AFTER = "crash_after"
    """A process dies after the store has carried its call out, before it hears so."""
    REQUEST_LOST = "request_lost"
    REPLY_LOST = "reply_lost"
    """The store did it; the caller is told only that something went wrong."""
    DUPLICATED = "duplicated"
    """The request arrives twice, one right after the other."""
    DUPLICATED_LATE = "duplicated_late"
    """The request arrives again when everybody has moved on."""
    DELAYED = "delayed"
    """The request is long on its way; others overtake it."""
    REPLY_DELAYED = "reply_delayed"
    PAUSED = "paused"
    """A process stands still, often past the end of its leases, and comes back."""
    CLOCK_FORWARD = "clock_forward"
    CLOCK_BACK = "clock_back"
    ASLEEP = "asleep"
    """The machine sleeps: the wall clock goes on, unfelt by any process."""
    HINT_LOST = "hint_lost"
    """A listener is not woken."""


IN_CALLS: Final = (
    Fault.CRASH_BEFORE,
    Fault.CRASH_AFTER,
    Fault.REQUEST_LOST,
    Fault.REPLY_LOST,
    Fault.DUPLICATED,
    Fault.DUPLICATED_LATE,
    Fault.DELAYED,
    Fault.REPLY_DELAYED,
    Fault.PAUSED,
)
"""Faults that strike a call; the others strike between calls."""

Strike = tuple[str, int]
"""One fault that struck: the stream it was drawn from, and its number in that stream."""


@dataclass(frozen=True, slots=True)
class Swarm:
    """The kind of one run. Each seed draws its own, so that the runs differ in kind.

    A run with every fault at once hides defects that a run with only one of them shows.
    """

    chances: dict[Fault, float]
    """How likely each fault is at each opportunity; a fault that is off is not in here."""
    producers: int
    holders: int
    workers: int
    operators: int
    jobs_per_minute: float
    lease_seconds: float
    sweep_seconds: float
    run_seconds_max: float
    pause_seconds_max: float
    step_seconds_max: float
    """How far the wall clock steps."""
    starts_per_second: float | None
    """Of the second queue, as a whole and per limit key, if it has start rates."""
    key_starts_per_second: float | None

    @classmethod
    def draw(cls, random: Random) -> Swarm:
        """The swarm of a seed."""
        mood = random.choice((0.0, 0.3, 0.6, 1.0))
        chances = {
            fault: random.choice((0.01, 0.03, 0.1)) for fault in Fault if random.random() < mood
        }
        lease_seconds = random.choice((6.0, 15.0, 40.0))
        return cls(
            chances=chances,
            producers=random.randint(1, 3),
            holders=random.randint(0, 3),
            workers=random.randint(1, 3),
            operators=random.randint(0, 2),
            jobs_per_minute=random.choice((10.0, 30.0, 60.0)),
            lease_seconds=lease_seconds,
            sweep_seconds=random.choice((2.0, 5.0, 15.0)),
            run_seconds_max=random.choice((0.5, 5.0, 2 * lease_seconds)),
            pause_seconds_max=3 * lease_seconds,
            # A step over a day also outlives the window of idempotency keys.
            step_seconds_max=random.choice((3.0, 60.0, 60.0, 90_000.0)),
            starts_per_second=random.choice((None, None, 1.0, 3.0)),
            key_starts_per_second=random.choice((None, None, 0.5, 2.0)),
        )
