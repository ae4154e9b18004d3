"""A look at the next jobs, without leasing them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from leasehold.core.model.refusals import no_queue
from leasehold.core.model.tokens import LOOKING
from leasehold.documents.jobs import job_document
from leasehold.service.answers import JobDocument
from leasehold.service.base import ApiPart
from leasehold.service.caller import Caller
from leasehold.service.new_job import Name
from leasehold.service.operation import Answer, Request, operation


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
        """List the pending jobs of a queue that would be leased next, without leasing them.

        They are listed in the order in which they would be leased. Jobs that wait for a slot of
        their key are left out; jobs of a paused queue, or of a queue without free slots, are not.
        """
        caller.check_queue(request.queue)
        jobs = self.store.peek(request.queue, limit=request.limit)
        if not jobs and self.store.queue_info(request.queue) is None:
            raise no_queue(request.queue)
        return NextJobs(jobs=[job_document(job) for job in jobs])
