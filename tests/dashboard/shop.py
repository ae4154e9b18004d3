"""A shop whose jobs are looked at in a real browser, at the root and behind a proxy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from playwright.sync_api import Browser, Page, expect
from starlette.types import ASGIApp, Receive, Scope, Send

from leasehold import TaskQueue
from leasehold.core.model.tokens import Role
from service.conftest import Service
from support.browser import WAIT_MS

PREFIX = "/a/b"
LOUD = ("error", "warning")
expect.set_options(timeout=WAIT_MS)


def behind_proxy(app: ASGIApp) -> ASGIApp:
    """The application behind a proxy that cuts the prefix off, and says nothing about it."""

    async def proxied(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(PREFIX):
            path, raw = scope["path"][len(PREFIX) :], scope["raw_path"][len(PREFIX) :]
            scope = {**scope, "path": path, "raw_path": raw}
        await app(scope, receive, send)

    return proxied


@dataclass
class Shop:
    """A served store with some jobs in it, and a browser to look at it."""

    chromium: Browser
    service: Service
    queue: TaskQueue
    root: str

    def url(self, page: str) -> str:
        return f"{self.service.url}{self.root}/dashboard/{page}"

    @contextmanager
    def page(self, *roles: Role, noise: str = "", **options: Any) -> Iterator[Page]:
        """A page of somebody who logged in; the console must stay silent, but for this noise."""
        context = self.chromium.new_context(**options)
        context.set_default_timeout(WAIT_MS)
        page = context.new_page()
        said: list[str] = []
        page.on("console", lambda line: said.append(line.text) if line.type in LOUD else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: said.append(f"dialog: {dialog.message}"))
        page.on("request", lambda sent: said.append(sent.url) if self._is_foreign(sent) else None)
        secret = self.service.token(*(roles or ("admin",)))
        if options.get("java_script_enabled") is False:
            page.goto(self.url("login"))
            page.fill("#token", secret)
            page.click("button.main")
        else:
            ours = {"Sec-Fetch-Site": "same-origin"}
            context.request.post(self.url("login"), form={"token": secret}, headers=ours)
        yield page
        context.close()
        # A page that answers 400 or 404 is told as an error to load it.
        expected = ("Failed to load resource", noise or "Failed to load resource")
        assert [each for each in said if not any(words in each for words in expected)] == []

    def _is_foreign(self, request: Any) -> bool:
        return not request.url.startswith(f"{self.service.url}{self.root}/")

    def dead(self, queue: str) -> str:
        """The id of a dead job of a task that works by now."""
        job = self.queue.submit(works, queue=queue)
        lease = self.queue.lease(queue)
        assert lease is not None
        self.queue.nack(lease, "the card was refused", requeue=False)
        return job.id


def works() -> str:
    return "done"


def until(condition: Callable[[], bool]) -> None:
    """Wait for what happens on the server, where the browser cannot look."""
    end = time.monotonic() + WAIT_MS / 1000
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)
