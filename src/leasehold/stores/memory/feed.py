"""The latest changes, recorded while somebody follows them."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

from leasehold.core.model.changes import CHANGES_KEPT, FOLLOWED_SECONDS, Change, ChangeKind, Changes
from leasehold.core.model.pages import check_cursor
from leasehold.core.model.status import Event, Status

if TYPE_CHECKING:
    from leasehold.stores.memory.state import State


class Feed:
    """Numbered changes; the number of the latest is the cursor of a follower that has seen all."""

    def __init__(self, number: int) -> None:
        self.kept: deque[Change] = deque(maxlen=CHANGES_KEPT)
        self.number = number
        self.followed_at = 0

    def note(
        self,
        kind: ChangeKind,
        name: str,
        status: Status | None = None,
        event: Event | None = None,
        sequence: int | None = None,
    ) -> None:
        """Record a change; a job without an event was deleted."""
        self.number += 1
        self.kept.append(
            Change(kind=kind, name=name, status=status, event=event, sequence=sequence or None)
        )


def changes(state: State, cursor: str | None, limit: int) -> Changes:
    """What changed after the cursor."""
    seen = check_cursor(limit, cursor)
    feed = state.feed
    is_new = feed is None
    if feed is None:
        # One more than ever before: an older cursor must not look like the latest.
        state.feed_ended_at += 1
        feed = state.feed = Feed(state.feed_ended_at)
    feed.followed_at = state.now
    if seen is None:
        return Changes([], str(feed.number))
    oldest = feed.number - len(feed.kept)
    if is_new or not oldest <= seen <= feed.number:
        return Changes([], str(feed.number), gap=True)
    told = list(islice(feed.kept, seen - oldest, seen - oldest + limit))
    return Changes(told, str(seen + len(told)))


def end_if_unfollowed(state: State) -> None:
    """Stop recording changes when the feed has not been followed for long."""
    feed = state.feed
    if feed is not None and state.now - feed.followed_at > FOLLOWED_SECONDS * 1e6:
        state.feed_ended_at = feed.number
        state.feed = None
