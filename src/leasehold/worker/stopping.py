"""How a worker stops: when, why, and how long it waits for running jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Final

from leasehold.errors import LeaseholdError
from leasehold.worker.safelog import safe_logger

logger = safe_logger("leasehold.worker")

KILL_SECONDS: Final = 2.0
"""How long, after the grace, killed code may take to end before its job is handed back anyway."""
AGAIN: Final = "; Ctrl-C again to stop at once"
"""The end of the log line that says what a stop waits for, if Ctrl-C caused it."""
LAST_SECONDS: Final = 5.0
"""How long, after the grace, a store in trouble may take to accept the last outcomes."""


START_AGAIN: Final = 75
"""An exit code that systemd's `Restart=on-failure` and similar options treat as a failure; its name
in the system, EX_TEMPFAIL, means that another try may succeed.
"""


class StopReason(StrEnum):
    """Why a worker stopped."""

    STOPPED = "stopped"
    """Somebody asked for it."""
    MAX_JOBS = "max_jobs"
    MAX_MEMORY = "max_memory"
    STUCK = "stuck"
    """Too many of its threads run code that does not stop."""
    EMPTY = "empty"
    """There is nothing left to do, and it was asked to stop then."""
    UNRUNNABLE = "unrunnable"
    """Nothing is left that it could run, and it was asked to stop then; waiting jobs have other
    tasks.
    """
    STORE_LOST = "store_lost"
    """Its store was closed or is damaged."""
    REFUSED = "refused"
    """The service refuses it: its token was revoked, has expired or lacks the role."""

    @property
    def recycled(self) -> bool:
        """Whether the worker asks to be restarted in a new process."""
        return self in (StopReason.MAX_JOBS, StopReason.MAX_MEMORY, StopReason.STUCK)

    @property
    def exit_code(self) -> int:
        """The exit code: 0 if its work is done, 75 if a new process should continue.

        >>> StopReason.STOPPED.exit_code, StopReason.STUCK.exit_code
        (0, 75)
        """
        return 0 if self in (StopReason.STOPPED, StopReason.EMPTY) else START_AGAIN


class Stopping:
    """The plan for stopping; `ask` and `hurry` may be called from any thread."""

    def __init__(self, grace_seconds: float) -> None:
        self._grace_seconds = grace_seconds
        self._asked: StopReason | None = None
        self._given_up = False
        self._hurried = False
        self.is_interrupted = False
        """Whether somebody pressed Ctrl-C, and may press it again to hurry the stop."""
        self.is_unexpected_wait = False
        """Whether that ended a program with its own workers. Most of those log only warnings."""
        self._grace_ends_at: float | None = None
        self._handed_back_at: float | None = None

    @property
    def is_asked(self) -> bool:
        return self._asked is not None

    @property
    def reason(self) -> StopReason:
        return self._asked or StopReason.STOPPED

    @property
    def grace_seconds(self) -> float:
        """How long running jobs may take to finish."""
        return self._grace_seconds

    @property
    def is_wanted(self) -> bool:
        """Whether a person asked for the stop, rather than the worker itself."""
        return self._asked is StopReason.STOPPED

    def ask(self, reason: StopReason, grace_seconds: float | None = None) -> None:
        """Stop leasing and finish running jobs; a person's request overrides the worker's own."""
        if grace_seconds is not None:
            self._grace_seconds = grace_seconds
        if self._asked is None or reason is StopReason.STOPPED:
            self._asked = reason

    def hurry(self) -> None:
        """Do not wait for running jobs."""
        self._hurried = True
        self.ask(StopReason.STOPPED)

    def give_up(self, reason: StopReason) -> None:
        """The store is gone, so nothing can be settled: end now."""
        self._asked = reason
        self._given_up = True

    def begins_now(self, now: float) -> bool:
        """True once: when jobs that have not begun are to be handed back and the grace begins.

        A worker that recycles itself because of jobs or memory finishes all its jobs, however long
        that takes.
        """
        if self._grace_ends_at is not None:
            return False
        if self._asked not in (StopReason.STOPPED, StopReason.STUCK):
            return False
        self._grace_ends_at = now + self._grace_seconds
        return True

    def grace_ends_now(self, now: float) -> bool:
        """True once: when jobs still running are to be handed back."""
        if self._handed_back_at is not None or self._grace_ends_at is None:
            return False
        if self._hurried or now >= self._grace_ends_at:
            self._handed_back_at = now
            return True
        return False

    def is_last_chance(self, now: float) -> bool:
        """Whether even killed code has had enough time to end."""
        return self._handed_back_at is not None and now >= self._handed_back_at + KILL_SECONDS

    def is_over(self, now: float, has_work: bool) -> bool:
        """Whether the loop may end."""
        if self._asked is None:
            return False
        if self._given_up or not has_work:
            return True
        return self._handed_back_at is not None and now >= self._handed_back_at + LAST_SECONDS

    def next_moment(self, now: float) -> float:
        """The next of these times."""
        if self._handed_back_at is not None:
            kill_ends_at = self._handed_back_at + KILL_SECONDS
            return kill_ends_at if now < kill_ends_at else self._handed_back_at + LAST_SECONDS
        return float("inf") if self._grace_ends_at is None else self._grace_ends_at


def end_all(worker: str, parts: Iterable[Callable[[], object]]) -> None:
    """End the parts of a worker, one after the other, even if some fail."""
    for end in parts:
        try:
            end()
        except LeaseholdError as error:
            logger.warning("worker %s could not leave the registry: %s", worker, error)
        except BaseException:
            logger.exception("worker %s: a part of it did not stop cleanly", worker)
