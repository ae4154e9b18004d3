"""Tracing by OpenTelemetry: submit, lease, run and settle of a job in one trace, across processes.

The trace travels with the job, in its metadata, as W3C `traceparent` (and `tracestate`).
OpenTelemetry is not imported here before the application has imported it, and nothing happens
before it has set a tracer provider: without one, a submit costs one dictionary lookup.

A job without a trace, from a producer without tracing, begins one with its lease.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from leasehold.core.model.job import Draft, MetadataValue
from leasehold.core.model.lease import Lease, Settled
from leasehold.core.model.outcome import Fail, Outcome
from leasehold.core.model.search import JobFilter
from leasehold.errors import LeaseholdError

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span, Tracer

    from leasehold.core.contract.store import Store

T = TypeVar("T")

logger = logging.getLogger("leasehold.tracing")

CARRIED: Final = ("traceparent", "tracestate")
"""The names in a job's metadata, and of the headers of a request."""
LINKS_MAX: Final = 100
TRACESTATE_LENGTH_MAX: Final = 512
_API: Final = "opentelemetry.trace"
_NAMED_BY_ENVIRONMENT: Final = "OTEL_PYTHON_TRACER_PROVIDER" in os.environ
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")

_arrived: ContextVar[dict[str, str] | None] = ContextVar("leasehold_arrived", default=None)
"""The trace context of a request, for processes without tracing to make it current."""

Metadata = dict[str, MetadataValue]


def is_on() -> bool:
    """Whether the application has set up tracing."""
    api = sys.modules.get(_API)
    if api is None:
        return False
    # This saves microseconds each time: the API reads the environment.
    if getattr(api, "_TRACER_PROVIDER", api) is None and not _NAMED_BY_ENVIRONMENT:
        return False
    return not isinstance(api.get_tracer_provider(), api.ProxyTracerProvider)


# -- producers -----------------------------------------------------------------------------------


@contextmanager
def submitting(drafts: Sequence[Draft], store: Store | None = None) -> Iterator[Sequence[Draft]]:
    """A span around a submit; yields the drafts, which carry it from then on.

    Drafts that carry a trace already keep it. With a store, the jobs that they depend on are
    linked.
    """
    if not is_on():
        arrived = _arrived.get()
        yield drafts if arrived is None else [_carrying(draft, arrived) for draft in drafts]
        return
    new = [draft for draft in drafts if not _carries(draft.metadata)]
    if not new:
        yield drafts
        return
    span = _guarded(lambda: _submit_span(new, store))
    if span is None:
        yield drafts
        return
    with sys.modules[_API].use_span(span, end_on_exit=True):
        carried = _context_of(span)
        yield [_carrying(draft, carried) for draft in drafts]


def _submit_span(drafts: Sequence[Draft], store: Store | None) -> Span:
    tasks = {draft.task for draft in drafts}
    name = f"submit {tasks.pop()}" if len(tasks) == 1 else "submit jobs"
    links = [] if store is None else _links(drafts, store)
    kind = sys.modules[_API].SpanKind.PRODUCER
    return _tracer().start_span(name, kind=kind, links=links, attributes=_of_drafts(drafts))


def _of_drafts(drafts: Sequence[Draft]) -> dict[str, str | int]:
    if len(drafts) > 1:
        queues = {draft.queue for draft in drafts}
        named = {"leasehold.queue": queues.pop()} if len(queues) == 1 else {}
        return {"messaging.system": "leasehold", "leasehold.jobs": len(drafts), **named}
    [draft] = drafts
    return _attributes(draft.id, draft.queue, draft.task, draft.priority)


def _links(drafts: Iterable[Draft], store: Store) -> list[Link]:
    """Links to the jobs that these depend on; those of the same submit are in the same trace."""
    drafts = list(drafts)
    own = {draft.id for draft in drafts}
    needed = {each for draft in drafts for each in draft.depends_on} - own
    if not needed:
        return []
    where = JobFilter(ids=tuple(sorted(needed)[:LINKS_MAX]))
    found = store.search(where, limit=LINKS_MAX, without=("payload", "result")).jobs
    api = sys.modules[_API]
    links = []
    for job in found:
        context = api.get_current_span(_parent(job.metadata)).get_span_context()
        if _carries(job.metadata) and context.is_valid:
            links.append(api.Link(context, {"leasehold.job.id": job.id}))
    return links


# -- requests ------------------------------------------------------------------------------------


@contextmanager
def arriving(headers: Mapping[str, str]) -> Iterator[None]:
    """The work of a request is a part of the trace that its headers name."""
    carried = {name: headers[name] for name in CARRIED if name in headers}
    if not _is_sound(carried):
        yield
    elif is_on():
        from opentelemetry import context

        token = context.attach(_parent(carried))
        try:
            yield
        finally:
            context.detach(token)
    else:
        arrived = _arrived.set(carried)
        try:
            yield
        finally:
            _arrived.reset(arrived)


def _is_sound(carried: Mapping[str, str]) -> bool:
    return (
        _TRACEPARENT.fullmatch(carried.get("traceparent", "")) is not None
        and len(carried.get("tracestate", "")) <= TRACESTATE_LENGTH_MAX
    )


# -- workers -------------------------------------------------------------------------------------


def leased(leases: list[Lease], begin_micros: int, end_micros: int) -> list[Lease]:
    """A span for each lease; returns the leases, which carry it from then on."""
    return _guarded(lambda: [_leased(each, begin_micros, end_micros) for each in leases]) or leases


