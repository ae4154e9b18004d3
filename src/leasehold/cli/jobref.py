"""Which job is meant: an id, or enough of its beginning to be the only one."""

from __future__ import annotations

from typing import Final

from leasehold.cli.session import Session
from leasehold.cli.times import MINUTES, time_text
from leasehold.core.model.refusals import no_job
from leasehold.errors import JobNotFoundError, LeaseholdError

NEAR_MAX: Final = 3
NEAR_LENGTH_MIN: Final = 3
"""Ids that have less than this in common have nothing in common."""


class AmbiguousIdError(LeaseholdError, ValueError):
    """Raised when several jobs begin like what was typed."""


def job_id_of(session: Session, text: str) -> str:
    """The id of the job that is meant; raises JobNotFoundError or AmbiguousIdError."""
    # An id that is exactly this one comes first, since nothing shorter begins like it.
    found = session.queue.find_ids(text, limit=NEAR_MAX + 1) if text else []
    if found and (found[0] == text or len(found) == 1):
        return found[0]
    if found:
        raise AmbiguousIdError(
            f"several jobs begin with {text!r}: {_listed(found)}; type more of the one you mean"
        )
    raise JobNotFoundError(_unknown(session, text))


def _unknown(session: Session, text: str) -> str:
    try:
        old = session.queue.archive.get(text)
    except JobNotFoundError:
        near = _near(session, text)
        return str(no_job(text)) + (f"; near it: {_listed(near)}" if near else "")
    return (
        f"job {text!r} was {old.status.value} and is in the archive since "
        f"{time_text(old.archived_at, MINUTES)}: `show` tells what is remembered of it"
    )


def _near(session: Session, text: str) -> list[str]:
    """The ids that have the longest beginning in common with what was typed."""
    for length in range(len(text) - 1, NEAR_LENGTH_MIN - 1, -1):
        found = session.queue.find_ids(text[:length], limit=NEAR_MAX + 1)
        if found:
            return found
    return []


def _listed(job_ids: list[str]) -> str:
    more = ", ..." if len(job_ids) > NEAR_MAX else ""
    return ", ".join(job_ids[:NEAR_MAX]) + more
