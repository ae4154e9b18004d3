"""Jobs that a search names by their id, or by a part of it as pages show it.

What somebody has at hand is often an id from a log, or a shortened one from a page. As a word it
would be looked for in payloads and errors, where it is not.
"""

from __future__ import annotations

import re
from typing import Final

from leasehold.core.contract.looking import looking
from leasehold.core.model.search import HeavyField, JobFilter
from leasehold.dashboard.visit import Desk

NAMED_MAX: Final = 5
LENGTH_MIN: Final = 4
LOOKED_THROUGH: Final = 2000
"""How many of the latest jobs are searched for an id by its end."""
PAGE: Final = 500
LEFT_OUT: Final[tuple[HeavyField, ...]] = ("payload", "result", "metadata")
ELLIPSIS: Final = "…"
_MADE_UP: Final = re.compile(r"[0-9a-f-]+(:.*)?")
"""The end of an id that was not given by a person."""


def jobs_named(desk: Desk, where: JobFilter) -> list[str]:
    """The ids that begin or end like the only thing that a search asks for."""
    for word in (where.text, *(where.ids or ())):
        asked = word or ""
        only = (JobFilter(ids=(asked,)), JobFilter(text=asked, created_from=where.created_from))
        if len(asked) >= LENGTH_MIN and not asked.isspace() and where in only:
            return _like(desk, asked)
    return []


def _like(desk: Desk, asked: str) -> list[str]:
    beginning, shortened, end = asked.partition(ELLIPSIS)
    if not shortened:
        # Ids begin with the time, so those of one minute are alike; their ends are random.
        found = desk.queue.find_ids(asked, NAMED_MAX)
        if found or _MADE_UP.fullmatch(asked) is None:
            return found
        beginning, end = "", asked
    found = []
    cursor: str | None = None
    for _ in range(LOOKED_THROUGH // PAGE):
        page = looking(desk.store).search(JobFilter(), limit=PAGE, cursor=cursor, without=LEFT_OUT)
        ids = (job.id for job in page.jobs)
        found += [each for each in ids if each.startswith(beginning) and each.endswith(end)]
        cursor = page.next_cursor
        if cursor is None or len(found) >= NAMED_MAX:
            break
    return found[:NAMED_MAX]
