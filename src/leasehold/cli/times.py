"""Times for people: in the zone of whoever reads them, and marked with it.

What is shown can be typed again as it stands: options take the same form.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import click

from leasehold.cli.session import Session

SECONDS: Final = "%Y-%m-%d %H:%M:%S"
MINUTES: Final = "%Y-%m-%d %H:%M"


def time_text(moment: datetime, how: str = SECONDS) -> str:
    """A moment with its offset: `2026-11-15 22:13:10-05`, or `2026-11-16 03:13:10Z` for UTC."""
    here = moment.astimezone(UTC if _is_utc() else None)
    return here.strftime(how) + offset_text(here.utcoffset() or timedelta())


def offset_text(offset: timedelta) -> str:
    """An offset from UTC, as short as it may be.

    >>> [offset_text(timedelta(hours=hours)) for hours in (0, -5, 5.5)]
    ['Z', '-05', '+05:30']
    """
    if not offset:
        return "Z"
    minutes = round(abs(offset.total_seconds()) / 60)
    sign = "-" if offset < timedelta() else "+"
    rest = f":{minutes % 60:02}" if minutes % 60 else ""
    return f"{sign}{minutes // 60:02}{rest}"


def _is_utc() -> bool:
    context = click.get_current_context(silent=True)
    session = None if context is None else context.find_object(Session)
    return session is not None and session.utc
