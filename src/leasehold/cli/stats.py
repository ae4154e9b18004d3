"""`stats`: how queues do: over a window, minute by minute or day by day, and in all their life."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final, Literal, get_args

import click

from leasehold.cli.breakdowns import (
    ALL,
    print_attempts,
    print_errors,
    print_priorities,
    print_tasks,
    print_timeline,
    print_workers,
)
from leasehold.cli.command import command
from leasehold.cli.complete import queue_names
from leasehold.cli.options import DURATION, MOMENT, NAMES
from leasehold.cli.output import Column, Document, emit
from leasehold.cli.session import Session
from leasehold.cli.times import MINUTES, time_text
from leasehold.core.model.durations import duration_text
from leasehold.core.model.span import DAYS_KEPT, MINUTES_KEPT, WORKERS_KEPT
from leasehold.core.rules.failures import FAILURES_MAX
from leasehold.documents.metrics import metrics_document, point_document
from leasehold.documents.queues import totals_document
from leasehold.documents.spans import age_of, took
from leasehold.errors import ForbiddenError

By = Literal["minute", "day", "priority", "attempt", "task", "worker", "error"]
WINDOW: Final = 3600.0
LAST: Final[dict[str | None, int]] = {"minute": 60, "day": 30, "worker": 20, "error": 20}
KEPT: Final[dict[str | None, int]] = {
    "minute": MINUTES_KEPT, "day": DAYS_KEPT, "worker": WORKERS_KEPT, "error": FAILURES_MAX,
}  # fmt: skip
TOTALS: Final = {
    "submitted": 0, "leased": 6, "completed": 0, "failed": 0, "retried": 2, "dead": 0,
    "cancelled": 1, "lost": 7, "recovered": 3, "renewed": 9, "rejected": 4, "rate_limited": 8,
    "cleaned": 5,
}  # fmt: skip
"""The lifetime counts, and how easily a narrow terminal does without each."""


def _count(field: str, heading: str, spare: int = 0) -> Column:
    return Column(field, heading, "{:,}".format, right=True, spare=spare)


def _took(field: str, heading: str, spare: int = 0) -> Column:
    return Column(field, heading, took, right=True, spare=spare)


_ERRORS: Final = Column("error_percent", "FAILED %", "{:.1f}".format, right=True, spare=1)
_QUEUE: Final = Column("queue", "QUEUE", fit="cut")
WINDOW_COLUMNS: Final = (
    _QUEUE,
    _count("pending", "PENDING"),
    Column("oldest_pending_age_seconds", "OLDEST", age_of, right=True, spare=1),
    _count("running", "RUNNING"),
    _count("completed", "DONE", 3),
    Column("throughput_per_second", "DONE/S", "{:,.2f}".format, right=True),
    _ERRORS,
    _took("wait_p50_seconds", "WAIT P50", 4),
    _took("wait_p95_seconds", "WAIT P95", 2),
    _took("wait_p99_seconds", "WAIT P99", 5),
    _took("run_p50_seconds", "RUN P50", 4),
    _took("run_p95_seconds", "RUN P95", 2),
    _took("run_p99_seconds", "RUN P99", 5),
    _count("active_workers", "WORKERS", 3),
)
POINT_COLUMNS: Final = (
    _count("submitted", "SUBMITTED"),
    _count("completed", "COMPLETED"),
    _count("failed", "FAILED"),
    _count("dead", "DEAD", 2),
    _ERRORS,
    _count("deepest", "DEEPEST", 3),
    _took("wait_p95_seconds", "WAIT P95", 4),
    _took("run_mean_seconds", "RUN MEAN", 5),
    _took("run_p95_seconds", "RUN P95", 4),
)
TOTAL_COLUMNS: Final = (
    _QUEUE,
    *(
        _count(f"total_{name}", name.upper().replace("_", "-"), spare)
        for name, spare in TOTALS.items()
    ),
    Column("failure_percent", "FAILED %", "{:.1f}".format, right=True),
)


@command()
@click.argument("queues", nargs=-1, metavar="[QUEUE]...", shell_complete=queue_names)
@click.option("--window", type=DURATION, help="The time before now, up to 48h.  [default: 1h]")
@click.option("--by", type=click.Choice(get_args(By)), help="What a row stands for.")
@click.option("--last", type=click.IntRange(1), metavar="N",
              help="The number of rows.  [default: 60 minutes, 30 days, 20 others]")  # fmt: skip
@click.option("--metric", "metrics", type=NAMES, multiple=True, metavar="NAMES",
              help="These figures, by minute or day.")  # fmt: skip
@click.option("--since", type=MOMENT, help="From when, for --metric.  [default: -1h]")
@click.option("--until", type=MOMENT, help="Up to when, for --metric.  [default: now]")
@click.option(
    "--totals", is_flag=True, help="The totals since the store was created, not a window."
)
def stats(
    session: Session,
    *,
    queues: tuple[str, ...],
    window: float | None,
    by: By | None,
    last: int | None,
    metrics: tuple[tuple[str, ...], ...],
    since: datetime | None,
    until: datetime | None,
    totals: bool,
) -> None:
    """Show figures of queues: depth, throughput, errors, times.

    DONE is the number of completed jobs, DONE/S the same per second, FAILED % the share of failed
    attempts, OLDEST the age of the job that waits longest. WAIT is the time from when a job may run
    to its lease, RUN from there to its end; P95 is the 95th percentile. Days are in UTC; the last
    minute and the last day are not over.

    Without QUEUE: a row per queue, then the total (`null` in JSON), which includes deleted queues.
    --by then has the rows of the whole store.

    Over --window, --by priority has the waits of each priority band, --by attempt the attempts that
    failed and were retried, --by task the run times and failures of each task (of at most 10,000
    ended jobs). --by worker has the totals of each worker, --by error the number and time of each
    error; errors that differ only in numbers, ids and addresses are one. --metric has any figure of
    -o json, for each minute (48 hours) or day (400 days); `-` is unknown.

    \b
    Examples:
      queuectl stats --window 15m
      queuectl stats mail --by minute --last 30
      queuectl stats --by task --window 1d
      queuectl stats --by error
      queuectl stats mail --metric failed,wait_p95_seconds --since -6h
      queuectl stats --totals -o json | jq '.[-1].total_completed'
    """
    _check(window, by, last, metrics, since or until, totals=totals)
    named = tuple(dict.fromkeys(queues))
    seconds = WINDOW if window is None else window
    if session.format == "table":
        _tell_window(session, named, by, seconds, totals=totals, is_timeline=bool(metrics))
    if metrics:
        print_timeline(
            session,
            named,
            [name for names in metrics for name in names],
            since=since or session.queue.now() - timedelta(hours=1),
            until=until,
            by="day" if by == "day" else "minute",
        )
    elif by == "priority":
        print_priorities(session, named, seconds)
    elif by == "attempt":
        print_attempts(session, named, seconds)
    elif by == "task":
        print_tasks(session, named, seconds)
    elif by == "worker":
        if named:
            raise click.UsageError("--by worker covers all queues: name none")
        print_workers(session, last or LAST[by])
    elif by == "error":
        print_errors(session, named, last or LAST[by])
    elif by is not None:
        _print_series(session, named, by, last or LAST[by])
    elif totals:
        _print(session, _each(session, named, _totals), TOTAL_COLUMNS)
    else:
        figures = _each(session, named, lambda session, name: _lately(session, name, seconds))
        _print(session, figures, WINDOW_COLUMNS)


def _tell_window(
    session: Session,
    named: Sequence[str],
    by: By | None,
    seconds: float,
    *,
    totals: bool,
    is_timeline: bool,
) -> None:
    """Say which time the figures are about, where no column does."""
    if totals or by == "worker":
        session.tell("since the store was created:")
    elif not is_timeline and by not in ("minute", "day", "error"):
        any_queue = next(iter(named or session.queue.queues()), None)
        since = time_text(session.queue.metrics(any_queue, window_seconds=seconds).since, MINUTES)
        now = " (pending and running: now)" if by is None else ""
        session.tell(f"in the last {duration_text(seconds)}, since {since}{now}:")


def _check(
    window: float | None,
    by: By | None,
    last: int | None,
    metrics: object,
    moments: object,
    *,
    totals: bool,
) -> None:
    """Refuse what does not go together."""
    lately = by in (None, "priority", "attempt", "task")
    if (window is not None and not lately) or (totals and (by or window is not None)):
        raise click.UsageError("give one of --window, --by and --totals")
    if metrics and (totals or window is not None or last or by not in (None, "minute", "day")):
        raise click.UsageError(
            "--metric can be combined with --since, --until and --by minute or day only"
        )
    if moments and not metrics:
        raise click.UsageError("--since and --until are for --metric: name one, or give --window")
    if last is not None and by not in LAST:
        raise click.UsageError("--last is for --by minute, day, worker or error")
    if window is not None and not 1 <= window <= MINUTES_KEPT * 60:
        raise click.UsageError("--window is from 1s to 48h: look further back with --by day")
    if last is not None and by in KEPT and last > KEPT[by]:
        raise click.UsageError(f"--last is at most {KEPT[by]:,}: more {by}s are not kept")


def _each(session: Session, named: Sequence[str], figures: Any) -> list[Document]:
    """What there is to say of these queues, or of all of them and last of the whole store."""
    found = [figures(session, name) for name in named or session.queue.queues()]
    if not named:
        # A token for some queues sees their rows only.
        with suppress(ForbiddenError):
            found.append(figures(session, None))
    return found


def _lately(session: Session, name: str | None, seconds: float) -> Document:
    state = None if name is None else session.queue.queue_info(name).state.value
    return metrics_document(session.queue.metrics(name, window_seconds=seconds), state)


def _totals(session: Session, name: str | None) -> Document:
    state = None if name is None else session.queue.queue_info(name).state.value
    return totals_document(name, state, session.queue.get_queue_stats(name))


def _print_series(
    session: Session, named: Sequence[str], by: Literal["minute", "day"], last: int
) -> None:
    queue = session.queue
    for name in named:
        queue.queue_info(name)  # An unknown queue is an error, not an idle one.
    documents = [
        point_document(name, point)
        for name in (named or (None,))
        for point in (queue.series(name, last) if by == "minute" else queue.daily(name, last))
    ]
    begin = (
        Column("at", "MINUTE", _moment, fit="keep")
        if by == "minute"
        else Column("day", "DAY", fit="keep")
    )
    _print(session, documents, (*((_QUEUE,) if named else ()), begin, *POINT_COLUMNS))


def _print(session: Session, documents: Sequence[Document], columns: Sequence[Column]) -> None:
    for_people = session.format == "table"
    emit(session, map(_told, documents) if for_people else documents, columns)


def _told(document: Document) -> Document:
    """As a table shows it."""
    return {
        **document,
        "queue": document["queue"] or ALL,
        "error_percent": _error_percent(document) if "error_rate" in document else None,
    }


def _error_percent(document: Document) -> float | None:
    """The share of attempts that failed; None if none ended."""
    ended = document["completed"] + document["failed"]
    return 100 * float(document["error_rate"]) if ended else None


def _moment(value: datetime) -> str:
    """The beginning of a minute."""
    return time_text(value, MINUTES)
