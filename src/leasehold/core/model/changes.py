"""The change feed: what changed since the last look, for a dashboard or a stream of events."""

from __future__ import annotations

from typing import Final, Literal, Protocol

import msgspec

from leasehold.core.model.status import Event, Status

CHANGES_KEPT: Final = 100_000
"""How many changes are kept; a follower that is further behind gets a gap."""
FOLLOWED_SECONDS: Final = 3600.0
"""Changes are recorded for followers only: after this long without one, recording stops."""

ChangeKind = Literal["job", "queue", "worker", "schedule", "setting"]


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One row that changed. Ask the store for its new state."""

    kind: ChangeKind
    name: str
    """A job's or worker's id, or the name of the queue, schedule or setting."""
    status: Status | None = None
    """The new status of a job; None if it was deleted, and for any other row."""
    event: Event | None = None
    """What happened to the job; None if it is gone, and once its history was dropped."""
    sequence: int | None = None
    """The number of that event in the job's history."""


class Changes(msgspec.Struct, frozen=True):
    """Changes in the order in which they were made, and the cursor for the next call."""

    changes: list[Change]
    cursor: str
    gap: bool = False
    """Some changes are no longer known: read everything again, then continue from this cursor."""


class ChangeFeed(Protocol):
    """The part of a store that reports what changed."""

    def changes(self, cursor: str | None = None, *, limit: int = 1000) -> Changes:
        """The changes after a cursor; without one, only the cursor to begin with.

        - CHG-1  Every step of a job, and every event of its history, is reported once, in the order
                 in which they were written; so are deletions of jobs, changes of queues' rules and
                 states, of schedules and of settings, and workers that come and go. Changes that
                 were rolled back are not reported.
        - CHG-2  At most `limit` of them, from 1 to PAGE_MAX, and the cursor of the last: nothing is
                 reported twice or left out between two calls, and an empty answer means that there
                 are no more. An invalid cursor raises InvalidJobError.
        - CHG-3  The latest CHANGES_KEPT are kept, and only while the feed is followed: with an
                 older cursor, `gap` is true and nothing else is reported.
        - CHG-4  A feed without a follower for FOLLOWED_SECONDS costs nothing: a sweep ends it. A
                 change of a job that was deleted since may be left out; its deletion is reported.
        """
