"""`stats`: how queues do: over a window, minute by minute or day by day, and in all their life."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, Literal

import click

from leasehold.cli.command import command
from leasehold.cli.complete import queue_names
from leasehold.cli.options import DURATION
from leasehold.cli.output import Column, Document, emit
from leasehold.cli.session import Session
from leasehold.cli.spans import age_of, took
from leasehold.core.model.span import DAYS_KEPT, MINUTES_KEPT
from leasehold.documents.metrics import metrics_document, point_document
from leasehold.documents.queues import totals_document

ALL: Final = "(all)"
"""How a table calls the whole store; programs get null."""
WINDOW: Final = 3600.0
LAST: Final = {"minute": 60, "day": 30}
KEPT: Final = {"minute": MINUTES_KEPT, "day": DAYS_KEPT}
TOTALS: Final = {
    "submitted": 0, "completed": 0, "failed": 0, "retried": 2, "dead": 0, "cancelled": 1,
    "recovered": 3, "rejected": 4, "cleaned": 5,
}  # fmt: skip
"""What is counted for good, and how easily a narrow terminal does without it."""


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
    *(_count(f"total_{name}", name.upper(), spare) for name, spare in TOTALS.items()),
    Column("failure_percent", "FAILED %", "{:.1f}".format, right=True),
)


@command()
@click.argument("queues", nargs=-1, metavar="[QUEUE]...", shell_complete=queue_names)
@click.option("--window", type=DURATION, help="The time before now, up to 48h.  [default: 1h]")
@click.option("--by", type=click.Choice(["minute", "day"]), help="One row for each, oldest first.")
@click.option("--last", type=click.IntRange(1), metavar="N",
              help="How many of them.  [default: 60 minutes, 30 days]")  # fmt: skip
@click.option("--totals", is_flag=True, help="What was ever counted, in place of a window.")
def stats(
    session: Session,
    *,
    queues: tuple[str, ...],
    window: float | None,
    by: Literal["minute", "day"] | None,
    last: int | None,
    totals: bool,
) -> None:
    """How queues do: depth, throughput, errors, times.

    DONE is how many jobs were completed, DONE/S how many per second, FAILED % the share of attempts
    that failed, OLDEST the age of the job that waits longest. WAIT is from when a job may run to
    its lease, RUN from there to its end; P95 is what 95 of 100 did not exceed. Minutes and days are
    UTC; the last is not over.

    Without a name all queues are listed, and last the whole store, whose queue is `null` for
    programs and which remembers deleted queues, too; --by then has the rows of the whole store.

    \b
    Examples: queuectl stats --window 15m
              queuectl stats mail --by minute --last 30
              queuectl stats --totals -o json | jq '.[-1].total_completed'
    """
    if sum((window is not None, by is not None, totals)) > 1:
        raise click.UsageError("give one of --window, --by and --totals")
    if last is not None and by is None:
        raise click.UsageError("--last is for --by minute or --by day")
    if window is not None and not 1 <= window <= MINUTES_KEPT * 60:
        raise click.UsageError("--window is from 1s to 48h: look further back with --by day")
    if last is not None and by is not None and last > KEPT[by]:
        raise click.UsageError(f"--last is at most {KEPT[by]:,}: more {by}s are not kept")
    named = tuple(dict.fromkeys(queues))
    if by is not None:
        _print_series(session, named, by, last or LAST[by])
    elif totals:
        _print(session, _each(session, named, _totals), TOTAL_COLUMNS)
    else:
        seconds = WINDOW if window is None else window
        figures = _each(session, named, lambda session, name: _lately(session, name, seconds))
        _print(session, figures, WINDOW_COLUMNS)


def _each(session: Session, named: Sequence[str], figures: Any) -> list[Document]:
    """What there is to say of these queues, or of all of them and last of the whole store."""
    wanted: list[str | None] = [*named] or [*session.queue.queues(), None]
    return [figures(session, name) for name in wanted]


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
    """The beginning of a minute, in UTC."""
    return f"{value:%Y-%m-%d %H:%M}"
