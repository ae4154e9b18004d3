"""The operations of producers: submit jobs, read them, wait for them, cancel them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from msgspec import Meta

from leasehold.core.model.durations import duration_text
from leasehold.core.model.job import Draft, Job, priority_of
from leasehold.core.model.records import Submitted
from leasehold.core.model.status import Status
from leasehold.core.model.tokens import LOOKING
from leasehold.documents.jobs import attempt_document, job_document
from leasehold.errors import (
    InvalidFieldError,
    InvalidJobError,
    LeaseholdError,
    ResultTimeoutError,
)
from leasehold.observe.tracing import submitting
from leasehold.queue.awaiting import wait_for_end
from leasehold.queue.large import has_large, submit_large
from leasehold.queue.metrics import Metrics
from leasehold.queue.orders import only
from leasehold.queue.results import check_completed
from leasehold.queue.waiters import Waiters
from leasehold.service.answers import AttemptDocument, History, JobDocument, Log, Problem
from leasehold.service.base import ApiPart
from leasehold.service.caller import Caller
from leasehold.service.new_job import Name, NewJob, Priority
from leasehold.service.operation import Answer, Request, operation
from leasehold.service.scope import refusals

JOBS_AT_ONCE_MAX: Final = 10_000
WAIT_SECONDS_MAX: Final = 300.0
WAIT_SECONDS: Final = 20.0

WaitSeconds = Annotated[float, Meta(ge=0, le=WAIT_SECONDS_MAX)]
PageSize = Annotated[int, Meta(ge=1, le=1000)]


class Submit(NewJob):
    """A job to submit, and what to include in the answer."""

    request_id: Name | None = None
    """A request that is sent again under the same id is answered as the first time."""
    with_position: bool = False
    """Whether to count the jobs ahead of this one, and estimate when it starts."""


class SubmitAnswer(Answer):
    """The new job, or the one that was submitted before under the same idempotency key."""

    id: str
    status: Status
    is_duplicate: bool
    position: int | None = None
    """The number of pending jobs ahead of this one in its queue."""
    estimated_start_at: datetime | None = None
    """An estimate from the rate of the latest minutes; none if nothing was leased in them."""

    @classmethod
    def of(cls, stored: Submitted) -> SubmitAnswer:
        """The answer about a job that was stored, without its place."""
        return cls(id=stored.id, status=stored.status, is_duplicate=stored.is_duplicate)


class SubmitBatch(Request):
    """Several jobs: all or none of them are stored, or (`partial`) as many as possible."""

    jobs: Annotated[list[NewJob], Meta(max_length=JOBS_AT_ONCE_MAX)]
    partial: bool = False
    request_id: Name | None = None
    """A request that is sent again under the same id is answered as the first time."""


class SortedBatch(SubmitBatch, kw_only=True):
    """A partial batch in which some jobs make no sense: for each of those, why."""

    sorted_jobs: list[NewJob | LeaseholdError]


class Accepted(Answer):
    """A job of a batch that was stored, or known before."""

    index: int
    id: str
    status: Status
    is_duplicate: bool


class Refused(Answer):
    """A job of a batch that was refused, and why."""

    index: int
    error: Problem


class SubmitBatchAnswer(Answer):
    """The outcome of each job of a batch, by its position in the batch."""

    successful: list[Accepted]
    failed: list[Refused]


Extra = Literal["attempts", "history", "dependents"]


class GetJob(Request):
    """One job, and which of its records to include."""

    job_id: str
    include: tuple[Extra, ...] = ()


class JobDetails(Answer):
    """A job, and the records that were requested with it."""

    job: JobDocument
    attempts: list[AttemptDocument] | None = None
    history: History | None = None
    dependents: list[str] | None = None
    """Jobs that wait, or waited, for this one directly."""


class JobPart(Request):
    """A page of a job's history or log."""

    job_id: str
    limit: PageSize = 100
    cursor: str | None = None


class CancelJob(Request):
    """A job to cancel."""

    job_id: str
    reason: str = ""


class ChangePriority(Request):
    """A waiting job, and its new priority."""

    job_id: str
    priority: Priority


