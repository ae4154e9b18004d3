"""Clauses about history, log and audit, page by page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.limits import LOG_LINES_MAX
from leasehold.core.model.outcome import Complete, Snooze
from leasehold.core.model.refusals import PAGE_MAX
from leasehold.env import ManualClock
from leasehold.errors import (
    InvalidCursorError,
    InvalidPageError,
)
from leasehold.testing.conformance.base import (
    FAILURE,
    RETRY_SECONDS,
    ConformanceBase,
    draft,
    kill,
    lease_one,
    said,
    settle,
    submit,
)
from leasehold.testing.conformance.cases import on_one_store

Ask = Callable[[str | None], Any]


def pages(ask: Ask, entries: str) -> list[list[Any]]:
    """All pages, each as a list of its entries."""
    page = ask(None)
    found = [list(getattr(page, entries))]
    while page.next_cursor is not None:
        page = ask(page.next_cursor)
        found.append(list(getattr(page, entries)))
    return found


def joined(pages: list[list[Any]]) -> list[Any]:
    return [entry for page in pages for entry in page]


def busy_life(store: Store, clock: ManualClock) -> None:
    """A job with attempts and other events in turns, the last one still running."""
    submit(store, draft(max_retries=9))
    for outcome in (FAILURE, Snooze(RETRY_SECONDS), FAILURE):
        settle(store, lease_one(store), outcome)
        clock.advance(RETRY_SECONDS)
        store.promote()
    lease_one(store)


class PagingClauses(ConformanceBase):
    """PGE."""

    @pytest.fixture
    def busy(self, store: Store, clock: ManualClock) -> Store:
        """A store with a job to which much has happened."""
        busy_life(store, clock)
        return store

    @on_one_store("limit", [1, 2, 3, 5, 100])
    def test_pge_1_pages_of_history_are_the_history(self, busy: Store, limit: int) -> None:
        whole = busy.history("job")
        assert len(whole) > 8
        got = pages(lambda at: busy.history_page("job", limit=limit, cursor=at), "events")
        assert joined(got) == whole
        assert all(len(page) == limit for page in got[:-1])
        assert 1 <= len(got[-1]) <= limit

    def test_pge_1_pages_of_an_ended_job_are_its_history(self, store: Store) -> None:
        kill(store)
        store.replay(["job"], reset_attempts=True, actor="ann")
        settle(store, lease_one(store), Complete())
        got = pages(lambda at: store.history_page("job", limit=2, cursor=at), "events")
        assert joined(got) == store.history("job")

    def test_pge_1_pages_of_the_log_are_the_log(self, store: Store) -> None:
        submit(store, draft())
        lease = lease_one(store)
        store.append_log("job", lease.version, said(*"abcdefg"))
        got = pages(lambda at: store.log_page("job", limit=3, cursor=at), "lines")
        assert [[line.text for line in page] for page in got] == [[*"abc"], [*"def"], ["g"]]
        assert joined(got) == store.log("job").lines

    def test_pge_1_pages_of_the_audit_log_are_the_audit_log(self, store: Store) -> None:
        for number in range(5):
            kill(store, f"job-{number}")
            store.discard([f"job-{number}"], actor="ann")
        got = pages(lambda at: store.audit_page(limit=2, cursor=at), "records")
        assert joined(got) == store.audit_page().records
        assert [len(page) for page in got] == [2, 2, 1]

    def test_pge_1_what_is_not_there_is_one_empty_page(self, store: Store) -> None:
        assert pages(lambda at: store.history_page("none", cursor=at), "events") == [[]]
        assert pages(lambda at: store.log_page("none", cursor=at), "lines") == [[]]
        assert pages(lambda at: store.audit_page(cursor=at), "records") == [[]]

    def test_pge_2_what_is_written_meanwhile_disturbs_no_page(self, store: Store) -> None:
        for number in range(3):
            kill(store, f"job-{number}")
            store.discard([f"job-{number}"], actor="ann")
        before = store.audit_page().records
        first = store.audit_page(limit=1)
        kill(store, "late")
        store.discard(["late"], actor="ben")
        rest = store.audit_page(cursor=first.next_cursor)
        assert first.records + rest.records == before

    def test_pge_3_what_is_no_page_is_refused(self, store: Store) -> None:
        asks: list[Callable[..., Any]] = [
            lambda **given: store.history_page("job", **given),
            lambda **given: store.log_page("job", **given),
            store.audit_page,
        ]
        for ask in asks:
            for limit in (0, -1, PAGE_MAX + 1):
                with pytest.raises(InvalidPageError, match="limit"):
                    ask(limit=limit)
            for cursor in ("", "next", "-1", "1.5", "\u0663", "9" * 30):
                with pytest.raises(InvalidCursorError, match="cursor"):
                    ask(cursor=cursor)

    def test_pge_4_a_cursor_tells_later_what_happened_since(self, store: Store) -> None:
        submit(store, draft())
        lease = lease_one(store)
        seen = store.history("job")[-1].sequence
        assert store.history_page("job", cursor=str(seen)).events == []
        settle(store, lease, Complete())
        since = store.history_page("job", cursor=str(seen))
        assert since.events == store.history("job")[seen:]
        assert len(since.events) == 1

    def test_pge_5_dropped_lines_are_counted(self, store: Store) -> None:
        submit(store, draft())
        lease = lease_one(store)
        store.append_log("job", lease.version, said("a", "b", "c"))
        first = store.log_page("job", limit=2)
        assert (first.next_cursor, first.missed) == ("2", 0)
        store.append_log("job", lease.version, said(*map(str, range(LOG_LINES_MAX))))
        after = store.log_page("job", limit=5, cursor=first.next_cursor)
        assert [line.text for line in after.lines] == [*map(str, range(5))]
        assert after.missed == 1
        # A reader that begins anew is told, too, that there was more.
        assert store.log_page("job", limit=1).missed == 3
