"""Requests about figures: the state of queues, events, failures, and the work of workers."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from leasehold.core.contract.looking import looking
from leasehold.core.model.failure import Failure
from leasehold.core.model.records import WorkerTotals
from leasehold.core.model.tokens import LOOKING
from leasehold.core.rules.metrics import WINDOW_SECONDS
from leasehold.core.rules.timeline import ResolutionName, Timeline
from leasehold.documents.metrics import metrics_document, point_document
from leasehold.service.base import ApiPart
from leasehold.service.caller import Caller
from leasehold.service.new_job import Moment, Name
from leasehold.service.operation import Answer, Request, operation
from leasehold.service.producers import PageSize


class AskMetrics(Request):
    """One queue, or the whole store, over a window of time."""

    queue: Name | None = None
    window_seconds: float = WINDOW_SECONDS


class MetricsAnswer(Answer):
    """The figures by name, without nesting."""

    metrics: dict[str, Any]


class AskSeries(Request):
    """One queue, or the whole store, minute by minute."""

    queue: Name | None = None
    minutes: int = 60


class AskDaily(Request):
    """One queue, or the whole store, day by day."""

    queue: Name | None = None
    days: int = 30


class AskTimeline(Request):
    """The metrics to return for each minute or day of a period."""

    metric: Annotated[list[Name], Meta(min_length=1, max_length=100)]
    since: Moment
    until: Moment | None = None
    """Exclusive; none for now."""
    queue: Name | None = None
    """None for the whole store, as below."""
    resolution: ResolutionName = "minute"


class TimelineAnswer(Answer):
    """One value of each metric per minute or day; null where none is known or kept."""

    timeline: Timeline


class AskFailures(Request):
    """The errors of one queue, or the whole store, most frequent first."""

    queue: Name | None = None
    task: Name | None = None
    limit: PageSize = 20


class Failures(Answer):
    """The failed attempts, grouped by the fingerprint of their error."""

    failures: list[Failure]


class AskWorkerTotals(Request):
    """The lifetime totals of every worker."""

    limit: PageSize = 100


class WorkerTotalsAnswer(Answer):
    """The workers, alive or not; those that leased the most jobs come first."""

    workers: list[WorkerTotals]


class SeriesAnswer(Answer):
    """One point per minute or day, oldest first."""

    points: list[dict[str, Any]]


class Measures(ApiPart):
    """Operations for those who want figures; none of them scans jobs."""

    @operation("GET", "/metrics", *LOOKING)
    def metrics(self, caller: Caller, request: AskMetrics) -> MetricsAnswer:
        """Return the figures of a queue or the whole store, now and over a recent window."""
        state = self._check_figures(caller, request.queue)
        figures = looking(self.store).metrics(request.queue, window_seconds=request.window_seconds)
        return MetricsAnswer(metrics=metrics_document(figures, state))

    @operation("GET", "/series", *LOOKING)
    def series(self, caller: Caller, request: AskSeries) -> SeriesAnswer:
        """Return the event counts of a queue or the whole store for each minute."""
        self._check_figures(caller, request.queue)
        points = looking(self.store).series(request.queue, minutes=request.minutes)
        return SeriesAnswer(points=[point_document(request.queue, each) for each in points])

    @operation("GET", "/daily", *LOOKING)
    def daily(self, caller: Caller, request: AskDaily) -> SeriesAnswer:
        """Return the event counts of a queue or the whole store for each day."""
        self._check_figures(caller, request.queue)
        points = looking(self.store).daily(request.queue, days=request.days)
        return SeriesAnswer(points=[point_document(request.queue, each) for each in points])

    @operation("GET", "/timeline", *LOOKING)
    def timeline(self, caller: Caller, request: AskTimeline) -> TimelineAnswer:
        """Return chosen metrics of a queue or the whole store for each minute or day."""
        self._check_figures(caller, request.queue)
        timeline = looking(self.store).timeline(
            request.metric,
            request.queue,
            since=request.since,
            until=request.until,
            resolution=request.resolution,
        )
        return TimelineAnswer(timeline=timeline)

    @operation("GET", "/failures", "operator", "observer")
    def failures(self, caller: Caller, request: AskFailures) -> Failures:
        """List the errors of a queue or the whole store by fingerprint, most frequent first."""
        self._check_figures(caller, request.queue)
        found = looking(self.store).failures(request.queue, task=request.task, limit=request.limit)
        return Failures(failures=found)

    @operation("GET", "/worker-totals", "operator", "observer")
    def worker_totals(self, caller: Caller, request: AskWorkerTotals) -> WorkerTotalsAnswer:
        """List the lifetime totals of every worker."""
        caller.check_unscoped()
        return WorkerTotalsAnswer(workers=looking(self.store).worker_totals(limit=request.limit))

    # -- inside ----------------------------------------------------------------------------------

    def _check_figures(self, caller: Caller, queue: str | None) -> str | None:
        """The state of the queue whose figures are asked for, None for the whole store."""
        if queue is None:
            caller.check_unscoped()
            return None
        caller.check_queue(queue)
        info = self.store.queue_info(queue)
        return None if info is None else info.state.value
