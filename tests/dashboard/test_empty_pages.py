"""A page that has nothing to show yet: it changes in place when there is something."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from dashboard.shop import Shop
from leasehold import Every, NewJob, TaskQueue, Workflow
from leasehold.connect import connect
from leasehold.core.model.records import WorkerInfo
from leasehold.core.model.search import JobFilter
from leasehold.core.rules.filter_orders import CancelAll
from leasehold.dashboard import dashboard_routes
from service.conftest import serving


@pytest.fixture
def empty(served: tuple[Browser, object, object]) -> Iterator[Shop]:
    """A store of its own, in which there is nothing."""
    store = connect("memory://")
    with serving(store, beside=dashboard_routes) as service:
        yield Shop(served[0], service, TaskQueue(store, num_workers=0), "")
    store.close()


def test_the_first_page_becomes_the_overview(empty: Shop) -> None:
    with empty.page("operator") as page:
        page.goto(empty.url("."))
        expect(page.locator("h1")).to_have_text("Nothing yet")
        expect(page.locator("#live")).to_have_text("live")
        empty.queue.submit("a")
        expect(page.locator("#verdict")).to_be_visible()


def test_tables_appear(empty: Shop) -> None:
    queue, store = empty.queue, empty.queue.store
    with empty.page("operator") as page:
        pages = {}
        for path in ("queues", "workers", "schedules"):
            pages[path] = page.context.new_page()
            pages[path].goto(empty.url(path))
            expect(pages[path].locator(".empty")).to_be_visible()
            expect(pages[path].locator("#live")).to_have_text("live")
        now = store.now()
        store.register_worker(
            WorkerInfo(
                id="w", host="web-1", pid=1, queues=("x",), slots=1, started_at=now,
                heartbeat_at=now,
            ),
            is_remote=True,
        )  # fmt: skip
        queue.schedule("ping", "net:ping", Every(3600))
        queue.submit("a")
        for path, row in (("queues", "default"), ("workers", "w"), ("schedules", "ping")):
            expect(pages[path].locator(f"[data-row={row}]")).to_be_visible()


def test_lists_announce_their_first_rows(empty: Shop) -> None:
    queue = empty.queue
    with empty.page("operator") as page:
        pages = {}
        for path in ("jobs", "failures", "dead-letters", "workflows", "operations"):
            pages[path] = page.context.new_page()
            pages[path].goto(empty.url(path))
            expect(pages[path].locator(".empty")).to_be_visible()
        flow = Workflow("flow")
        flow.add("one", NewJob("a"))
        queue.submit_workflow(flow)
        empty.dead("mail")
        where = JobFilter(ids=("flow:one",))
        queue.operations.carry_out(
            queue.operations.begin(queue.operations.plan(CancelAll(), where))
        )
        for path, other in pages.items():
            count = 2 if path == "jobs" else 1
            expect(other.locator(".new-rows")).to_have_text(f"{count} new \u2013 show")
            other.locator(".new-rows").click()
            expect(other.locator("tbody tr[data-row]")).to_have_count(count)


def test_the_rows_of_a_short_list_stay_where_they_are(empty: Shop) -> None:
    first = empty.queue.submit("a")
    with empty.page("operator") as page:
        page.goto(empty.url("jobs"))
        expect(page.locator("#live")).to_have_text("live")
        row = page.locator(f"tr[data-row='{first.id}']")
        row.hover()
        before = row.bounding_box()
        empty.queue.submit("a")
        expect(page.locator(".new-rows")).to_be_visible()
        assert row.bounding_box() == before


def test_the_last_row_that_leaves_stays_under_the_pointer(empty: Shop) -> None:
    empty.queue.schedule("ping", "net:ping", Every(3600))
    with empty.page("operator") as page:
        page.goto(empty.url("schedules"))
        expect(page.locator("#live")).to_have_text("live")
        row = page.locator("tr[data-row=ping]")
        row.hover()
        empty.queue.schedules.remove("ping")
        expect(row).to_have_class("left")
        page.mouse.move(0, 0)
        empty.queue.submit("a")
        expect(page.locator(".empty")).to_contain_text("No schedule yet")


def test_a_row_that_left_a_short_list_is_dimmed_while_new_ones_come(empty: Shop) -> None:
    jobs = [empty.queue.submit("a", queue="short") for _ in range(4)]
    with empty.page("operator") as page:
        page.goto(empty.url("jobs?q=queue:short+status:pending"))
        expect(page.locator("#live")).to_have_text("live")
        for each in jobs[:2]:
            empty.queue.cancel(each)
        empty.queue.submit_many([NewJob("a", queue="short")] * 2)
        expect(page.locator(".new-rows")).to_have_text("2 new \u2013 show")
        expect(page.locator("tr.left")).to_have_count(2)
        empty.queue.submit_many([NewJob("a", queue="short")] * 60)
        expect(page.locator(".new-rows")).to_have_text("50+ new \u2013 show")
        expect(page.locator(f"tr[data-row='{jobs[0].id}']")).to_have_class("left")