class JobAnswer(Answer):
    """A job as it is now."""

    job: JobDocument


class WaitForJob(Request):
    """Wait until a job has ended."""

    job_id: str
    timeout_seconds: WaitSeconds = WAIT_SECONDS


class WaitAnswer(Answer):
    """The job, and whether it has ended."""

    ended: bool
    job: JobDocument


class ResultAnswer(Answer):
    """The result of a job."""

    result: Any


class Producers(ApiPart):
    """Operations for those who submit jobs."""

    waiters: Waiters
    figures: Metrics

    @operation("POST", "/jobs", "producer", status=201)
    def submit(self, caller: Caller, request: Submit) -> SubmitAnswer:
        """Submit a job.

        The header `Idempotency-Key` is the job's key: for 24 hours, the same job under the same key
        is stored once.
        """
        request_id = caller.request_id(request.request_id)
        draft = request.draft(caller, self.env, request_id)
        [answer] = self._store(caller, [draft], request_id)
        assert isinstance(answer, Submitted)
        told = SubmitAnswer.of(answer)
        if request.with_position:
            told.position = self.store.position(answer.id)
            told.estimated_start_at = self.figures.estimated_start(answer.id)
        return told

    @operation("POST", "/jobs/batch", "producer", status=201)
    def submit_batch(self, caller: Caller, request: SubmitBatch) -> SubmitBatchAnswer:
        """Submit several jobs in one write.

        Either all jobs are stored or none, unless `partial` is true: then the answer lists the
        refused jobs and the reasons.
        """
        jobs = request.sorted_jobs if isinstance(request, SortedBatch) else request.jobs
        drafts: list[Draft] = []
        faults: dict[int, LeaseholdError] = {}
        for index, job in enumerate(jobs):
            try:
                if isinstance(job, LeaseholdError):
                    raise job
                made_id = caller.request_id(request.request_id, 1 + index)
                drafts.append(job.draft(caller, self.env, made_id))
            except (InvalidJobError, InvalidFieldError) as fault:
                if not request.partial:
                    raise
                faults[index] = fault
        request_id = caller.request_id(request.request_id)
        stored = iter(self._store(caller, drafts, request_id, partial=request.partial))
        answers = [faults.get(index) or next(stored) for index in range(len(jobs))]
        return SubmitBatchAnswer(
            successful=[
                Accepted(
                    index=index,
                    id=each.id,
                    status=each.status,
                    is_duplicate=each.is_duplicate,
                )
                for index, each in enumerate(answers)
                if isinstance(each, Submitted)
            ],
            failed=[
                Refused(index=index, error=Problem.of(each))
                for index, each in enumerate(answers)
                if isinstance(each, LeaseholdError)
            ],
        )

    @operation("GET", "/jobs/{job_id}", *LOOKING)
    def get_job(self, caller: Caller, request: GetJob) -> JobDetails:
        """Return a job."""
        job = self.job_of(caller, request.job_id)
        wanted = request.include
        attempts = history = dependents = None
        if "attempts" in wanted:
            attempts = [attempt_document(each) for each in self.store.attempts(job.id)]
        if "history" in wanted:
            page = self.store.history_page(job.id, limit=1000)
            history = History(events=page.events, next_cursor=page.next_cursor)
        if "dependents" in wanted:
            graph = self.store.graph([job.id])
            dependents = [
                each
                for needed, each in graph.edges
                if needed == job.id and caller.may_see(graph.nodes[each])
            ]
        return JobDetails(
            job=job_document(self.inlined(job)),
            attempts=attempts,
            history=history,
            dependents=dependents,
        )

    @operation("GET", "/jobs/{job_id}/history", *LOOKING)
    def job_history(self, caller: Caller, request: JobPart) -> History:
        """List the events in a job's history, oldest first."""
        job_id = self.job_of(caller, request.job_id).id
        page = self.store.history_page(job_id, limit=request.limit, cursor=request.cursor)
        return History(events=page.events, next_cursor=page.next_cursor)

    @operation("GET", "/jobs/{job_id}/log", *LOOKING)
    def job_log(self, caller: Caller, request: JobPart) -> Log:
        """List the lines of a job's log, oldest first."""
        job_id = self.job_of(caller, request.job_id).id
        page = self.store.log_page(job_id, limit=request.limit, cursor=request.cursor)
        return Log(lines=page.lines, next_cursor=page.next_cursor, missed=page.missed)

    @operation("POST", "/jobs/{job_id}/cancel", "producer", "operator")
    def cancel(self, caller: Caller, request: CancelJob) -> JobAnswer:
        """Cancel a job: at once if it is waiting, when its code allows it if it is running."""
        job_id = self.check_job(caller, request.job_id)
        answers = self.store.cancel([job_id], reason=request.reason, actor=caller.actor)
        return JobAnswer(job=job_document(only(answers, job_id)))

    @operation("POST", "/jobs/{job_id}/priority", "producer", "operator")
    def change_priority(self, caller: Caller, request: ChangePriority) -> JobAnswer:
        """Change the priority of a waiting job; its time of submission still counts."""
        job_id = self.check_job(caller, request.job_id)
        priority = priority_of(request.priority)
        job = self.store.reprioritize(job_id, priority, actor=caller.actor)
        return JobAnswer(job=job_document(job))

    @operation("GET", "/jobs/{job_id}/wait", *LOOKING)
    async def wait_for_job(self, caller: Caller, request: WaitForJob) -> WaitAnswer:
        """Wait until a job has ended, successfully or not, or the timeout is over."""
        job = await self._ended(caller, request)
        return WaitAnswer(ended=job.is_terminal, job=job_document(job))

    @operation("GET", "/jobs/{job_id}/result", *LOOKING)
    async def result(self, caller: Caller, request: WaitForJob) -> ResultAnswer:
        """Wait for a job's result and return it.

        If the job is dead, cancelled or has not ended in time, the answer is that problem.
        """
        job = await self._ended(caller, request)
        inlined = await self.call_store(lambda: self.inlined(job))
        return ResultAnswer(result=_result_of(inlined, request.timeout_seconds))

    # -- inside ----------------------------------------------------------------------------------

    def _store(
        self,
        caller: Caller,
        drafts: Sequence[Draft],
        request_id: str | None,
        *,
        partial: bool = False,
    ) -> Sequence[Submitted | LeaseholdError]:
        refused = refusals(caller, drafts, self.store.get)
        if refused and not partial:
            raise next(iter(refused.values()))
        good = [draft for draft in drafts if draft.id not in refused] if refused else drafts
        answers = iter(self._store_good(good, request_id, partial=partial))
        return [refused.get(draft.id) or next(answers) for draft in drafts]

    def _store_good(
        self, drafts: Sequence[Draft], request_id: str | None, *, partial: bool
    ) -> Sequence[Submitted | LeaseholdError]:
        def submit(kept: Sequence[Draft]) -> list[Submitted | LeaseholdError]:
            if not kept:
                return []
            if request_id is None:
                return self.store.submit(kept, partial=partial)
            return self.store.submit_once(request_id, kept, partial=partial)

        with submitting(drafts, self.store) as traced:
            if self.blobs is not None and has_large(traced):
                return submit_large(submit, self.blobs, traced)[1]
            return submit(traced)

    async def _ended(self, caller: Caller, request: WaitForJob) -> Job:
        """The job when it has ended, or as it is when the time is up or the service stops."""

        def look() -> Job:
            self.waiters.listen()
            return self.job_of(caller, request.job_id)

        job = await self.call_store(look)
        if job.is_terminal or not request.timeout_seconds:
            return job
        ended = await wait_for_end(self.waiters, [job.id], request.timeout_seconds)

        def look_again() -> Job:
            self.check_token(caller)
            last = ended.get(job.id)
            return last if isinstance(last, Job) else self.job_of(caller, request.job_id)

        return await self.call_store(look_again)


def _result_of(job: Job, waited_seconds: float) -> Any:
    if not job.is_terminal:
        raise ResultTimeoutError(
            f"job {job.id} has not ended within {duration_text(waited_seconds)} "
            f"(it is {job.status.value})"
        )
    check_completed(job)
    return job.result
