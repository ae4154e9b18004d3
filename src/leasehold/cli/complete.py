"""Names from the store that a shell offers for completion.

A shell waits for it, so it makes only cheap queries, and stays silent if something is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import click

from leasehold.cli.session import Session
from leasehold.errors import LeaseholdError

if TYPE_CHECKING:
    from leasehold.queue.facade import TaskQueue


def schedule_names(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """The schedules of the store."""
    return _names(ctx, lambda queue: [each.name for each in queue.schedules], incomplete)


def queue_names(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """The queues of the store; the last of several separated by commas is completed."""
    before, comma, last = incomplete.rpartition(",")
    return [before + comma + name for name in _names(ctx, lambda queue: queue.queues(), last)]


def _names(ctx: click.Context, ask: Callable[[TaskQueue], list[str]], incomplete: str) -> list[str]:
    # While a shell asks, no context is active by itself; with it, the store is closed in the end.
    with suppress(LeaseholdError), ctx.find_root().scope():
        found = ask(ctx.ensure_object(Session).queue)
        # A name with a space or a line end in it cannot be offered to a shell unquoted.
        return [each for each in found if each.startswith(incomplete) and not set(each) & _BLANK]
    return []


_BLANK: Final = set(" \t\n")
