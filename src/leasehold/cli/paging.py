"""`--limit` and `--cursor`, for lists that are read page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, TypeVar

import click

from leasehold.cli.session import Session
from leasehold.core.model.refusals import PAGE_MAX

F = TypeVar("F", bound=Callable[..., Any])

PAGE_SIZE: Final = 1000


def page_options(default: int, *, shown: str) -> Callable[[F], F]:
    """The options; `shown` explains the default."""

    def add(function: F) -> F:
        cursor = click.option(
            "--cursor", metavar="CURSOR", help="Continue after an earlier page, which printed this."
        )
        limit = click.option(
            "--limit",
            "-n",
            type=click.IntRange(0, PAGE_MAX),
            default=default,
            help=f"How many at most; 0 for all.  [default: {shown}]",
        )
        return limit(cursor(function))

    return add


def entries(
    session: Session, page: Callable[..., Any], field: str, *, limit: int, cursor: str | None
) -> Iterator[Any]:
    """The entries from a cursor on: so many, or all there are; says how to go on if there are more.

    `page` is called with `limit` and `cursor`; its answer has `field` and a `next_cursor`.
    """
    while True:
        found = page(limit=limit or PAGE_SIZE, cursor=cursor)
        yield from getattr(found, field)
        cursor = found.next_cursor
        if cursor is None:
            return
        if limit:
            hint = partial(session.tell, f"there are more: --cursor {cursor}")
            click.get_current_context().call_on_close(hint)
            return
