"""`stats`: counts and lifetime totals, queue by queue."""

from __future__ import annotations

from typing import Any, Final

import click

from leasehold.cli.command import command
from leasehold.cli.output import Column, emit
from leasehold.cli.overview import queue_figures
from leasehold.cli.session import Session

TOTALS: Final = {
    "submitted": 0, "completed": 0, "failed": 0, "retried": 2, "dead": 0, "cancelled": 1,
    "recovered": 3, "rejected": 4, "cleaned": 5,
}  # fmt: skip
"""What is counted for good, and how easily a narrow terminal does without it."""
COLUMNS: Final = (
    Column("queue", "QUEUE", fit="cut"),
    *(
        Column(f"total_{name}", name.upper(), "{:,}".format, right=True, spare=spare)
        for name, spare in TOTALS.items()
    ),
    Column("failure_percent", "FAILED %", "{:.1f}".format, right=True),
)


@command()
@click.argument("queues", nargs=-1, metavar="[QUEUE]...")
def stats(session: Session, queues: tuple[str, ...]) -> None:
    """Counts and lifetime totals, queue by queue.

    FAILED counts attempts, DEAD and the others jobs; FAILED % is the share of attempts that failed.
    Without a name all queues are listed, and last the whole store, whose queue is `null` for
    programs; it remembers queues that were deleted, too.

    \b
    Examples: queuectl stats
              queuectl stats mail -o json | jq '.[0].total_completed'
    """
    names: list[str | None] = [*dict.fromkeys(queues)]
    figures = [_figures(session, name) for name in names or _all(session)]
    if session.format == "table":
        figures = [{**each, "queue": each["queue"] or "(all)"} for each in figures]
    emit(session, figures, COLUMNS)


def _all(session: Session) -> list[str | None]:
    return [*session.queue.queues(), None]


def _figures(session: Session, name: str | None) -> dict[str, Any]:
    """Everything that is known in numbers of one queue, or of the whole store."""
    if name is None:
        figures: dict[str, Any] = {"queue": None, "state": None, **session.queue.get_queue_stats()}
    else:
        figures = queue_figures(session, name)
    attempts = figures["total_completed"] + figures["total_failed"]
    failed = 100 * figures["total_failed"] / attempts if attempts else None
    return {**figures, "failure_percent": failed}
