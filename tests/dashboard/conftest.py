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


@pytest.fixture(params=["", PREFIX], ids=["root", "sub-path"])
def shop(request: pytest.FixtureRequest, served: tuple[Browser, Service, TaskQueue]) -> Shop:
    return Shop(*served, request.param)