def _leased(lease: Lease, begin_micros: int, end_micros: int) -> Lease:
    span = _tracer().start_span(
        f"lease {lease.task}",
        context=_parent(lease.metadata),
        kind=sys.modules[_API].SpanKind.CONSUMER,
        start_time=begin_micros * 1000,
        attributes=_of_lease(lease),
    )
    span.end(end_micros * 1000)
    metadata: Metadata = {**(lease.metadata or {}), **_context_of(span)}
    return msgspec.structs.replace(lease, metadata=metadata)


def begin_run(lease: Lease) -> Callable[[Outcome], None] | None:
    """Begin the span of an attempt, and make it current: what its code does is a part of it.

    Returns a function that ends it; None without tracing. The context in which it is current must
    end with the attempt.
    """
    # Looked for here, too: it is asked for every job, and a call would be felt.
    return _guarded(lambda: _begin_run(lease)) if _API in sys.modules and is_on() else None


def _begin_run(lease: Lease) -> Callable[[Outcome], None]:
    from opentelemetry import context

    api = sys.modules[_API]
    parent = _parent(lease.metadata)
    span = _tracer().start_span(
        f"run {lease.task}", context=parent, attributes=_of_lease(lease), kind=api.SpanKind.INTERNAL
    )
    context.attach(api.set_span_in_context(span, parent))
    return lambda outcome: _guarded(lambda: _end_run(span, outcome))


def _end_run(span: Span, outcome: Outcome) -> None:
    span.set_attribute("leasehold.outcome", type(outcome).__name__.lower())
    if isinstance(outcome, Fail):
        _note_error(span, outcome)
    span.end()


def _note_error(span: Span, outcome: Fail) -> None:
    api = sys.modules[_API]
    error = outcome.error
    told = {"exception.type": error.type, "exception.message": error.message}
    if error.traceback is not None:
        told["exception.stacktrace"] = error.traceback
    span.add_event("exception", told)
    span.set_attribute("error.type", error.type)
    span.set_status(api.Status(api.StatusCode.ERROR, f"{error.type}: {error.message}"))


def settled(
    sent: Sequence[tuple[Lease, Outcome]],
    answers: Sequence[Settled | LeaseholdError],
    begin_micros: int,
    end_micros: int,
) -> None:
    """A span for each settlement."""
    for (lease, _), answer in zip(sent, answers, strict=True):
        _guarded(partial(_settled, lease, answer, begin_micros, end_micros))


def _settled(
    lease: Lease, answer: Settled | LeaseholdError, begin_micros: int, end_micros: int
) -> None:
    api = sys.modules[_API]
    span = _tracer().start_span(
        f"settle {lease.task}",
        context=_parent(lease.metadata),
        start_time=begin_micros * 1000,
        attributes=_of_lease(lease),
    )
    if isinstance(answer, Settled):
        span.set_attribute("leasehold.event", answer.event.value)
        span.set_attribute("leasehold.status", answer.status.value)
    else:
        span.set_attribute("error.type", type(answer).__name__)
        span.set_status(api.Status(api.StatusCode.ERROR, str(answer)))
    span.end(end_micros * 1000)


# -- inside --------------------------------------------------------------------------------------


def _tracer() -> Tracer:
    from leasehold.version import __version__

    return sys.modules[_API].get_tracer("leasehold", __version__)  # type: ignore[no-any-return]


def _attributes(job_id: str, queue: str, task: str, priority: int) -> dict[str, str | int]:
    return {
        "messaging.system": "leasehold",
        "messaging.destination.name": queue,
        "messaging.message.id": job_id,
        "leasehold.job.id": job_id,
        "leasehold.queue": queue,
        "leasehold.task": task,
        "leasehold.priority": priority,
    }


def _of_lease(lease: Lease) -> dict[str, str | int]:
    return {
        **_attributes(lease.job_id, lease.queue, lease.task, lease.priority),
        "leasehold.attempt": lease.attempt,
        "leasehold.lease.version": lease.version,
        "leasehold.worker": lease.worker,
    }


def carried_by(metadata: Mapping[str, Any] | None) -> dict[str, str]:
    """The trace that a job carries, as headers or, in capitals, as variables of the environment."""
    return {name: str(value) for name, value in (metadata or {}).items() if name in CARRIED}


def _carries(metadata: Mapping[str, Any] | None) -> bool:
    return metadata is not None and "traceparent" in metadata


def _carrying(draft: Draft, carried: Mapping[str, str]) -> Draft:
    if _carries(draft.metadata):
        return draft
    metadata: Metadata = {**(draft.metadata or {}), **carried}
    return msgspec.structs.replace(draft, metadata=metadata)


def _parent(metadata: Mapping[str, Any] | None) -> Context:
    """The context that a job carries; an empty one if it carries none, even inside another."""
    from opentelemetry.context import Context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator().extract(carried_by(metadata), context=Context())


def _context_of(span: Span) -> dict[str, str]:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carried: dict[str, str] = {}
    context = sys.modules[_API].set_span_in_context(span)
    TraceContextTextMapPropagator().inject(carried, context=context)
    return carried


def _guarded(function: Callable[[], T]) -> T | None:
    """Errors of tracing are logged; no job fails because of them."""
    try:
        return function()
    except Exception:
        logger.exception("a span is lost")
        return None
