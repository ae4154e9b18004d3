"""References to a job: an id, a unique beginning or end of one, or @last."""

from __future__ import annotations

from typing import Final

from leasehold.cli.lastjob import LAST, recalled
from leasehold.cli.layout import ELLIPSIS
from leasehold.cli.session import Session
from leasehold.cli.times import MINUTES, time_text
from leasehold.core.model.refusals import no_job
from leasehold.core.model.search import HeavyField
from leasehold.errors import ForbiddenError, JobNotFoundError, LeaseholdError

NEAR_MAX: Final = 3
NEAR_LENGTH_MIN: Final = 3
"""Ids that share less than this are treated as unrelated."""


TAIL_LENGTH_MIN: Final = 4
TAIL_LOOKED_THROUGH: Final = 5000
"""How many of the latest jobs are searched for an id by its end."""
PAGE: Final = 500
HEAVY: Final[tuple[HeavyField, ...]] = ("payload", "result", "metadata")


class AmbiguousIdError(LeaseholdError, ValueError):
    """Raised when several jobs begin, or end, with the typed text."""


def job_id_of(session: Session, text: str) -> str:
    """The id of the job that is meant; raises JobNotFoundError or AmbiguousIdError."""
    if text == LAST:
        return _last(session)
    text = text.removeprefix(ELLIPSIS)  # As a narrow table shows it.
    # An exact id comes first, since nothing shorter begins with it.
    found = _beginning(session, text) if text else []
    if found and (found[0] == text or len(found) == 1):
        return found[0]
    if found:
        is_workflow = all(job_id.startswith(f"{text}:") for job_id in found)
        what = f"{text!r} is a workflow" if is_workflow else f"several jobs begin with {text!r}"
        raise AmbiguousIdError(f"{what}: {_listed(found)}; type the end of the one you mean")
    # Ids begin with the time, so those of one minute are alike; their ends are random.
    ending = _ending(session, text)
    if len(ending) == 1:
        return ending[0]
    if ending:
        raise AmbiguousIdError(
            f"several jobs end with {text!r}: {_listed(ending)}; type more of the one you mean"
        )
    raise JobNotFoundError(_unknown(session, text))


def job_ids_of(session: Session, text: str) -> list[str]:
    """The id of the job that is meant, or the ids of all jobs of the workflow that is."""
    try:
        return [job_id_of(session, text)]
    except (AmbiguousIdError, JobNotFoundError):
        of_workflow = session.queue.search(parent_id=text, without=HEAVY)
        job_ids = [job.id for job in of_workflow] if text else []
        if not job_ids:
            raise
        return job_ids


def _last(session: Session) -> str:
    job_id = recalled(session.last_job_store)
    if job_id is None:
        raise JobNotFoundError(
            f"{LAST}: no job was submitted from this shell to {session.shown_store} yet"
        )
    return job_id


def _beginning(session: Session, text: str) -> list[str]:
    """The ids that begin like this, at most NEAR_MAX + 1 of them."""
    try:
        return session.queue.find_ids(text, limit=NEAR_MAX + 1)
    except ForbiddenError:
        # A token for some queues may not look through the ids of all: it names one, or its end.
        return [text] if session.queue.store.get(text) is not None else []


def _ending(session: Session, text: str) -> list[str]:
    """The latest jobs whose ids end like this, at most NEAR_MAX + 1 of them."""
    found: list[str] = []
    cursor: str | None = None
    for _ in range(TAIL_LOOKED_THROUGH // PAGE if len(text) >= TAIL_LENGTH_MIN else 0):
        page = session.queue.search_page(limit=PAGE, cursor=cursor, without=HEAVY)
        found += [job.id for job in page.jobs if job.id.endswith(text)]
        cursor = page.next_cursor
        if cursor is None or len(found) > NEAR_MAX:
            break
    return found[: NEAR_MAX + 1]


def _unknown(session: Session, text: str) -> str:
    try:
        old = session.queue.archive.get(text)
    except JobNotFoundError:
        near = _near(session, text)
        return str(no_job(text)) + (f"; similar ids: {_listed(near)}" if near else "")
    return (
        f"job {text!r} was {old.status.value} and was archived at "
        f"{time_text(old.archived_at, MINUTES)}: `show` has its summary"
    )


def _near(session: Session, text: str) -> list[str]:
    """The ids that share the longest beginning with the typed text."""
    for length in range(len(text) - 1, NEAR_LENGTH_MIN - 1, -1):
        found = _beginning(session, text[:length])
        if found:
            return found
    return []


def _listed(job_ids: list[str]) -> str:
    more = ", ..." if len(job_ids) > NEAR_MAX else ""
    return ", ".join(job_ids[:NEAR_MAX]) + more
