"""Failures by fingerprint: what a store keeps of attempts that failed, and which of it it forgets.

Written only when something fails. A store that cannot change a row on its way out may add rows and
fold them later: `Failure.then` makes one of two.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple, Protocol

from leasehold.core.model.failure import FailedAttempt, Failure, WhatFailed, what_failed
from leasehold.core.model.outcome import JobError
from leasehold.core.rules.recovery import WORKER_LOST

FAILURES_MAX: Final = 1000
"""How many fingerprints a store keeps."""
FORGOTTEN_TOGETHER: Final = 100
"""How many are forgotten when there are too many, so that not every new one has to look for one."""


class StandingFailure(NamedTuple):
    """What decides whether a failure is forgotten."""

    fingerprint: str
    attempts: int
    last_at: int


class FailureBook(Protocol):
    """The failures that a store keeps, inside one write."""

    def known(self, fingerprints: Collection[str]) -> Mapping[str, Failure]:
        """Those of them that are kept."""

    def keep(self, failures: Sequence[Failure]) -> None:
        """Write failures down, each in the place of what was kept of it."""

    def size(self) -> int:
        """How many are kept."""

    def standing(self) -> Iterable[StandingFailure]:
        """All that are kept."""

    def forget(self, fingerprints: Sequence[str]) -> None: ...


def note(book: FailureBook, attempts: Iterable[FailedAttempt], at: datetime) -> None:
    """Count attempts that failed, or whose worker was lost, each for its fingerprint."""
    alike: defaultdict[WhatFailed, list[str]] = defaultdict(list)
    for attempt in attempts:
        alike[what_failed(_told_alike(attempt))].append(attempt.job_id)
    failures = (Failure.of(what, jobs, at) for what, jobs in alike.items())
    news = {failure.fingerprint: failure for failure in failures}
    if not news:
        return
    kept = book.known(news)
    book.keep([kept[each].then(new) if each in kept else new for each, new in news.items()])
    if len(kept) < len(news) and book.size() > FAILURES_MAX:
        book.forget(to_forget(book.standing()))


def to_forget(failures: Iterable[StandingFailure]) -> list[str]:
    """Which to forget when there are too many: of those that came once the oldest, then others.

    So a flood of errors that are all different does not wash away those that come again and again.
    """
    standing = sorted(failures, key=lambda each: (each.attempts > 1, each.last_at))
    surplus = max(0, len(standing) - FAILURES_MAX + FORGOTTEN_TOGETHER)
    return [each.fingerprint for each in standing[:surplus]]


def in_order(failures: Iterable[Failure], queue: str | None, task: str | None) -> list[Failure]:
    """Those of a queue and a task, the most frequent first."""
    found = [each for each in failures if queue in (None, each.queue) and task in (None, each.task)]
    return sorted(
        found, key=lambda each: (-each.count, -each.last_at.timestamp(), each.fingerprint)
    )


def _told_alike(attempt: FailedAttempt) -> FailedAttempt:
    """The message of a lost attempt names its worker and times: those do not make it another."""
    if attempt.error.type != WORKER_LOST:
        return attempt
    error = JobError(WORKER_LOST, "the worker died, or let its lease expire")
    return attempt._replace(error=error)
