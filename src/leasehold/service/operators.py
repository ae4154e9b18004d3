"""The operations of operators: searches, orders about many jobs, dead letters, workers, upkeep."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from leasehold.core.contract.looking import looking
from leasehold.core.model.job import MetadataValue
from leasehold.core.model.lease import SweepReport
from leasehold.core.model.records import WorkerInfo
from leasehold.core.model.retention import PruneReport, Scope
from leasehold.core.model.search import Count, JobFilter
from leasehold.core.model.status import Status
from leasehold.core.model.tokens import LOOKING
from leasehold.core.rules.filter_orders import ORDERED_AT_ONCE, Order, narrowed
from leasehold.documents.jobs import job_document, letter_document
from leasehold.queue.orders import only
from leasehold.service.answers import JobPage, LetterDocument
from leasehold.service.base import ApiPart
from leasehold.service.caller import Caller
from leasehold.service.new_job import Moment, Name
from leasehold.service.operation import Answer, Request, operation
from leasehold.service.producers import JobAnswer, PageSize


class ListJobs(Request):
    """The filters of a list of jobs; a job must match all of them."""

    queue: list[Name] | None = None
    status: list[Status] | None = None
    task: list[Name] | None = None
    priority_min: int | None = None
    priority_max: int | None = None
    created_from: Moment | None = None
    created_before: Moment | None = None
    finished_from: Moment | None = None
    """Only jobs that ended then or later."""
    finished_before: Moment | None = None
    idempotency_key: str | None = None
    parent_id: str | None = None
    error_text: str | None = None
    text: str | None = None
    limit: PageSize = 100
    cursor: str | None = None
    with_total: bool = False
    """Whether to count the matches on all pages."""


class GivenFilter(Request):
    """A filter; a job must match all its fields. An empty filter matches every job."""

    ids: list[Name] | None = None
    queues: list[Name] | None = None
    statuses: list[Status] | None = None
    tasks: list[Name] | None = None
    priority_min: int | None = None
    priority_max: int | None = None
    created_from: Moment | None = None
    created_before: Moment | None = None
    finished_from: Moment | None = None
    """Only jobs that ended then or later."""
    finished_before: Moment | None = None
    metadata: dict[str, MetadataValue] | None = None
    idempotency_key: str | None = None
    parent_id: str | None = None
    error_text: str | None = None
    text: str | None = None

    def job_filter(self, caller: Caller) -> JobFilter:
        """The same, for jobs that the caller may see."""
        given = msgspec.structs.asdict(self)
        lists: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in given.items()
        }
        return caller.within(JobFilter(**lists))


class SearchJobs(Request):
    """A filter for jobs, and the page to return."""

    where: GivenFilter = msgspec.field(default_factory=GivenFilter)
    limit: PageSize = 100
    cursor: str | None = None
    with_total: bool = False
    """Whether to count the matches on all pages."""


class GiveOrder(Request):
    """An order for the jobs that match a filter, at most `limit` of them per write."""

    order: Order
    where: GivenFilter = msgspec.field(default_factory=GivenFilter)
    limit: Annotated[int, Meta(ge=1, le=1000)] = ORDERED_AT_ONCE
    cursor: str | None = None
    """The `next_cursor` of the previous answer, to continue the order from there."""
    dry_run: bool = False
    """Whether to change nothing, and only return the ids of the jobs that would change."""


class OrderAnswer(Answer):
    """The outcome of one write of an order."""

    changed: int
    refused: dict[str, int]
    """The number of matching jobs that could not be changed, by the code of the problem."""
    next_cursor: str | None
    """The cursor with which to repeat the order, if more jobs match."""
    would_change: list[str] | None = None
    """The ids of the jobs that would change, in a dry run."""


class ReplayJob(Request):
    """A dead or cancelled job to replay."""

    job_id: str
    reset_attempts: bool = False
    """Whether the job gets all its attempts again, instead of only one more."""


class NamedJob(Request):
    """One job."""

    job_id: str


class ListDeadLetters(Request):
    """Dead letters, page by page."""

    queue: list[Name] | None = None
    limit: PageSize = 100
    cursor: str | None = None
    with_total: bool = False
    """Whether to count the matches on all pages."""


class LetterPage(Answer):
    """Dead letters with the reasons for their failure, and the cursor of the next page."""

    letters: list[LetterDocument]
    next_cursor: str | None = None
    total: Count | None = None


class Nothing(Request):
    """A request without fields."""


class Workers(Answer):
    """The registered workers."""

    workers: list[WorkerInfo]


class Prune(Request):
    """Begin a clean-up, or continue one with its `run`."""

    run: Annotated[int, Meta(ge=1, le=2**53)] | None = None
    scope: Scope = Scope()


class Operators(ApiPart):
    """Operations for those who look after jobs and the store."""

    @operation("GET", "/jobs", *LOOKING)
    def list_jobs(self, caller: Caller, request: ListJobs) -> JobPage:
        """List jobs, newest first."""
        given = msgspec.structs.asdict(request)
        page = [given.pop(name) for name in ("limit", "cursor", "with_total")]
        for one, several in (("queue", "queues"), ("status", "statuses"), ("task", "tasks")):
            given[several] = given.pop(one)
        return self._search(GivenFilter(**given).job_filter(caller), *page)

    @operation("POST", "/jobs/search", *LOOKING)
    def search(self, caller: Caller, request: SearchJobs) -> JobPage:
        """List the jobs that match a filter, newest first."""
        where = request.where.job_filter(caller)
        return self._search(where, request.limit, request.cursor, request.with_total)

    @operation("POST", "/orders", "operator")
    def order(self, caller: Caller, request: GiveOrder) -> OrderAnswer:
        """Cancel, replay, discard or reprioritize jobs that match a filter, `limit` per write."""
        where = request.where.job_filter(caller)
        if request.dry_run:
            able = narrowed(request.order, where, request.limit)
            page = self.store.search(
                able,
                limit=request.limit,
                cursor=request.cursor,
                without=("payload", "result", "metadata"),
            )
            meant = [job.id for job in page.jobs]
            return OrderAnswer(
                changed=0, refused={}, next_cursor=page.next_cursor, would_change=meant
            )
        done = self.store.order(
            request.order, where, actor=caller.actor, limit=request.limit, cursor=request.cursor
        )
        if self.blobs is not None:
            self.blobs.forget_jobs(done.blobs_left)
        return OrderAnswer(changed=done.changed, refused=done.refused, next_cursor=done.next_cursor)

    @operation("POST", "/jobs/{job_id}/replay", "operator")
    def replay(self, caller: Caller, request: ReplayJob) -> JobAnswer:
        """Replay a dead or cancelled job."""
        job_id = self.check_job(caller, request.job_id)
        answers = self.store.replay(
            [job_id], reset_attempts=request.reset_attempts, actor=caller.actor
        )
        return JobAnswer(job=job_document(only(answers, job_id)))

    @operation("DELETE", "/jobs/{job_id}", "operator")
    def discard(self, caller: Caller, request: NamedJob) -> JobAnswer:
        """Delete an ended job and all its records."""
        job_id = self.check_job(caller, request.job_id)
        answers = self.store.discard([job_id], actor=caller.actor)
        if self.blobs is not None:
            self.blobs.forget_jobs(answers)
        return JobAnswer(job=job_document(only(answers, job_id)))

    @operation("GET", "/dead-letters", "operator", "observer")
    def dead_letters(self, caller: Caller, request: ListDeadLetters) -> LetterPage:
        """List dead letters and the reasons for their failure, newest first."""
        queues = None if request.queue is None else tuple(request.queue)
        where = caller.within(JobFilter(queues=queues, statuses=(Status.DEAD,)))
        store = looking(self.store)
        page = store.search(where, limit=request.limit, cursor=request.cursor)
        return LetterPage(
            letters=[letter_document(job) for job in page.jobs],
            next_cursor=page.next_cursor,
            total=store.count(where) if request.with_total else None,
        )

    @operation("GET", "/workers", "operator", "observer")
    def workers(self, caller: Caller, request: Nothing) -> Workers:
        """List the registered workers."""
        caller.check_unscoped()
        return Workers(workers=self.store.workers())

    @operation("POST", "/sweep", "operator")
    def sweep(self, caller: Caller, request: Nothing) -> SweepReport:
        """Recover jobs whose lease has expired or whose worker is known to be dead."""
        caller.check_unscoped()
        return self.store.recover(actor=caller.actor)

    @operation("POST", "/prune", "operator")
    def prune(self, caller: Caller, request: Prune) -> PruneReport:
        """Archive and delete ended jobs whose retention time is over, a limited number per request.

        While `more` is true in the answer, repeat the request with its `run` and the same scope.
        """
        caller.check_unscoped()
        return self.store.prune(run=request.run, scope=request.scope, actor=caller.actor)

    # -- inside ----------------------------------------------------------------------------------

    def _search(
        self, where: JobFilter, limit: int, cursor: str | None, with_total: bool
    ) -> JobPage:
        store = looking(self.store)
        page = store.search(where, limit=limit, cursor=cursor)
        return JobPage(
            jobs=[job_document(job) for job in page.jobs],
            next_cursor=page.next_cursor,
            total=store.count(where) if with_total else None,
        )
