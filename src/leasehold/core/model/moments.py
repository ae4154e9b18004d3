"""Times as people read them: date, time of day, and offset from UTC."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, tzinfo
from typing import Final

SECONDS: Final = "%Y-%m-%d %H:%M:%S"
MINUTES: Final = "%Y-%m-%d %H:%M"

_IN_UTC: Final = re.compile(
    r"(?<![^\s('\"=,])\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)"
)
"""A time as it is stored in messages: in UTC, because each reader has their own zone.

It must begin a word: the id of a scheduled job ends with its tick, and `poll@2026-11-16T03:13:10Z`
is left unchanged so that it can be copied.
"""


def moment_text(moment: datetime, how: str = SECONDS) -> str:
    """A time in its own zone, labelled with the offset.

    >>> moment_text(datetime.fromisoformat("2026-11-15T22:13:10-05:00"))
    '2026-11-15 22:13:10-05'
    """
    return moment.strftime(how) + offset_text(moment.utcoffset() or timedelta())


def in_zone(message: str, zone: tzinfo | None) -> str:
    """One of Leasehold's messages with its times converted for people; None is the local zone.

    >>> from datetime import UTC
    >>> in_zone("due at 2026-11-16T03:13:10.5+00:00.", UTC)
    'due at 2026-11-16 03:13:10Z.'
    >>> in_zone("cancelled: since 2026-02-31T25:00:00Z", UTC)
    'cancelled: since 2026-02-31T25:00:00Z'
    >>> in_zone("job poll@2026-11-16T03:13:10Z starts", UTC)
    'job poll@2026-11-16T03:13:10Z starts'
    """
    return _IN_UTC.sub(lambda found: _in_zone(found[0], zone), message)


def _in_zone(written: str, zone: tzinfo | None) -> str:
    try:
        return moment_text(datetime.fromisoformat(written).astimezone(zone))
    except (ValueError, OverflowError):
        # Messages quote text from elsewhere, which may look like a time and be none.
        return written


def offset_text(offset: timedelta) -> str:
    """An offset from UTC, in its shortest form.

    >>> [offset_text(timedelta(hours=hours)) for hours in (0, -5, 5.5)]
    ['Z', '-05', '+05:30']
    """
    if not offset:
        return "Z"
    minutes = round(abs(offset.total_seconds()) / 60)
    sign = "-" if offset < timedelta() else "+"
    rest = f":{minutes % 60:02}" if minutes % 60 else ""
    return f"{sign}{minutes // 60:02}{rest}"
