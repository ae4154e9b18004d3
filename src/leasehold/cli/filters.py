"""The filter: one way to select jobs, the same for every command that takes several."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import wraps
from typing import Any, TypeVar, cast

import click

from leasehold.cli.complete import queue_names
from leasehold.cli.options import MOMENT, NAMES, PRIORITY, TAG
from leasehold.core.model.phrases import listed
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status

F = TypeVar("F", bound=Callable[..., Any])

_QUEUE = click.option(
    "--queue", "-q", "queues", type=NAMES, shell_complete=queue_names, help="In these queues."
)
_ENDED = (
    click.option(
        "--since",
        "finished_from",
        type=MOMENT,
        help="Ended (completed, cancelled, dead) since this time.",
    ),
    click.option("--until", "finished_before", type=MOMENT, help="Ended before this time."),
)
_OPTIONS = (
    click.option("--task", "-t", "tasks", type=NAMES, help="Of these tasks."),
    click.option("--priority-min", type=PRIORITY, help="With at least this priority."),
    click.option("--priority-max", type=PRIORITY, help="With at most this priority."),
    click.option("--created-from", type=MOMENT, help="Submitted at this time or later."),
    click.option("--created-before", type=MOMENT, help="Submitted before this time."),
    click.option("--meta", type=TAG, multiple=True, help="With this tag; may be repeated."),
    click.option("--key", "idempotency_key", help="With this idempotency key."),
    click.option("--parent", "parent_id", help="With this parent: a job or a workflow."),
    click.option("--limit-key", help="With this limit key."),
    click.option("--error", "error_text", help="With this text in the latest error."),
    click.option("--search", "text", help="With this text in the payload or the latest error."),
)


def _status_option(statuses: Collection[Status]) -> Callable[[F], F]:
    names = listed(status.value for status in Status if status in statuses)
    return click.option(
        "--status",
        "--state",
        "-s",
        "statuses",
        type=NAMES,
        callback=lambda _ctx, _param, given: _statuses(given, statuses),
        help=f"In these statuses: {names}.",
    )


def filter_options(
    *, status: bool | Collection[Status] = True, queue: bool = True
) -> Callable[[F], F]:
    """Add the filter's options; the command gets them as one JobFilter, `where`.

    `status` says whether, or which, statuses can be asked for.
    """
    statuses = tuple(Status) if isinstance(status, bool) else status

    def decorate(function: F) -> F:
        @wraps(function)
        def with_filter(*args: Any, **given: Any) -> Any:
            return function(*args, where=_filter(given), **given)

        decorated: Any = with_filter
        named: tuple[Callable[[Any], Any], ...] = (_QUEUE,) if queue else ()
        if any(each.is_terminal for each in statuses):
            named += _ENDED
        named += _OPTIONS
        for option in reversed((_status_option(statuses), *named) if status else named):
            decorated = option(decorated)
        return cast("F", decorated)

    return decorate


def is_everything(where: JobFilter) -> bool:
    """Whether a filter leaves nothing out."""
    return where == JobFilter()


def _filter(given: dict[str, Any]) -> JobFilter:
    meta: tuple[tuple[str, Any], ...] = given.pop("meta")
    statuses = given.pop("statuses", None)
    _check_ends(statuses, given)
    fields = {name: given.pop(name) for name in JobFilter.__struct_fields__ if name in given}
    return JobFilter(statuses=statuses, metadata=dict(meta) or None, **fields)


def _check_ends(statuses: tuple[Status, ...] | None, given: dict[str, Any]) -> None:
    """Refuse what no job can match: a time at which jobs ended that have not."""
    is_about_ends = given.get("finished_from") or given.get("finished_before")
    if is_about_ends and statuses and not any(each.is_terminal for each in statuses):
        named = listed((each.value for each in statuses), "or")
        raise click.UsageError(
            f"--since and --until are about when jobs ended, and a job that is {named} has not: "
            "use --created-from and --created-before"
        )


def _statuses(
    names: tuple[str, ...] | None, allowed: Collection[Status]
) -> tuple[Status, ...] | None:
    if names is None:
        return None
    try:
        statuses = tuple(Status(name.lower()) for name in names)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--status") from None
    for status in statuses:
        if status not in allowed:
            known = listed((each.value for each in Status if each in allowed), "or")
            raise click.BadParameter(
                f"jobs that are {status.value} are not accepted here: choose from {known}",
                param_hint="--status",
            )
    return statuses
