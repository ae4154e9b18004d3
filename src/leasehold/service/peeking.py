"""A look at what comes next, without leasing it."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.core.model.tokens import LOOKING
from leasehold.documents.jobs import job_document
from leasehold.errors import UnsupportedError
from leasehold.queue.peeking import next_jobs
from leasehold.service.answers import JobDocument
from leasehold.service.base import ApiPart
from leasehold.service.caller import Caller
from leasehold.service.new_job import Name
from leasehold.service.operation import Answer, Request, operation

PENDING_MAX: Final = 10_000
"""All pending jobs are looked through: a request that takes seconds would hinder others."""


class Peek(Request):
    """Of one queue, so many jobs."""

    queue: Name
    limit: Annotated[int, Meta(ge=1, le=100)] = 1


class NextJobs(Answer):
    """The jobs that would be leased next, the first first."""

    jobs: list[JobDocument]


class Peeking(ApiPart):
    """The operation that only looks."""

    @operation("GET", "/queues/{queue}/next", *LOOKING)
    def peek(self, caller: Caller, request: Peek) -> NextJobs:
        """Tell which pending jobs of a queue would be leased next, without leasing them.

        It looks through all that is pending, up to 10,000 jobs: for people and tests, not for
        loops. Jobs that a limit of the queue or of their key holds back are among them.
        """
        caller.check_queue(request.queue)
        where = JobFilter(queues=(request.queue,), statuses=(Status.PENDING,))
        pending = self.store.count(where, counted_max=PENDING_MAX)
        if pending.jobs > PENDING_MAX or not pending.is_exact:
            raise UnsupportedError(
                f"more than {PENDING_MAX:,} jobs are pending in queue {request.queue!r}, too many "
                "to look through in one request: submit with `with_position`, or list them with "
                "GET /jobs?status=pending"
            )
        jobs = next_jobs(self.store, [request.queue], request.limit)
        return NextJobs(jobs=[job_document(job) for job in jobs])
