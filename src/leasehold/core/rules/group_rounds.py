"""How leases narrowed to a group go through the group's parked keys, a few at a time.

Parked jobs may be the best of a group if they wait behind jobs of other groups. The number of keys
is unbounded, so each lease compares PARKED_KEYS_AT_ONCE of them and the next lease continues. Only
the process remembers the position: if it is lost, a round starts again.
"""

from __future__ import annotations

from typing import Final, NamedTuple

GROUPS_MAX: Final = 1000
"""Beyond this many groups, the round that began first is forgotten."""


class _Round(NamedTuple):
    after: int
    took: bool
    """Whether any lease of the round took a job, so that there may be more."""


class GroupRounds:
    """The rounds that are under way, by group."""

    def __init__(self) -> None:
        self._open: dict[str, _Round] = {}

    def after(self, group: str) -> int | None:
        """The key after which the next lease looks; None at the start of a round."""
        found = self._open.get(group)
        return None if found is None else found.after

    def looked(self, group: str, after: int | None, *, took: bool) -> bool:
        """Record that a lease has looked at the keys up to this one (None: the last), and whether
        it took jobs.

        Returns whether there may be more. A round that took no job returns False, so that leases do
        not go round for ever while all keys are full.
        """
        last = self._open.pop(group, None)
        if last is None and after is None:
            return False  # It has seen them all.
        took = took or (last is not None and last.took)
        if after is not None:
            while len(self._open) >= GROUPS_MAX:
                del self._open[next(iter(self._open))]
            self._open[group] = _Round(after, took)
        return took or after is not None
