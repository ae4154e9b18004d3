"""A process's memory of the leases that it granted, so that their rows are found by number.

A settlement names its job by id. Looking up the number of that id takes the server longer than
ending the lease. A process that granted the lease knows the number and everything else about the
lease that never changes. This is only a cache: a lease that is not in it is looked up, and a row
belongs to a lease only if it has the same version, which is never granted twice in one store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

GRANTS_MAX: Final = 10_000
"""About how many leases a process remembers: more than a worker leases ahead, and some megabytes
where a service leases for many."""

Grant = tuple[str, int, int, str, str, int, int]
"""One lease: job id, number, lane, queue, worker, attempts, and when it was granted."""


class Grants:
    """The latest grants, by version. Any thread may read and add.

    >>> grants = Grants(limit=4)
    >>> for version in range(9):
    ...     grants.add({version: ("job", version, 1, "default", "w", 1, 0)})
    >>> [version for version in range(9) if grants.find_all([version])]
    [6, 7, 8]
    """

    __slots__ = ("_half", "_newer", "_older")

    def __init__(self, limit: int = GRANTS_MAX) -> None:
        self._half = limit // 2
        self._newer: dict[int, Grant] = {}
        self._older: dict[int, Grant] = {}

    def add(self, granted: Mapping[int, Grant]) -> None:
        """Remember these, and forget the oldest half when there are too many."""
        self._newer.update(granted)
        if len(self._newer) >= self._half:
            # A concurrent reader at worst misses one of them, and looks it up.
            self._older, self._newer = self._newer, {}

    def find_all(self, versions: Sequence[int]) -> list[Grant] | None:
        """The leases of these versions, if all of them are remembered."""
        newer, older = self._newer, self._older
        try:
            return [newer.get(version) or older[version] for version in versions]
        except KeyError:
            return None
