"""All who follow the change feed of a service share their looks at it."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections import Counter
from contextlib import ExitStack

import grpc
import httpx
import pytest

from leasehold.connect import connect
from leasehold.core.model.changes import Changes
from leasehold.core.model.job import Draft
from leasehold.errors import StoreUnavailableError, UnauthenticatedError
from leasehold.service.api import Api
from leasehold.service.caller import ANYBODY, Caller
from leasehold.service.following import (
    FOLLOWERS_OF_TOKEN_MAX,
    LOOKS_BETWEEN_CHECKS,
    first_look,
    looks,
)
from leasehold.stores.memory import MemoryStore
from service.conftest import serving

WAIT_SECONDS = 60
FOLLOWERS = 20
LOOKS = 3


class AwayStore(MemoryStore):
    """Its feed cannot be read once its followers have gone."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.may_fail = threading.Event(), threading.Event()

    def changes(self, cursor: str | None = None, *, limit: int = 1000) -> Changes:
        self.asked.set()
        assert self.may_fail.wait(WAIT_SECONDS)
        raise StoreUnavailableError("away")


def test_a_look_that_fails_when_nobody_follows_any_more_is_no_unknown_error() -> None:
    unknown: list[object] = []

    async def scene() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: unknown.append(context))
        store = AwayStore()
        shared = Api(store, insecure=True).shared_looks
        follower = asyncio.ensure_future(shared.next_after("cursor"))
        assert await asyncio.to_thread(store.asked.wait, WAIT_SECONDS)
        [look] = shared._found.values()
        follower.cancel()
        await asyncio.wait([follower])
        store.may_fail.set()
        await asyncio.wait([look])
        shared._begin_moment()
        del look
        gc.collect()

    asyncio.run(scene())
    assert unknown == []


class CountingStore(MemoryStore):
    """Counts the looks at its feed."""

    looks = 0

    def changes(self, cursor: str | None = None, *, limit: int = 1000) -> Changes:
        self.looks += 1
        return super().changes(cursor, limit=limit)


def anybody() -> Caller:
    return ANYBODY


async def follow(api: Api, first: Changes, news: list[Changes]) -> None:
    feed = looks(api, anybody, first)
    async for each in feed:
        news.append(each)
        if len(news) > LOOKS:
            await feed.aclose()  # type: ignore[attr-defined]
            return


def test_twenty_followers_cost_one_look_at_a_time_and_miss_nothing() -> None:
    async def scene() -> tuple[int, list[list[Changes]]]:
        store = CountingStore()
        api = Api(store, insecure=True)
        first = await first_look(api, anybody, None)
        store.submit([Draft(id="job", task="t")])
        heard: list[list[Changes]] = [[] for _ in range(FOLLOWERS)]
        before = store.looks
        async with asyncio.timeout(WAIT_SECONDS):
            await asyncio.gather(*(follow(api, first, each) for each in heard))
        assert not api.followers
        return store.looks - before, heard

    looked, heard = asyncio.run(scene())
    assert looked <= 2 * LOOKS, "each of them alone would have looked as often"
    for news in heard:
        [only] = [change for each in news for change in each.changes]
        assert only.name == "job"


def test_who_is_not_let_in_any_more_follows_no_longer() -> None:
    async def scene() -> int:
        api = Api(MemoryStore(), insecure=True)
        first = await first_look(api, anybody, None)

        def nobody() -> Caller:
            raise UnauthenticatedError("revoked")

        async with asyncio.timeout(WAIT_SECONDS):
            return len([news async for news in looks(api, nobody, first)])

    assert asyncio.run(scene()) == LOOKS_BETWEEN_CHECKS


def test_one_token_leaves_room_for_others() -> None:
    with serving(connect("memory://")) as service, ExitStack() as open_streams:
        greedy = service.client(secret=service.token("observer", name="greedy"))
        taken = [
            open_streams.enter_context(greedy.stream("GET", "/api/v1/events")).iter_lines()
            for _ in range(FOLLOWERS_OF_TOKEN_MAX)
        ]
        for lines in taken:
            assert next(lines).startswith("id: ")
        with greedy.stream("GET", "/api/v1/events") as refused:
            assert refused.status_code == 429
            assert "with token 'greedy'" in refused.read().decode()
        other = service.client(secret=service.token("observer", name="other"))
        with other.stream("GET", "/api/v1/events") as answer:
            assert answer.status_code == 200


def test_requests_that_come_together_find_no_more_room_than_there_is() -> None:
    async def ask(url: str, secret: str) -> int:
        async with httpx.AsyncClient(timeout=WAIT_SECONDS) as client:
            headers = {"Authorization": f"Bearer {secret}"}
            async with client.stream("GET", url, headers=headers) as answer:
                counted[answer.status_code] += 1
                if counted.total() == 2 * FOLLOWERS_OF_TOKEN_MAX:
                    everybody.set()
                await everybody.wait()
                return answer.status_code

    async def scene(url: str, secret: str) -> None:
        await asyncio.gather(*(ask(url, secret) for _ in range(2 * FOLLOWERS_OF_TOKEN_MAX)))

    counted: Counter[int] = Counter()
    everybody = asyncio.Event()
    with serving(connect("memory://")) as service:
        asyncio.run(scene(f"{service.url}/api/v1/events", service.token("observer")))
    assert counted[200] == FOLLOWERS_OF_TOKEN_MAX


def test_a_service_that_ends_keeps_no_follower_waiting() -> None:
    async def scene() -> None:
        api = Api(MemoryStore(), insecure=True)
        first = await first_look(api, anybody, None)
        async with asyncio.timeout(WAIT_SECONDS):
            async for _ in looks(api, anybody, first):
                api.stopping.set()

    asyncio.run(scene())


@pytest.mark.parametrize("face", ["http", "grpc"])
def test_a_stream_ends_in_order_while_the_store_is_away(
    face: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(_: str) -> Changes:
        raise StoreUnavailableError("it is away")

    store = connect("memory://")
    with serving(store, grpc_port=0) as service:
        secret = service.token("observer")
        if face == "http":
            client = service.client(secret=secret)
            with client.stream("GET", "/api/v1/events") as answer:
                lines = answer.iter_lines()
                assert next(lines).startswith("id: ")
                monkeypatch.setattr(store, "changes", away)
                assert not any(line.startswith("id: ") for line in lines)
            assert client.get("/api/v1/events").status_code == 503
        else:
            with grpc.insecure_channel(service.grpc_url.removeprefix("grpc://")) as channel:
                follow = channel.unary_stream("/leasehold.v1.Leasehold/Events")
                call = follow(b"", metadata=(("authorization", f"Bearer {secret}"),))
                next(call)
                monkeypatch.setattr(store, "changes", away)
                with pytest.raises(grpc.RpcError) as raised:
                    next(call)
                assert raised.value.code() is grpc.StatusCode.UNAVAILABLE
    store.close()
    assert "Traceback" not in caplog.text
