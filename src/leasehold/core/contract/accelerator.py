"""An accelerator runs beside a store, makes it faster, and may disappear at any moment.

The store remains the only source of truth: an accelerator holds hints and approximate counts, but
no job and no lock. Any of its answers may be "not now" (None, False), given within a fraction of a
second; the store then does the same work itself, more slowly. `connect` joins the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from leasehold.core.model.rate import Rate


class TakenTokens(NamedTuple):
    """The answer of a bucket from which tokens were taken."""

    jobs: int
    """How many jobs they were taken for."""
    ahead_micros: int
    """How far ahead the time was at which the bucket would have been full, before they were taken.
    """


class Accelerator(Protocol):
    """Wakes other processes, and counts how fast jobs arrive."""

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
