"""What was read of minutes that are over: it holds until the next one ends.

The write that ends a minute keeps what happened in it, and nothing else changes what is kept. So
readers who ask again within a minute, as open pages do every few seconds, are told what was read,
decoded and added up for the first of them.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Collection, Hashable, Mapping
from functools import partial
from typing import Any, Final, TypeVar, cast

from leasehold.core.model.span import Span
from leasehold.core.rules.sampling import Resolution
from leasehold.stores.tables.sampling import TableSpans

ANSWERS_MAX: Final = 8
"""So many answers are remembered: those of the pages that people have open."""
SPANS_MAX: Final = 200
"""A longer series is read anew: with its measurements, it would take megabytes."""

T = TypeVar("T")


class ClosedSpans:
    """Answers of one store about the minutes before the open one."""

    def __init__(self) -> None:
        self._known: tuple[int, dict[Hashable, Any]] = (-1, {})
        """A minute, and its answers. It is replaced, never changed: so it needs no lock, which a
        forked child might inherit held. Of two threads at once one keeps its answer in vain.
        """

    def known(self, open_minute: int, what: Hashable) -> object | None:
        """The answer that was given in the same minute, if there was one."""
        minute, answers = self._known
        return answers.get(what) if open_minute == minute else None

    def keep(self, open_minute: int, what: Hashable, answer: object) -> None:
        """Remember an answer; those of another minute are forgotten."""
        minute, answers = self._known
        # Also those of a later one: the clock was repaired, or this look began before another.
        kept = {**answers} if open_minute == minute else {}
        kept.pop(what, None)
        if len(kept) >= ANSWERS_MAX:
            del kept[next(iter(kept))]
        kept[what] = answer
        self._known = (open_minute, kept)


class RememberedSpans(TableSpans, ABC):
    """Spans for who only looks: those of minutes that are over are read once a minute.

    Answers are shared, so nobody may change one. A class that reads spans stands behind this one.
    """

    _closed: ClosedSpans | None = None

    def last_counts(self, queue: str | None) -> Mapping[str, Span]:
        return self._once(("last counts", queue), partial(super().last_counts, queue))

    def last_look_of_all(self) -> Span:
        return self._once("last look", super().last_look_of_all)

    def kept(
        self, resolution: Resolution, queue: str | None, first: int
    ) -> Mapping[str, dict[int, Span]]:
        return self._once(
            (resolution, queue, first),
            partial(super().kept, resolution, queue, first),
            lambda found: sum(map(len, found.values())) <= SPANS_MAX,
        )

    def summed(
        self, resolution: Resolution, first: int, measures: Collection[int]
    ) -> Mapping[str, Span]:
        return self._once(
            (resolution, first, frozenset(measures)),
            partial(super().summed, resolution, first, measures),
        )

    def _once(
        self, what: Hashable, read: Callable[[], T], is_short: Callable[[T], bool] = lambda _: True
    ) -> T:
        if self._closed is None:
            return read()
        minute = self.open_minute()
        known = self._closed.known(minute, what)
        if known is not None:
            return cast("T", known)
        answer = read()
        if is_short(answer):
            self._closed.keep(minute, what, answer)
        return answer
