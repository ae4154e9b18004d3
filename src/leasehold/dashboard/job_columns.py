"""The columns of the table of jobs, and a person's choice of them.

The choice is part of the address, like the search, so a link shows others the same table.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

COLUMNS: Final = {
    "status": "Status",
    "task": "Task",
    "queue": "Queue",
    "priority": "Priority",
    "attempts": "Attempts",
    "submitted": "Submitted",
    "due": "Due",
    "started": "Started",
    "ended": "Ended",
    "worker": "Worker",
    "key": "Key",
    "limit_key": "Limit key",
    "parent": "Parent",
    "metadata": "Metadata",
    "error": "Latest error",
}
"""By name, in the order in which they stand. The job itself is always the first."""
USUAL: Final = ("status", "task", "queue", "priority", "attempts", "submitted", "error")
NARROW: Final = ("status", "submitted")
"""The usual columns that a phone shows, with the task below the job; columns chosen by a person are
shown there too."""
NUMBERS: Final = ("priority", "attempts", "submitted", "due", "started", "ended")


def chosen_columns(asked: Iterable[str]) -> list[str]:
    """The columns to show: boxes that were ticked, or names separated by commas.

    >>> chosen_columns(["worker,task", "nonsense"]), chosen_columns([]) == list(USUAL)
    (['task', 'worker'], True)
    """
    names = {name for each in asked for name in each.split(",")}
    return [name for name in COLUMNS if name in names] or list(USUAL)


def in_address(columns: Iterable[str]) -> str:
    """The choice as an address says it; empty for the usual one."""
    columns = list(columns)
    return "" if columns == list(USUAL) else ",".join(columns)
