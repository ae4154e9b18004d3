"""Which lines of a file are to blame when the store refuses all of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final

from leasehold.core.model.search import JobFilter
from leasehold.errors import DuplicateJobError, LeaseholdError
from leasehold.queue.facade import TaskQueue
from leasehold.queue.options import NewJob, draft_fields

AT_ONCE: Final = 500
TOLD_MAX: Final = 20


def blaming(error: LeaseholdError, queue: TaskQueue, lines: Mapping[int, NewJob]) -> LeaseholdError:
    """The same error, naming the lines; as it is if none is found to blame (any more)."""
    fields = {number: draft_fields(job.options) for number, job in lines.items()}
    named = {number: each["id"] for number, each in fields.items() if "id" in each}
    if isinstance(error, DuplicateJobError):
        known = _known(queue, named.values())
        told = [
            f"line {line}: the id {each!r} is taken"
            for line, each in named.items()
            if each in known
        ]
    else:
        needed = {line: each.get("depends_on", ()) for line, each in fields.items()}
        ids = {each for several in needed.values() for each in several}
        known = _known(queue, ids) | set(named.values())
        told = [
            f"line {line}: there is no job {each!r} to depend on"
            for line, several in needed.items()
            for each in several
            if each not in known
        ]
    if not told:
        return error
    more = [f"... and {len(told) - TOLD_MAX:,} more"] if len(told) > TOLD_MAX else []
    return type(error)("\n".join([*told[:TOLD_MAX], *more, "nothing was stored"]))


def _known(queue: TaskQueue, job_ids: Iterable[str]) -> set[str]:
    """The given ids that are in the store."""
    found: set[str] = set()
    remaining = iter(dict.fromkeys(job_ids))
    while ids := tuple(islice(remaining, AT_ONCE)):
        found.update(job.id for job in queue.search(JobFilter(ids=ids)))
    return found
