"""An accelerator: stands beside a store, makes it faster, and may vanish at any moment.

The store stays the only truth: an accelerator holds hints and counts that need not be exact, no job
and no lock. Every answer of it may be "not now" (None, False), at once or within a fraction of a
second; the store then does the same by itself, more slowly. `connect` joins the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from leasehold.core.model.rate import Rate


class TakenTokens(NamedTuple):
    """The answer of a bucket from which tokens were taken."""

    jobs: int
    """For how many."""
    ahead_micros: int
    """How far ahead the moment was at which the bucket would have been full, before that."""


class Accelerator(Protocol):
    """Wakes other processes, and counts how fast jobs come."""

    def serve(
        self, store_id: str, hear: Callable[[str | None], None], tell: Callable[[str], None]
    ) -> None:
        """Begin for this store, and anew in a forked child.

        `hear` is called with the news of other processes, each a letter, and with None when some
        may have been missed; `tell` with news that could not be sent.
        """

    @property
    def parameter(self) -> str:
        """How it is named in a store's URL."""

    @property
    def is_up(self) -> bool:
        """Whether it answered when it was last asked; asks it, if that was never."""

    def listen(self) -> None:
        """Hear news from now on; while that is impossible, as if there were some all the time."""

    def send(self, news: str) -> bool:
        """Tell other processes soon; False if the caller has to do that itself."""

    def take(
        self, bucket: tuple[str, str], rate: Rate, jobs: int, *, least: int, now: int
    ) -> TakenTokens | None:
        """Take tokens for so many jobs, or for as many as there are if that is `least` or more,
        else for none. `bucket` is a queue and a name in it; `now` is in micros.
        """

    def correct(self, bucket: tuple[str, str], rate: Rate, jobs: int, *, now: int) -> None:
        """So many jobs more, or fewer, have come than tokens were taken for."""

    def describe(self) -> Mapping[str, Any]:
        """How it is, for people and monitoring, under its name."""

    def close(self) -> None: ...
