"""What holds for the list of every page: keys lead through it, and it fits a phone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Page, expect

from dashboard.shop import Shop, works
from dashboard.test_feel import settled
from leasehold import CancelAll, Every, NewJob, Workflow
from leasehold.core.model.lease import LeaseRequest
from leasehold.core.model.records import WorkerInfo
from leasehold.core.model.search import JobFilter

LONG = "a_rather_long_name_that_somebody_gave_to_what_runs_at_night"
LISTS = {
    "": "queue?name=",
    "queues": "queue?name=",
    f"queue?name={LONG}": "failure?fingerprint=",
    "jobs": "job?id=",
    "failures": "failure?fingerprint=",
    "dead-letters": "job?id=",
    "workflows": "workflow?id=",
    f"workflow?id={LONG}": "job?id=",
    "schedules": "queue?name=",
    "workers": "job?id=",
    "operations": "operation?id=",
    "audit": "",
}
"""By page with a list: where its first row leads; nowhere in particular for the audit."""
PHONE_WIDTH = 360
TOO_WIDE = """() => [...document.querySelectorAll(".scroll")]
    .filter(each => each.querySelector("tbody tr[data-row]") && each.offsetParent)
    .filter(each => each.scrollWidth > each.clientWidth)
    .map(each => [each.id || each.parentElement.className, each.scrollWidth - each.clientWidth])"""
"""Tables that have to be moved sideways: who looks at a phone would miss their last columns."""


def filled(shop: Shop) -> None:
    """Something in every list, under names that are as long as people make them."""
    queue, store = shop.queue, shop.queue.store
    if LONG in queue.queues():
        return
    queue.create_queue(LONG, max_depth=10_000)
    for number in range(2):
        queue.submit(f"shop.night:{LONG}", queue=LONG, job_id=f"{LONG}:{number}")
    lease = queue.lease(LONG)
    assert lease is not None
    queue.nack(lease, f"{LONG} is not there: {LONG}", requeue=False)
    flow = Workflow(LONG)
    flow.add("fetch", NewJob("etl:fetch", queue=LONG))
    flow.add("load", NewJob(works, queue=LONG), after="fetch")
    queue.submit_workflow(flow)
    queue.schedule(LONG, f"net:{LONG}", Every(3600), queue=LONG)
    now = store.now()
    info = WorkerInfo(
        id=f"{LONG}:1:a", host="web-1", pid=1, queues=(LONG,), slots=4, started_at=now,
        heartbeat_at=now, tasks=tuple(f"shop.night:{number}" for number in range(60)),
    )  # fmt: skip
    store.register_worker(info, is_remote=True)
    store.exchange(request=LeaseRequest(worker=info.id, queues=(LONG,), limit=1))
    for number in range(3):
        queue.submit(works, queue=LONG, job_id=f"{number}")
    where = JobFilter(ids=("0", "1", "2"))
    queue.operations.carry_out(queue.operations.begin(queue.operations.plan(CancelAll(), where)))
    store.pin("view", LONG, f"q=queue%3A{LONG}", actor="ada")


@contextmanager
def opened(shop: Shop, path: str, width: int = 1280) -> Iterator[Page]:
    filled(shop)
    with shop.page(viewport={"width": width, "height": 800}) as page:
        page.goto(shop.url(path))
        yield page


@pytest.mark.parametrize("path", LISTS)
def test_keys_go_through_every_list(shop: Shop, path: str) -> None:
    with opened(shop, path) as page:
        if path != "audit":
            settled(page)
        chosen = page.locator("main :is([aria-selected], [data-row][aria-current])")
        page.keyboard.press("j")
        expect(chosen).to_have_count(1)
        first = chosen.get_attribute("data-row")
        page.keyboard.press("k")
        expect(chosen).to_have_attribute("data-row", first or "")
        if LISTS[path]:
            row = page.locator("main [data-row]", has=page.locator(f"a[href^='{LISTS[path]}']"))
            while not row.evaluate_all("(rows, sign) => rows.some(row => row.matches(sign))",
                                       ":is([aria-selected], [aria-current])"):  # fmt: skip
                page.keyboard.press("j")
            page.keyboard.press("o")
            page.wait_for_url(lambda url: LISTS[path] in url)


@pytest.mark.parametrize("path", LISTS)
def test_every_list_fits_a_phone(shop: Shop, path: str) -> None:
    with opened(shop, path, PHONE_WIDTH) as page:
        assert page.locator("main [data-row]").count() > 0
        assert page.evaluate(TOO_WIDE) == []


def test_jobs_and_chosen_columns_are_in_sight_on_a_phone(shop: Shop) -> None:
    with opened(shop, "jobs?q=status:pending", PHONE_WIDTH) as page:
        row = page.locator("tbody tr").first.bounding_box()
        assert row is not None
        assert row["y"] + row["height"] < 800
        # The chosen tab is in sight, though the tabs are wider than the screen.
        for tab in ("cancelled", "all"):
            page.goto(shop.url("jobs" if tab == "all" else f"jobs?q=status:{tab}"))
            expect(page.locator(f"#tab-{tab}")).to_be_in_viewport(ratio=0.9)
        page.goto(shop.url("jobs?show=task,queue,status,worker,metadata,submitted"))
        for column in ("id", "one"):
            cell = page.locator(f"tbody td.{column}").first
            assert cell.evaluate("cell => cell.offsetWidth") >= 88
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE_WIDTH


def test_the_reason_of_a_death_is_not_pushed_off_by_a_long_name(shop: Shop) -> None:
    filled(shop)
    for path, column in (("dead-letters", "of-error"), ("jobs?q=status:dead", "of-error")):
        with opened(shop, path) as page:
            assert page.evaluate(TOO_WIDE) == []
            assert page.locator(f"th.{column}").evaluate("cell => cell.offsetWidth") > 150


def test_a_search_begins_with_a_key_on_every_page(shop: Shop) -> None:
    with opened(shop, "workers") as page:
        page.keyboard.press("/")
        page.wait_for_url(lambda url: "/jobs" in url)
        expect(page.locator("input[type=search]")).to_be_focused()


def test_an_audit_on_a_phone_has_its_details(shop: Shop) -> None:
    with opened(shop, "audit", PHONE_WIDTH) as page:
        row = page.locator("tr", has_text="save view")
        expect(row.get_by_role("link", name=f"queue:{LONG}")).to_be_visible()
        when, what = (row.locator(each).bounding_box() for each in (".n:last-child", ".did"))
        assert when is not None
        assert what is not None
        assert abs(when["y"] - what["y"]) < what["height"]
