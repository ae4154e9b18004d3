"""A history that is put together from rows, some of which a newer version may have written."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from leasehold.core.model.codes import EVENT_CODE, STATUS_CODE
from leasehold.core.model.status import Event, Status
from leasehold.core.rules.history import AttemptRow, EventRow, RunningRow, history_of

UNKNOWN = 99
PENDING, SCHEDULED = STATUS_CODE[Status.PENDING], STATUS_CODE[Status.SCHEDULED]
PROMOTED = EVENT_CODE[Event.PROMOTED]


class Rows:
    """A job that was delayed, promoted, and had one more thing happen to it."""

    job_id = "job"

    def __init__(self, event: int, before: int, after: int) -> None:
        self._last = event, before, after

    def created(self) -> tuple[int, int]:
        return 1_000_000, SCHEDULED

    def attempts(self, since: int = 0, limit: int | None = None) -> Iterable[AttemptRow]:
        return ()

    def running(self) -> Iterable[RunningRow]:
        return ()

    def events(self, since: int, limit: int | None) -> Iterable[EventRow]:
        rows = [
            EventRow(2, 2_000_000, PROMOTED, SCHEDULED, PENDING, 0, None, 0, None),
            EventRow(3, 3_000_000, *self._last, 0, None, 0, None),
        ]
        return [row for row in rows if row.n > since]

    def leased_at(self, version: int) -> int | None:
        return None

    def is_dropped(self) -> bool:
        return False


@pytest.mark.parametrize(
    ("event", "before", "after", "told"),
    [
        (PROMOTED, SCHEDULED, PENDING, 3),
        (UNKNOWN, SCHEDULED, PENDING, 2),
        (PROMOTED, UNKNOWN, PENDING, 2),
        (PROMOTED, SCHEDULED, UNKNOWN, 2),
    ],
)
def test_what_a_newer_version_has_written_is_left_out(
    event: int, before: int, after: int, told: int
) -> None:
    history = history_of(Rows(event, before, after))
    assert [entry.event for entry in history] == [Event.CREATED, *[Event.PROMOTED] * (told - 1)]


def test_only_what_came_after_an_event_is_told() -> None:
    rows = Rows(PROMOTED, SCHEDULED, PENDING)
    assert [entry.sequence for entry in history_of(rows, since=1)] == [2, 3]
    assert [entry.sequence for entry in history_of(rows, since=1, limit=1)] == [2]
