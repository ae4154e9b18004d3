"""Two dashboards on one host: a browser sends its cookies to every port."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from dashboard.shop import Shop, behind_proxy
from leasehold.connect import connect
from leasehold.dashboard import dashboard_routes
from service.conftest import serving


def log_in(page: Page, url: str, secret: str) -> None:
    page.goto(url)
    page.fill("#token", secret)
    page.get_by_role("button", name="Log in").click()
    expect(page.locator("h1")).to_have_text("Queues")


def test_who_is_in_one_may_be_in_the_other(shop: Shop) -> None:
    store = connect("memory://")
    with (
        serving(store, beside=dashboard_routes, wrap=behind_proxy) as beside,
        shop.chromium.new_context() as context,
    ):
        page = context.new_page()
        here = shop.url("queues")
        there = f"{beside.url}{shop.root}/dashboard/queues"
        log_in(page, here, shop.service.token("operator"))
        log_in(page, there, beside.token("operator"))
        page.goto(here)
        expect(page.locator("h1")).to_have_text("Queues")
        page.get_by_role("button", name="Log out").click()
        expect(page.locator("h1")).to_have_text("Log in")
        page.goto(there)
        expect(page.locator("h1")).to_have_text("Queues")
    store.close()


def test_servers_of_one_store_share_the_session(shop: Shop) -> None:
    with (
        serving(shop.queue.store, beside=dashboard_routes, wrap=behind_proxy) as beside,
        shop.chromium.new_context() as context,
    ):
        page = context.new_page()
        log_in(page, shop.url("queues"), shop.service.token("operator"))
        page.goto(f"{beside.url}{shop.root}/dashboard/queues")
        expect(page.locator("h1")).to_have_text("Queues")
