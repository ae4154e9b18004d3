"""How a lease that is narrowed to a group gets round the group's parked keys, a few at a time.

Parked jobs of a group may be the best of it, if they wait behind jobs of other groups. There may be
any number of keys to ask, so each lease asks PARKED_KEYS_AT_ONCE of them and the next one goes on.
How far they have got is remembered by the process only: if it is forgotten, a round begins anew.
"""

from __future__ import annotations

from typing import Final, NamedTuple

GROUPS_MAX: Final = 1000
"""Beyond so many groups, the round that began first is forgotten."""


class _Round(NamedTuple):
    after: int
    took: bool
    """Whether any of its leases took a job: there may be more behind."""


class GroupRounds:
    """The rounds that are under way, by group."""

    def __init__(self) -> None:
        self._open: dict[str, _Round] = {}

    def after(self, group: str) -> int | None:
        """Behind which key the next lease looks; None for the first one of a round."""
        found = self._open.get(group)
        return None if found is None else found.after

    def looked(self, group: str, after: int | None, *, took: bool) -> bool:
        """A lease has asked the keys up to this key (None: up to the last), and took jobs or none.

        Answers whether there may be more. A round without any job ends in a no, so that no lease
        goes round for ever while all keys are full.
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
