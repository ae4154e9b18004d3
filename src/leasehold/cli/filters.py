"""The filter: one way to say "these jobs", the same for every command that takes several."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import click

from leasehold.cli.complete import queue_names
from leasehold.cli.options import MOMENT, NAMES, PRIORITY, TAG
from leasehold.core.search import JobFilter
from leasehold.core.status import Status

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--queue", "-q", "queues", type=NAMES, shell_complete=queue_names, help="In these queues."
    ),
    click.option("--task", "-t", "tasks", type=NAMES, help="Of these tasks."),
    click.option("--priority-min", type=PRIORITY, help="With at least this priority."),
    click.option("--priority-max", type=PRIORITY, help="With at most this priority."),
    click.option("--created-from", type=MOMENT, help="Submitted at this time or later."),
    click.option("--created-before", type=MOMENT, help="Submitted before this time."),
    click.option("--meta", type=TAG, multiple=True, help="With this tag; may be repeated."),
    click.option("--key", "idempotency_key", help="With this idempotency key."),
    click.option("--parent", "parent_id", help="Children of this job."),
    click.option("--error", "error_text", help="With this in the latest error."),
    click.option("--search", "text", help="With this in the payload or the latest error."),
)
_STATUS = click.option(
    "--status",
    "--state",
    "-s",
    "statuses",
    type=NAMES,
    help="In these statuses: " + ", ".join(status.value for status in Status) + ".",
)


def filter_options(*, status: bool = True, queue: bool = True) -> Callable[[F], F]:
    """Add the filter's options; the command gets them as one JobFilter, `where`."""

    def decorate(function: F) -> F:
        @wraps(function)
        def with_filter(*args: Any, **given: Any) -> Any:
            return function(*args, where=_filter(given), **given)

        decorated: Any = with_filter
        named = _OPTIONS if queue else _OPTIONS[1:]
        for option in reversed((_STATUS, *named) if status else named):
            decorated = option(decorated)
        return cast("F", decorated)

    return decorate


def is_everything(where: JobFilter) -> bool:
    """Whether a filter leaves nothing out."""
    return where == JobFilter()


def _filter(given: dict[str, Any]) -> JobFilter:
    meta: tuple[tuple[str, Any], ...] = given.pop("meta")
    statuses = _statuses(given.pop("statuses", None))
    fields = {name: given.pop(name) for name in JobFilter.__struct_fields__ if name in given}
    return JobFilter(statuses=statuses, metadata=dict(meta) or None, **fields)


def _statuses(names: tuple[str, ...] | None) -> tuple[Status, ...] | None:
    if names is None:
        return None
    try:
        return tuple(Status(name.lower()) for name in names)
    except ValueError:
        known = {status.value for status in Status}
        unknown = next(name for name in names if name.lower() not in known)
        raise click.BadParameter(
            f"{unknown!r} is no status; there are {', '.join(status.value for status in Status)}",
            param_hint="--status",
        ) from None
