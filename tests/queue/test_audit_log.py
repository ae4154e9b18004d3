"""The audit log as a whole, in pages and of a time: every face answers alike."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from leasehold import AsyncTaskQueue, InvalidCursorError, InvalidPageError, TaskQueue
from leasehold.core.model.records import AuditRecord
from leasehold.env import ManualClock
from leasehold.queue import looking

NEWEST_FIRST = [f"mail-{number}" for number in (4, 3, 2, 1, 0)]


@pytest.fixture
def audited(still: TaskQueue, clock: ManualClock) -> TaskQueue:
    """Five records, a minute apart."""
    for name in reversed(NEWEST_FIRST):
        still.create_queue(name)
        clock.advance(60)
    return still


def names(records: list[AuditRecord]) -> list[str]:
    return [record.detail["queue"] for record in records]


def test_the_whole_is_read_page_by_page(
    audited: TaskQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "PAGE_MAX", 2)
    assert names(audited.audit_log()) == NEWEST_FIRST
    for limit in range(7):
        assert names(audited.audit_log(limit)) == NEWEST_FIRST[:limit]


def test_a_limit_is_no_page(audited: TaskQueue) -> None:
    assert names(audited.audit_log(1_000_000)) == NEWEST_FIRST
    with pytest.raises(ValueError, match="limit must be 0 or more"):
        audited.audit_log(-1)
    for limit in (0, 1_000_000):
        with pytest.raises(InvalidPageError):
            audited.audit_page(limit=limit)
    with pytest.raises(InvalidCursorError):
        audited.audit_page(cursor="next")


def test_both_are_narrowed_to_a_time(audited: TaskQueue) -> None:
    second, fourth = (audited.audit_log()[index].at for index in (3, 1))
    assert names(audited.audit_log(since=second, before=fourth)) == ["mail-2", "mail-1"]
    assert names(audited.audit_log(1, since=second, before=fourth)) == ["mail-2"]
    page = audited.audit_page(since=second, before=fourth)
    assert names(page.records) == ["mail-2", "mail-1"]
    assert audited.audit_log(since=audited.now() + timedelta(days=1)) == []


def test_the_awaitable_face_has_them_too(audited: TaskQueue) -> None:
    async def main() -> list[str]:
        async with AsyncTaskQueue(audited.store, num_workers=0) as queue:
            since = (await queue.audit_log(1))[0].at
            page = await queue.audit_page(limit=1)
            rest = await queue.audit_page(cursor=page.next_cursor)
            told = names(page.records + rest.records)
            return told + names(await queue.audit_log(since=since))

    assert asyncio.run(main()) == [*NEWEST_FIRST, "mail-4"]
