"""Failures by fingerprint: the records of failed attempts, and which of them a store forgets.

They are written only when an attempt fails. A store that cannot update rows in place may add rows
and merge them later with `Failure.then`. In addition, attempts are counted by the type of their
error alone: those counts only grow, whichever fingerprints are forgotten.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple, Protocol

from leasehold.core.model.failure import FailedAttempt, Failure, WhatFailed, what_failed
from leasehold.core.model.outcome import JobError
from leasehold.core.rules.recovery import WORKER_LOST

FAILURES_MAX: Final = 1000
"""How many fingerprints a store keeps."""
FORGOTTEN_TOGETHER: Final = 100
"""How many are forgotten at once when there are too many, so that not every new one has to search
for one.
"""


ERROR_TYPES_MAX: Final = 200
"""How many error types, each in one queue, are counted under their own names."""
ERROR_TYPE_LENGTH_MAX: Final = 120
"""Longer names of types are cut."""
ERROR_TYPE_KEPT: Final = timedelta(days=7)
"""A type that did not occur for this long gives its place to another one when none is left."""
OTHER: Final = "other"
"""The name under which types without a place are counted."""


class ErrorType(NamedTuple):
    """A type of error in one queue."""

    queue: str
    name: str


class StandingFailure(NamedTuple):
    """The fields that decide whether a failure is forgotten."""

    fingerprint: str
    attempts: int
    last_at: int


class FailureBook(Protocol):
    """The failures that a store keeps, inside one write."""

    def known(self, fingerprints: Collection[str]) -> Mapping[str, Failure]:
        """The failures with these fingerprints that are kept."""

    def keep(self, failures: Sequence[Failure]) -> None:
        """Save failures, each replacing its earlier record."""

    def size(self) -> int:
        """How many are kept."""

    def standing(self) -> Iterable[StandingFailure]:
        """All failures that are kept."""

    def forget(self, fingerprints: Sequence[str]) -> None: ...

    def known_types(self, types: Collection[ErrorType]) -> Collection[ErrorType]:
        """The given types that are counted under their own names."""

    def types_counted(self) -> int:
        """How many types are counted under their own names."""

    def count_types(self, attempts: Mapping[ErrorType, int], at: datetime) -> None:
        """Add to the counts of types, or start them."""

    def forget_types(self, before: datetime) -> None:
        """Drop the counts of types that did not occur since a given time."""


def note(book: FailureBook, attempts: Iterable[FailedAttempt], at: datetime) -> None:
    """Count attempts that failed or whose worker was lost, by fingerprint."""
    alike: defaultdict[WhatFailed, list[str]] = defaultdict(list)
    for attempt in attempts:
        alike[what_failed(_told_alike(attempt))].append(attempt.job_id)
    failures = (Failure.of(what, jobs, at) for what, jobs in alike.items())
    news = {failure.fingerprint: failure for failure in failures}
    if not news:
        return
    _count_types(book, news.values(), at)
    kept = book.known(news)
    book.keep([kept[each].then(new) if each in kept else new for each, new in news.items()])
    if len(kept) < len(news) and book.size() > FAILURES_MAX:
        book.forget(to_forget(book.standing()))


def _count_types(book: FailureBook, failures: Iterable[Failure], at: datetime) -> None:
    attempts: Counter[ErrorType] = Counter()
    for each in failures:
        attempts[ErrorType(each.queue, each.error_type[:ERROR_TYPE_LENGTH_MAX])] += each.count
    new = attempts.keys() - book.known_types(attempts)
    if new:
        places = ERROR_TYPES_MAX - book.types_counted()
        if places < len(new):
            book.forget_types(at - ERROR_TYPE_KEPT)
            places = ERROR_TYPES_MAX - book.types_counted()
        for nameless in sorted(new)[max(0, places) :]:
            attempts[ErrorType(nameless.queue, OTHER)] += attempts.pop(nameless)
    book.count_types(attempts, at)


def to_forget(failures: Iterable[StandingFailure]) -> list[str]:
    """Which failures to forget when there are too many: the oldest that occurred once, then others.

    So a flood of different errors does not displace recurring ones.
    """
    standing = sorted(failures, key=lambda each: (each.attempts > 1, each.last_at))
    surplus = max(0, len(standing) - FAILURES_MAX + FORGOTTEN_TOGETHER)
    return [each.fingerprint for each in standing[:surplus]]


def in_order(failures: Iterable[Failure], queue: str | None, task: str | None) -> list[Failure]:
    """The failures of a queue and a task, most frequent first."""
    found = [each for each in failures if queue in (None, each.queue) and task in (None, each.task)]
    return sorted(
        found, key=lambda each: (-each.count, -each.last_at.timestamp(), each.fingerprint)
    )


def _told_alike(attempt: FailedAttempt) -> FailedAttempt:
    """The message of a lost attempt without its worker and times, which do not make it a different
    failure.
    """
    if attempt.error.type != WORKER_LOST:
        return attempt
    error = JobError(WORKER_LOST, "the worker died, or let its lease expire")
    return attempt._replace(error=error)
