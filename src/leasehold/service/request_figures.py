"""Figures of this server process's requests: how long they took, and which were refused.

These figures belong to the process and start again with it, unlike those of the store.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leasehold.env import Clock
from leasehold.observe.exposition import Family, Sample, histogram

BOUNDS_SECONDS: Final = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30,
)  # fmt: skip
NO_ENDPOINT: Final = "other"
"""The endpoint for requests without a route, since clients can invent any number of paths."""
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})


class RequestFigures:
    """Counts of requests by endpoint. Only the event loop's thread writes them."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._counts: defaultdict[tuple[str, str], list[int]] = defaultdict(
            lambda: [0] * (len(BOUNDS_SECONDS) + 1)
        )
        self._seconds: Counter[tuple[str, str]] = Counter()
        self._errors: Counter[tuple[str, int]] = Counter()

    def count(self, endpoint: str, method: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        key = endpoint, method
        self._counts[key][bisect_left(BOUNDS_SECONDS, seconds)] += 1
        self._seconds[key] += seconds  # type: ignore[assignment]  # a sum, not a count
        if status >= 400:
            self._errors[endpoint, status] += 1

    def families(self) -> Iterator[Family]:
        """For Prometheus."""
        yield Family(
            "api_request_seconds",
            "histogram",
            "How long requests took, long polls included; of this process, since it began.",
            [
                sample
                for (endpoint, method), counts in sorted(self._counts.copy().items())
                for sample in histogram(
                    {"endpoint": endpoint, "method": method},
                    BOUNDS_SECONDS,
                    counts,
                    self._seconds[endpoint, method],
                )
            ],
        )
        yield Family(
            "api_errors_total",
            "counter",
            "Requests that were answered with an error; of this process, since it began.",
            [
                Sample({"endpoint": endpoint, "status_code": str(status)}, errors)
                for (endpoint, status), errors in sorted(self._errors.copy().items())
            ],
        )


class RequestMeter:
    """Counts every request that passes, including those refused later."""

    def __init__(self, app: ASGIApp, figures: RequestFigures, routes: Iterable[Route]) -> None:
        self._app = app
        self._figures = figures
        self._paths: Mapping[Any, str] = {route.endpoint: route.path for route in routes}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = self._figures.clock.monotonic()
        # If the service failed before sending anything, the caller gets an internal error.
        status = 500

        async def send_counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_counted)
        finally:
            # The router leaves behind whom it found.
            endpoint = self._paths.get(scope.get("endpoint"), NO_ENDPOINT)
            method = scope["method"] if scope["method"] in METHODS else NO_ENDPOINT
            self._figures.count(endpoint, method, status, self._figures.clock.monotonic() - began)
