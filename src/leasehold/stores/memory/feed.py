"""The latest changes, kept while somebody follows them."""

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
    """Changes, numbered; the number of the latest is the cursor of a follower that has seen all."""

    def __init__(self, number: int) -> None:
        self.kept: deque[Change] = deque(maxlen=CHANGES_KEPT)
        self.number = number
        self.followed_at = 0

    def note(self, kind: ChangeKind, name: str) -> None:
        """Something that is no job has changed."""
        self._add(Change(kind=kind, name=name))

    def note_job(self, job_id: str, status: Status | None, event: Event, sequence: int) -> None:
        """Something happened to a job."""
        self._add(
            Change(kind="job", name=job_id, status=status, event=event, sequence=sequence or None)
        )

    def note_gone(self, job_id: str) -> None:
        """A job was deleted."""
        self._add(Change(kind="job", name=job_id))

    def _add(self, change: Change) -> None:
        self.number += 1
        self.kept.append(change)


def changes(state: State, cursor: str | None, limit: int) -> Changes:
    """What changed after the cursor."""
    seen = check_cursor(limit, cursor)
    feed = state.feed
    is_new = feed is None
    if feed is None:
        # One further than ever before: a cursor from before must not look like the latest.
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
    """Keep no more changes once the feed was not followed for long."""
    feed = state.feed
    if feed is not None and state.now - feed.followed_at > FOLLOWED_SECONDS * 1e6:
        state.feed_ended_at = feed.number
        state.feed = None
