"""Hints for listeners far away: who waits for work is not woken by the end of every job."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from leasehold.connect import connect
from leasehold.core.contract.store import Store
from leasehold.core.contract.wire import HintsSince, Verb, _verb
from leasehold.core.model.job import Draft
from leasehold.core.model.records import WorkListener
from leasehold.env import SYSTEM
from leasehold.service import store_calls
from leasehold.service.caller import Caller
from leasehold.service.hints import IDS_MAX, KEPT_MAX, HintLine
from leasehold.service.store_calls import arguments_of
from service.conftest import WAIT, serving


@pytest.fixture
def store() -> Iterator[Store]:
    store = connect("memory://")
    yield store
    store.close()


async def begun(line: HintLine) -> str:
    return (await line.after(None, 0)).cursor


def test_the_end_of_a_job_is_no_news_to_who_waits_for_work(store: Store) -> None:
    async def main() -> None:
        line = HintLine(store, SYSTEM)
        cursor = await begun(line)
        everything = asyncio.ensure_future(line.after(cursor, WAIT))
        work = asyncio.ensure_future(line.after(cursor, WAIT, ends=False))
        await asyncio.sleep(0)
        line.on_ended(["a"])
        assert (await everything).ended == ["a"]
        assert not work.done()
        # Also to who comes later.
        assert await line.after(cursor, 0, ends=False) == HintsSince(cursor)
        line.on_cancel_requested(["b"])
        told = await work
        assert (told.is_ready, told.ended, told.cancel_requested) == (False, [], ["b"])
        line.close()

    asyncio.run(main())


def test_a_wake_on_its_way_to_others_leaves_out_nobody(store: Store) -> None:
    async def main() -> None:
        line = HintLine(store, SYSTEM)
        cursor = await begun(line)
        everything = asyncio.ensure_future(line.after(cursor, WAIT))
        work = asyncio.ensure_future(line.after(cursor, WAIT, ends=False))
        await asyncio.sleep(0)
        line.on_ended(["a"])
        line.on_ready()  # before the loop has come to wake anybody
        assert (await work).is_ready
        assert (await everything).is_ready
        line.close()

    asyncio.run(main())


def test_ends_that_were_forgotten_are_nothing_to_who_waits_for_work(store: Store) -> None:
    async def main() -> None:
        line = HintLine(store, SYSTEM)
        cursor = await begun(line)
        for number in range(KEPT_MAX + 1):
            line.on_ended([str(number)])
        assert await line.after(cursor, 0, ends=False) == HintsSince(cursor)
        told = await line.after(cursor, 0)
        assert (told.is_ready, told.ended, told.cancel_requested) == (False, None, [])
        line.close()

    asyncio.run(main())


def test_the_end_of_a_service_ends_both_waits(store: Store) -> None:
    async def main() -> None:
        line = HintLine(store, SYSTEM)
        cursor = await begun(line)
        waits = [
            asyncio.ensure_future(line.after(cursor, WAIT, ends=ends)) for ends in (False, True)
        ]
        await asyncio.sleep(0)
        line.close()
        assert await asyncio.gather(*waits) == [HintsSince(cursor)] * 2

    asyncio.run(main())


@pytest.mark.parametrize("number", ["9" * 5000, "-1", "", "x", "²"])
def test_a_cursor_that_makes_no_sense_means_look_at_everything(store: Store, number: str) -> None:
    async def main() -> None:
        line = HintLine(store, SYSTEM)
        origin = (await begun(line)).partition(":")[0]
        told = await line.after(f"{origin}:{number}", 0)
        assert (told.is_ready, told.ended, told.cancel_requested) == (True, None, None)
        line.close()

    asyncio.run(main())


class Ears:
    """Remembers the jobs whose end it was told."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    def on_ready(self) -> None:
        pass

    def on_ended(self, job_ids: Collection[str] | None) -> None:
        assert job_ids is None or len(job_ids) <= IDS_MAX
        self.ended.set()

    def on_cancel_requested(self, job_ids: Collection[str] | None) -> None:
        pass


class WorkEars(WorkListener):
    """Says when there may be work, and when a cancellation was asked for."""

    def __init__(self) -> None:
        self.ready = threading.Event()
        self.cancelled = threading.Event()

    def on_ready(self) -> None:
        self.ready.set()

    def on_cancel_requested(self, job_ids: Collection[str] | None) -> None:
        self.cancelled.set()


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_listeners_of_both_kinds_hear_their_hints_from_afar(store: Store, scheme: str) -> None:
    with serving(store, grpc_port=0) as service:
        url = service.url if scheme == "http" else service.grpc_url
        far = connect(url.replace("://", f"://{service.token()}@"))
        work, everything = WorkEars(), Ears()
        far.subscribe(work)
        far.subscribe(everything)
        store.submit([Draft(id="a", task="t")])
        assert work.ready.wait(WAIT)
        far.cancel(["a"], reason="no", actor="me")
        assert everything.ended.wait(WAIT)
        far.close()


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_a_server_that_is_older_than_its_client_gives_hints_all_the_same(
    store: Store, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = _verb("hints", {"cursor": (str | None, None), "wait_seconds": (float, 0.0)}, HintsSince)

    def as_before(_: Verb, caller: Caller, body: bytes) -> dict[str, Any]:
        return {**arguments_of(older, caller, body), "ends": True}

    monkeypatch.setattr(store_calls, "arguments_of", as_before)
    with serving(store, grpc_port=0) as service:
        url = service.url if scheme == "http" else service.grpc_url
        far = connect(url.replace("://", f"://{service.token()}@"))
        work = WorkEars()
        far.subscribe(work)
        store.submit([Draft(id="a", task="t")])
        assert work.ready.wait(WAIT)
        far.close()


def test_a_store_that_takes_its_time_to_listen_holds_up_nobody_else() -> None:
    """PostgreSQL that is away: `subscribe` returns after seconds, and not on the event loop."""
    store = connect("memory://")
    may_listen, subscribe = threading.Event(), store.subscribe

    def slowly(listener: Any) -> Any:
        assert may_listen.wait(WAIT)
        return subscribe(listener)

    store.subscribe = slowly  # type: ignore[method-assign]
    with serving(store) as service:
        client, other = service.client("consumer"), service.anonymous()
        with ThreadPoolExecutor(1) as pool:
            asked = {"worker": "w", "wait_seconds": 0}
            poll = pool.submit(client.post, "/api/v1/leases", json=asked)
            try:
                for _ in range(3):
                    assert other.get("/healthz").status_code == 200
                assert not poll.done()
            finally:
                may_listen.set()
            assert poll.result(WAIT).json()["leases"] == []
    store.close()
