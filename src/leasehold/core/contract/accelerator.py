"""An accelerator runs beside a store, makes it faster, and may disappear at any moment.

The store remains the only source of truth: an accelerator holds hints and approximate counts, but
no job and no lock. Any of its answers may be "not now" (None, False), given within a fraction of a
second; the store then does the same work itself, more slowly. `connect` joins the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from leasehold.core.model.rate import Rate
from leasehold.core.rules.placing import RowKey

VALID_SECONDS: Final = 60
"""How long what is known of a lane is used after it was filled."""

Spot = tuple[int, int, int]
"""The tier, turn and number of a pending job: its place within its lane."""


class TakenTokens(NamedTuple):
    """The answer of a bucket from which tokens were taken."""

    jobs: int
    """How many jobs they were taken for."""
    ahead_micros: int
    """How far ahead the time was at which the bucket would have been full, before they were taken.
    """


class LaneFront(NamedTuple):
    """The first spots of a lane, as an index remembers them; some may be empty by now."""

    spots: Sequence[Spot]
    """In the order of service."""
    end: Spot | None
    """The last spot up to which the index knows the lane; None if it knows all of it."""
    last: Spot | None
    """The last spot of the lane, if it knows all of it and there is one."""
    known: int
    """How many spots it knows."""


class ReadyIndex(Protocol):
    """The order of the first pending jobs of some lanes, beside that of the store.

    The store names the lanes. It tells of each job that takes a spot in them, after the commit, so
    every pending job up to `end` is known; but a message may be lost. A lane is therefore filled
    again and again, and forgotten if that was not done for VALID_SECONDS: what is missing is found
    by then at the latest. Spots whose jobs have left may still be named: whoever leases confirms
    each one in the store.
    """

    def fronts(self, lanes: Sequence[int], limit: int) -> Mapping[int, LaneFront]:
        """The first spots of each lane that it knows, at most `limit` of each."""

    def spots(self, lane: int, after: Spot, before: Spot | None, limit: int) -> LaneFront | None:
        """The next spots between these two; None if it does not know the lane."""

    def change(self, entered: Sequence[RowKey], left: Sequence[RowKey]) -> bool:
        """Add and remove spots, in lanes that it knows or is learning; False if that failed."""

    def fill(self, lane: int, read: Callable[[], tuple[Sequence[Spot], bool]]) -> bool:
        """Learn a lane anew: `read` returns its first spots, and whether these are all.

        Changes that arrive while it reads are kept. Returns whether the lane is known now.
        """

    def age_seconds(self, lane: int) -> float | None:
        """How long ago the lane was filled; None if it is not known."""

    def forget(self, lanes: Sequence[int]) -> None:
        """Drop what is known of these lanes."""


class Accelerator(Protocol):
    """Wakes other processes, counts how fast jobs arrive, and remembers which jobs come first."""

    def ready_index(self, era: int) -> ReadyIndex:
        """The order of pending jobs. What was learned in another era of the store, or of a copy of
        it, is not known in this one.
        """

    def serve(
        self, store_id: str, hear: Callable[[str | None], None], tell: Callable[[str], None]
    ) -> None:
        """Begin for this store; called again in a forked child.

        `hear` is called with the news of other processes, one letter each, and with None when some
        may have been missed; `tell` is called with news that could not be sent.
        """

    @property
    def parameter(self) -> str:
        """The parameter that names it in a store's URL."""

    @property
    def is_up(self) -> bool:
        """Whether it answered the last request; sends one if there was none yet."""

    def listen(self) -> None:
        """Listen for news from now on; while that is impossible, act as if news kept coming."""

    def send(self, news: str) -> bool:
        """Notify other processes soon; False if the caller has to notify them itself."""

    def take(
        self, bucket: tuple[str, str], rate: Rate, jobs: int, *, least: int, now: int
    ) -> TakenTokens | None:
        """Take tokens for `jobs` jobs, or all tokens left if they suffice for `least`, otherwise
        none. `bucket` is a queue and a name in it; `now` is in micros.
        """

    def correct(self, bucket: tuple[str, str], rate: Rate, jobs: int, *, now: int) -> None:
        """Correct the count: `jobs` more (or fewer) jobs arrived than tokens were taken for."""

    def describe(self) -> Mapping[str, Any]:
        """Its state under its name, for people and monitoring."""

    def close(self) -> None: ...
