"""A real server with the dashboard, and a client that behaves like a browser's forms."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser

from dashboard.shop import PREFIX, Shop, behind_proxy, works
from leasehold import Every, NewJob, Workflow
from leasehold.connect import connect
from leasehold.dashboard import dashboard_routes
from leasehold.dashboard.session import Sessions
from leasehold.queue.facade import TaskQueue
from service.conftest import Service, serving
from support.browser import browser
from support.effort import THOROUGH


class People:
    """A service with the dashboard, and who looks at it."""

    def __init__(self, service: Service, queue: TaskQueue) -> None:
        self.service = service
        self.queue = queue
        self.store = service.store
        self.cookie = Sessions(service.api).cookie_name

    def somebody(self, *roles: str, **options: object) -> httpx.Client:
        """Who logged in with a new token."""
        client = self.nobody()
        secret = self.service.token(*roles, **options)  # type: ignore[arg-type]
        answer = client.post("login", data={"token": secret})
        assert answer.status_code == 303, answer.text
        return client

    def nobody(self) -> httpx.Client:
        """Who has not logged in; their forms are sent from our own pages."""
        client = self.service.anonymous(**{"Sec-Fetch-Site": "same-origin"})
        client.base_url = httpx.URL(f"{self.service.url}/dashboard/")
        return client


def asked(app: Any, path: str, cookies: dict[str, str] | None = None) -> httpx.Response:
    """The answer of an application that nobody serves."""

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://localhost", cookies=cookies
        ) as client:
            return await client.get(path)

    return asyncio.run(ask())


@pytest.fixture(scope="module")
def people() -> Iterator[People]:
    """One server for the tests of a file: each makes queues of its own."""
    store = connect("memory://")
    with serving(store, beside=dashboard_routes) as service:
        yield People(service, TaskQueue(store, num_workers=0))
    store.close()


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Browser, Service, TaskQueue]]:
    """One browser and one server for all of these tests."""
    store = connect("memory://")
    queue = TaskQueue(store, num_workers=0)
    queue.task(name="shop:works")(works)
    with browser() as chromium, serving(store, beside=dashboard_routes, wrap=behind_proxy) as one:
        queue.create_queue("mail", max_depth=10)
        queue.schedule("ping", "net:ping", Every(3600), queue="mail")
        flow = Workflow("flow-1")
        flow.add("first", NewJob("etl:fetch", queue="flow"))
        flow.add("second", NewJob("etl:load", queue="flow"), after="first")
        queue.submit_workflow(flow)
        yield chromium, one, queue
    store.close()


PLACES = {"root": "", "sub-path": PREFIX}
AT_BOTH = {
    "test_every_page_is_silent_accessible_and_fits_a_phone",
    "test_a_dead_job_is_replayed_and_seen_to_complete_live",
    "test_an_order_is_asked_about_and_can_be_left",
    "test_without_scripts_everything_can_be_read_and_done",
}
"""Each kind of way to the server: pages, forms, the stream, the answers to a script."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Behind a proxy every request must begin with its prefix: what holds there holds at the root.

    So that is where the rest is tried, but for a thorough run.
    """
    if "shop" in metafunc.fixturenames:
        at_both = THOROUGH or metafunc.function.__name__ in AT_BOTH
        places = list(PLACES) if at_both else ["sub-path"]
        metafunc.parametrize("shop", [PLACES[each] for each in places], ids=places, indirect=True)


@pytest.fixture
def shop(request: pytest.FixtureRequest, served: tuple[Browser, Service, TaskQueue]) -> Shop:
    return Shop(*served, request.param)
