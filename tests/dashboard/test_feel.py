"""What it feels like: rows under the pointer, the focus, keys, motion; in a real browser."""

from __future__ import annotations

import re
from typing import Final

from playwright.sync_api import Page, expect

from dashboard.shop import Shop

MORE: Final = 40


def settled(page: Page) -> None:
    """The page follows the store, and no look of it is under way."""
    expect(page.locator("#live")).to_have_text("live")


def names(page: Page) -> list[str]:
    return page.locator("#queues tbody tr").evaluate_all("rows => rows.map(row => row.dataset.row)")


def top_of(page: Page, row: str) -> float:
    """Where a row stands; a locator may meet the moment in which its table is renewed."""
    return float(
        page.evaluate(
            "row => document.querySelector(`tr[data-row='${row}']`).getBoundingClientRect().top",
            row,
        )
    )


def test_rows_of_queues_hold_still_under_the_pointer_and_are_sorted_elsewhere(shop: Shop) -> None:
    first, second = (f"{name}{shop.root.replace('/', '-')}" for name in ("calm", "wild"))
    for name in (first, second):
        shop.queue.submit("a", queue=name)
    shop.queue.submit("a", queue=first)
    with shop.page("operator") as page:
        page.goto(shop.url("queues"))
        settled(page)
        before = names(page)
        assert before.index(first) < before.index(second)
        row = page.locator(f'tr[data-row="{first}"]')
        row.hover()
        place = top_of(page, first)
        for _ in range(MORE):
            shop.queue.submit("a", queue=second)
        late = f"late{shop.root.replace('/', '-')}"
        shop.queue.submit("a", queue=late)
        expect(page.locator(f'tr[data-row="{second}"] td').nth(2)).to_have_text(str(MORE + 1))
        # Its figures are new, and no row has moved; a new one came last.
        expect(page.locator("#queues tbody tr").last).to_have_attribute("data-row", late)
        assert names(page) == [*before, late]
        assert top_of(page, first) == place
        page.locator("h1").hover()
        shop.queue.submit("a", queue=late)
        expect(page.locator(f'tr[data-row="{late}"] td').nth(2)).to_have_text("2")
        after = names(page)
        assert after.index(second) < after.index(first)


def test_a_page_that_looks_again_leaves_the_focus_and_the_chosen_row(shop: Shop) -> None:
    name = f"focused{shop.root.replace('/', '-')}"
    shop.queue.submit("a", queue=name)
    with shop.page("operator") as page:
        page.goto(shop.url("queues"))
        settled(page)
        row = page.locator(f'tr[data-row="{name}"]')
        while row.get_attribute("aria-selected") is None:
            page.keyboard.press("j")
        row.locator("a").focus()
        shop.queue.submit("a", queue=name)
        expect(row.locator("td").nth(2)).to_have_text("2")
        expect(row.locator("a")).to_be_focused()
        expect(row).to_have_attribute("aria-selected", "true")
        page.keyboard.press("o")
        page.wait_for_url(lambda url: f"queue?name={name}" in url)


def test_single_keys_can_be_turned_off_for_good(shop: Shop) -> None:
    shop.queue.submit("a", queue="off")
    with shop.page("operator") as page:
        page.goto(shop.url("jobs?q=queue:off"))
        page.keyboard.press("?")
        page.get_by_label("disable keyboard shortcuts").check()
        page.keyboard.press("Escape")
        for _ in range(2):
            page.keyboard.press("j")
            page.keyboard.press("?")
            page.keyboard.press("/")
            expect(page.locator("tr[aria-selected]")).to_have_count(0)
            expect(page.locator("#keys")).to_be_hidden()
            expect(page.locator("input[type=search]")).not_to_be_focused()
            page.reload()
        page.get_by_role("button", name="Keys").click()
        page.get_by_label("disable keyboard shortcuts").uncheck()
        page.get_by_role("button", name="Close").click()
        page.keyboard.press("j")
        expect(page.locator("tr[aria-selected]")).to_have_count(1)


def test_the_focus_goes_through_a_page_in_its_order_and_is_seen(shop: Shop) -> None:
    with shop.page("operator") as page:
        page.goto(shop.url("queues"))
        page.keyboard.press("Tab")
        expect(page.get_by_text("Skip to the content")).to_be_focused()
        expect(page.get_by_text("Skip to the content")).to_be_in_viewport()
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        # The skip link leads past the navigation, to the first thing of the page itself.
        assert page.evaluate("document.activeElement.closest('main') !== null")
        style = "(({outlineStyle, outlineWidth}) => [outlineStyle, outlineWidth])"
        seen = page.evaluate(f"{style}(getComputedStyle(document.activeElement))")
        assert seen == ["solid", "2px"]


def test_nothing_moves_for_who_asked_for_less_motion(shop: Shop) -> None:
    name = f"moved{shop.root.replace('/', '-')}"
    job = shop.queue.submit("a", queue=name)
    for motion, animation in (("no-preference", "flash"), ("reduce", "none")):
        with shop.page("operator", reduced_motion=motion) as page:
            page.goto(shop.url(f"jobs?q=queue:{name}"))
            settled(page)
            if motion == "reduce":
                shop.queue.replay(job.id)
            else:
                shop.queue.cancel(job)
            cell = page.locator("td.flash").first
            expect(cell).to_be_attached()
            assert cell.evaluate("cell => getComputedStyle(cell).animationName") == animation


def test_a_lease_is_seen_to_run_out(shop: Shop) -> None:
    job = shop.queue.submit("a", queue="counted")
    assert shop.queue.lease("counted", lease_seconds=300) is not None
    for has_scripts in (True, False):
        with shop.page("operator", java_script_enabled=has_scripts) as page:
            page.goto(shop.url(f"job?id={job.id}"))
            left = page.locator(".lease [data-countdown]")
            expect(left).to_have_text(re.compile(r"in 4m\d\ds"))
            if has_scripts:
                expect(left).not_to_have_text(left.inner_text())
