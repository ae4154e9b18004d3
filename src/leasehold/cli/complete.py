"""What a shell is offered while somebody types: names that are in the store.

A shell waits for it, so it asks only for what is cheap, and says nothing when something is wrong.
"""

from __future__ import annotations

from contextlib import suppress

import click

from leasehold.cli.session import Session
from leasehold.errors import LeaseholdError


def schedule_names(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """The schedules of the store."""
    with suppress(LeaseholdError):
        return _starting([each.name for each in _session(ctx).queue.schedules], incomplete)
    return []


def queue_names(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """The queues of the store; the last of several with commas between them is completed."""
    before, comma, last = incomplete.rpartition(",")
    with suppress(LeaseholdError):
        return [before + comma + name for name in _starting(_session(ctx).queue.queues(), last)]
    return []


def _session(ctx: click.Context) -> Session:
    return ctx.ensure_object(Session)


def _starting(names: list[str], incomplete: str) -> list[str]:
    # A name with a space or a line end in it cannot be offered to a shell unquoted.
    return [name for name in names if name.startswith(incomplete) and not set(name) & set(" \t\n")]
