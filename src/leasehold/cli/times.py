"""Times for people: in the local zone, or in UTC with --utc, and labelled with the offset.

Options accept times in the same form, so a time can be copied from a table.
"""

from __future__ import annotations

from datetime import UTC, datetime

import click

from leasehold.cli.session import Session
from leasehold.core.model.moments import MINUTES, SECONDS, in_zone, moment_text

__all__ = ["MINUTES", "SECONDS", "time_text", "with_local_times"]


def time_text(moment: datetime, how: str = SECONDS) -> str:
    """A moment with its offset: `2026-11-15 22:13:10-05`, or `2026-11-16 03:13:10Z` for UTC."""
    return moment_text(moment.astimezone(UTC if _is_utc() else None), how)


def with_local_times(message: str) -> str:
    """One of our own messages, with the moments in it as tables show them."""
    return in_zone(message, UTC if _is_utc() else None)


def _is_utc() -> bool:
    context = click.get_current_context(silent=True)
    session = None if context is None else context.find_object(Session)
    return session is not None and session.utc
