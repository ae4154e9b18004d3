"""`stats` in parts: by priority, attempt, task, worker and error, and metrics over time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final, Literal

from leasehold.cli.output import Column, Document, cell, emit
from leasehold.cli.session import Session
from leasehold.cli.times import MINUTES, time_text
from leasehold.core.model.search import JobFilter
from leasehold.core.model.span import BANDS
from leasehold.core.model.status import Status
from leasehold.documents.metrics import timeline_documents
from leasehold.documents.records import document_of
from leasehold.documents.spans import took
from leasehold.queue.task_figures import TaskFigures, figures_by_task

JOBS_LOOKED_AT: Final = 10_000
ALL: Final = "(all)"
"""How a table calls the whole store; programs get null."""


def _count(field: str, heading: str, spare: int = 0) -> Column:
    return Column(field, heading, "{:,}".format, right=True, spare=spare)


_QUEUE: Final = Column("queue", "QUEUE", fit="cut")
PRIORITY_COLUMNS: Final = (
    _QUEUE,
    Column("priority", "PRIORITY", fit="keep"),
    _count("pending", "PENDING"),
    _count("submitted", "SUBMITTED", 1),
    _count("leased", "LEASED"),
    Column("wait_mean_seconds", "WAIT MEAN", took, right=True, spare=2),
    Column("wait_p50_seconds", "WAIT P50", took, right=True),
    Column("wait_p95_seconds", "WAIT P95", took, right=True),
    Column("wait_p99_seconds", "WAIT P99", took, right=True),
)
ATTEMPT_COLUMNS: Final = (
    _QUEUE,
    _count("attempt", "ATTEMPT"),
    _count("retried", "FAILED AND RETRIED"),
)
TASK_COLUMNS: Final = (
    Column("task", "TASK", fit="cut", least=28),
    _count("completed", "COMPLETED"),
    _count("dead", "DEAD"),
    _count("failures", "FAILURES"),
    Column("wait_p50_seconds", "WAIT P50", took, right=True, spare=4),
    Column("wait_p95_seconds", "WAIT P95", took, right=True, spare=2),
    Column("wait_p99_seconds", "WAIT P99", took, right=True, spare=5),
    Column("run_p50_seconds", "RUN P50", took, right=True, spare=1),
    Column("run_p95_seconds", "RUN P95", took, right=True),
    Column("run_p99_seconds", "RUN P99", took, right=True, spare=6),
    Column("run_max_seconds", "RUN MAX", took, right=True, spare=3),
)
WORKER_COLUMNS: Final = (
    Column("worker", "WORKER", fit="cut"),
    _count("leased", "LEASED"),
    _count("completed", "COMPLETED"),
    _count("failed", "FAILED"),
    _count("lost", "LOST"),
    Column("first_at", "FIRST", fit="keep", spare=1),
    Column("last_at", "LAST", fit="keep"),
)
ERROR_COLUMNS: Final = (
    _count("count", "TIMES"),
    Column("queue", "QUEUE", fit="cut", spare=2),
    Column("task", "TASK", fit="cut"),
    Column("error", "ERROR"),
    Column("frame", "WHERE", fit="cut", spare=3),
    Column("first_at", "SINCE", fit="keep"),
    Column("last_at", "LAST", fit="keep", spare=1),
    Column("job", "LATEST JOB", fit="id", spare=4),
)


ERRORS_AT_A_GLANCE: Final = (
    _count("count", "TIMES"),
    Column("task", "TASK", fit="cut"),
    Column("error", "ERROR", fit="cut", least=40),
    Column("first_at", "SINCE", fit="keep", spare=1),
)
"""One line for each: `stats --by error` has the whole text."""


def print_priorities(session: Session, queues: Sequence[str], window_seconds: float) -> None:
    """One row for each queue and band of priority, over a window."""
    documents: list[Document] = []
    for name in _wanted(session, queues):
        figures = session.queue.metrics(name, window_seconds=window_seconds)
        documents += (
            {
                "queue": name,
                "priority": band,
                "pending": figures.pending_by_priority[band],
                "submitted": figures.submitted_by_priority[band],
                "leased": figures.wait_by_priority[band].count,
                **_seconds("wait", figures.wait_by_priority[band]),
            }
            for band in reversed(BANDS)
        )
    _emit(session, documents, PRIORITY_COLUMNS)


def print_attempts(session: Session, queues: Sequence[str], window_seconds: float) -> None:
    """How often each attempt failed and was followed by another one, over a window."""
    documents = [
        {"queue": name, "attempt": attempt, "retried": times}
        for name in _wanted(session, queues)
        for attempt, times in session.queue.metrics(
            name, window_seconds=window_seconds
        ).retries.items()
    ]
    _emit(session, documents, ATTEMPT_COLUMNS, nothing="nothing was retried in that time")


def print_tasks(session: Session, queues: Sequence[str], window_seconds: float) -> None:
    """What became of the jobs of each task that ended within a window, the busiest first."""
    found = session.queue.search(
        JobFilter(
            queues=tuple(queues) or None,
            statuses=(Status.COMPLETED, Status.DEAD),
            finished_from=session.queue.now() - timedelta(seconds=window_seconds),
        ),
        without=("payload", "result", "metadata"),
    )
    jobs = list(islice(found, JOBS_LOOKED_AT))
    if len(jobs) == JOBS_LOOKED_AT:
        session.tell(f"note: counts only the {JOBS_LOOKED_AT:,} jobs that were submitted last")
    documents: list[Document] = [_task_document(each) for each in figures_by_task(jobs)]
    emit(session, documents, TASK_COLUMNS, nothing="no job ended in that time")


def _task_document(figures: TaskFigures) -> Document:
    return {
        "task": figures.task,
        "completed": figures.completed,
        "dead": figures.dead,
        "failures": figures.failures,
        **_seconds("wait", figures.wait),
        **_seconds("run", figures.run),
        "run_max_seconds": figures.run_max_seconds,
    }


def print_workers(session: Session, last: int) -> None:
    """What each worker ever did."""
    documents = [document_of(each) for each in session.queue.worker_totals(limit=last)]
    emit(session, documents, WORKER_COLUMNS, nothing="no worker has leased anything yet")


def print_errors(session: Session, queues: Sequence[str], last: int) -> None:
    """What fails, the most frequent first."""
    found = [
        failure
        for name in (_wanted(session, queues) if queues else (None,))
        for failure in session.queue.failures(name, limit=last)
    ]
    found.sort(key=lambda each: -each.count)
    documents: list[Document] = [document_of(each) for each in found[:last]]
    if session.format == "table":
        documents = [error_line(each) for each in documents]
    emit(session, documents, ERROR_COLUMNS, nothing="nothing has failed")


def error_line(failure: Document) -> Document:
    """A failure as a table shows it."""
    return {
        **failure,
        "error": f"{failure['error_type']}: {failure['message']}",
        "job": next(iter(failure["jobs"]), None),
    }


def print_timeline(
    session: Session,
    queues: Sequence[str],
    metrics: Sequence[str],
    *,
    since: datetime,
    until: datetime | None,
    by: Literal["minute", "day"],
) -> None:
    """The values of metrics, minute by minute or day by day."""
    documents: list[Document] = []
    known_since = since
    for name in (*queues,) or (None,):
        if name is not None:
            session.queue.queue_info(name)  # An unknown queue is an error, not an idle one.
        found = session.queue.timeline(metrics, name, since=since, until=until, resolution=by)
        known_since = found.known_since
        documents += timeline_documents(found)
    columns = (
        *((_QUEUE,) if queues else ()),
        Column("at", by.upper(), _minute if by == "minute" else _day, fit="keep"),
        *(Column(name, name.upper(), cell, right=True) for name in dict.fromkeys(metrics)),
    )
    emit(session, documents, columns, nothing="that time has not begun")
    if since < known_since:
        session.tell(f"note: figures by the {by} begin at {cell(known_since)}")


def _emit(
    session: Session, documents: Sequence[Document], columns: Sequence[Column], nothing: str = ""
) -> None:
    if session.format == "table":
        documents = [{**each, "queue": each["queue"] or ALL} for each in documents]
    emit(session, documents, columns, nothing=nothing)


def _wanted(session: Session, queues: Sequence[str]) -> list[str | None]:
    """These queues, or all of them together."""
    for name in queues:
        session.queue.queue_info(name)  # An unknown queue is an error, not an idle one.
    return [*queues] or [None]


def _seconds(name: str, durations: Any) -> dict[str, float | None]:
    return {
        f"{name}_{field}": getattr(durations, field)
        for field in durations.__struct_fields__
        if field.endswith("_seconds")
    }


def _minute(value: datetime) -> str:
    return time_text(value, MINUTES)


def _day(value: datetime) -> str:
    return f"{value:%Y-%m-%d}"
