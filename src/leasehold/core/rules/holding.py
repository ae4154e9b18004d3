"""What a holder says while its job runs: it goes on, it has got so far, it has logged this.

Each of these is fenced: who speaks under a lease that is over is refused, and nothing else is done.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol, TypeVar

from leasehold.core.model.joblog import LogLine, bounded
from leasehold.core.model.lease import (
    Renewal,
    Renewed,
    RunningLease,
    decide_renewal,
)
from leasehold.errors import LeaseExpiredError, LeaseLostError

LeaseName = tuple[str, int]
"""The id of a job, and the version of its lease."""

H = TypeVar("H")
"""A store's own handle of a running job."""


class HolderBook(Protocol[H]):
    """The running jobs, inside one write."""

    @property
    def now(self) -> int:
        """The store's clock, in microseconds."""

    @property
    def extension_seconds_max(self) -> float:
        """How long a lease may be made to last in all, by the store's settings."""

    def held(self, leases: Collection[LeaseName]) -> Mapping[LeaseName, tuple[H, RunningLease]]:
        """Those of these leases that run."""

    def refuse(self, job_id: str, version: int) -> LeaseLostError:
        """Refuse a stale holder, as `core.rules.fence` says."""

    def extend(self, extended: Sequence[tuple[H, int]]) -> None:
        """Let the leases of these jobs end then, and count them as renewed, with a sign of life."""

    def note_alive(self, worker: str) -> None:
        """Note a worker's own sign of life, if it is registered."""

    def keep_progress(self, job: H, progress: bytes) -> None: ...

    def add_lines(self, job: H, lines: Sequence[LogLine], dropped: int) -> None:
        """Add lines to a job's log, before which so many were dropped already."""


def renew(
    book: HolderBook[H], worker: str, renewals: Sequence[Renewal]
) -> list[Renewed | LeaseLostError]:
    """Renew leases that are held and not expired, and the worker's own sign of life."""
    held = book.held([(renewal.job_id, renewal.version) for renewal in renewals])
    # A length that is no number raises here, before anything is written.
    decided = {
        name: decide_renewal(
            renewal,
            held[name][1],
            now=book.now,
            extension_seconds_max=book.extension_seconds_max,
        )
        for renewal in renewals
        if (name := (renewal.job_id, renewal.version)) in held
    }
    answers: list[Renewed | LeaseLostError] = []
    extended: list[tuple[H, int]] = []
    for renewal in renewals:
        name = renewal.job_id, renewal.version
        answer = decided.get(name)
        if answer is None:
            answers.append(book.refuse(*name))
        elif isinstance(answer, LeaseExpiredError):
            answers.append(answer)
        else:
            until, renewed = answer
            extended.append((held[name][0], until))
            answers.append(renewed)
    book.extend(extended)
    # After the leases, as in an exchange that notes who leases.
    book.note_alive(worker)
    return answers


def report_progress(
    book: HolderBook[H], job_id: str, version: int, progress: bytes
) -> LeaseLostError | None:
    """Keep the latest progress; answers a stale holder with its error."""
    held = book.held([(job_id, version)]).get((job_id, version))
    if held is None:
        return book.refuse(job_id, version)
    book.keep_progress(held[0], progress)
    return None


def append_log(
    book: HolderBook[H], job_id: str, version: int, lines: Sequence[LogLine], dropped: int
) -> LeaseLostError | None:
    """Keep the latest lines; answers a stale holder with its error."""
    held = book.held([(job_id, version)]).get((job_id, version))
    if held is None:
        return book.refuse(job_id, version)
    book.add_lines(held[0], [LogLine(line.at, bounded(line.text)) for line in lines], dropped)
    return None
