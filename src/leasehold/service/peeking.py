"""What runs next, without leasing it, and why a job does not run."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from leasehold.core.model.reason import ReasonKind
from leasehold.core.model.refusals import no_queue
from leasehold.core.model.tokens import LOOKING
from leasehold.documents.jobs import job_document
from leasehold.queue.queues import reason_in
from leasehold.service.answers import JobDocument
from leasehold.service.base import ApiPart
from leasehold.service.caller import Caller
from leasehold.service.new_job import Name
from leasehold.service.operation import Answer, Request, operation
from leasehold.service.out_of_sight import shown
from leasehold.service.store_sight import workers_of


class Peek(Request):
    """Of one queue, so many jobs."""

    queue: Name
    limit: Annotated[int, Meta(ge=1, le=100)] = 1


class NextJobs(Answer):
    """The jobs that would be leased next, the first first."""

    jobs: list[JobDocument]


class WhyJob(Request):
    """A job that does not run."""

    job_id: str


class WhyAnswer(Answer):
    """Why a job is not running: a kind for programs, and a sentence for people."""

    kind: ReasonKind
    text: str
    details: dict[str, Any]
    """The values in the sentence, by name; they depend on the kind."""


class Peeking(ApiPart):
    """The operations about jobs that wait."""

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

    @operation("GET", "/jobs/{job_id}/why", *LOOKING)
    def why(self, caller: Caller, request: WhyJob) -> WhyAnswer:
        """Say why a job is not running: the first reason that applies."""
        # The sentence is made of what this caller may see: names in it could not be taken out.
        job = shown(caller, self.store, self.job_of(caller, request.job_id))
        workers = self.store.workers()
        if caller.queues is not None:
            workers = workers_of(caller.queues, workers)
        reason = reason_in(self.store, job, workers)
        return WhyAnswer(kind=reason.kind, text=reason.text, details=reason.details)
