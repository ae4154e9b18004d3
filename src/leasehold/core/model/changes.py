"""The change feed: what changed since one looked last, for a dashboard or a stream of events."""

from __future__ import annotations

from typing import Final, Literal, Protocol

import msgspec

from leasehold.core.model.status import Event, Status

CHANGES_KEPT: Final = 100_000
"""The latest changes; a follower that is further behind is told of a gap."""
FOLLOWED_SECONDS: Final = 3600.0
"""Changes are kept for followers only: once there was none for so long, nothing is paid."""

ChangeKind = Literal["job", "queue", "worker", "schedule", "setting"]


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One row that changed. Its new state is for the store to say."""

    kind: ChangeKind
    name: str
    """A job's or worker's id, or the name of the queue, schedule or setting."""
    status: Status | None = None
    """The new status of a job; None if it was deleted, and for any other row."""
    event: Event | None = None
    """What happened to the job; None if it is gone, and once its history was dropped."""
    sequence: int | None = None
    """Which event of its history that was."""


class Changes(msgspec.Struct, frozen=True):
    """Changes in the order in which they were made, and the cursor to ask for those after them."""

    changes: list[Change]
    cursor: str
    gap: bool = False
    """Something may have changed that is not known any more: read everything again, then go on
    from this cursor.
    """


class ChangeFeed(Protocol):
    """The part of a store that says what changed."""

    def changes(self, cursor: str | None = None, *, limit: int = 1000) -> Changes:
        """What changed after a cursor; without one, only where to begin.

        - CHG-1  Every step of a job, and every event of its history, is told once, in the order in
                 which they were written; so are jobs that were deleted, and changes of queues'
                 rules and states, of schedules, of settings, and workers that come and go. Changes
                 that a transaction rolled back are not told.
        - CHG-2  At most `limit` of them, from 1 to PAGE_MAX, and the cursor of the last: nothing is
                 told twice or left out between two calls, and when nothing is told there is no
                 more. An invalid cursor raises InvalidJobError.
        - CHG-3  The latest CHANGES_KEPT are kept, and only while the feed is followed: with a
                 cursor from before those, `gap` is true and nothing else is told.
        - CHG-4  A feed without a follower for FOLLOWED_SECONDS costs nothing: a sweep ends it. A
                 change of a job that was deleted since may be left out; its deletion is told.
        """
