"""What takes long is found out behind the pages, and told again meanwhile."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import Any

import pytest
from starlette.applications import Starlette

from dashboard.conftest import asked
from leasehold.core.model.job import Draft
from leasehold.dashboard.app import dashboard_routes
from leasehold.dashboard.recent import (
    KEPT_SECONDS,
    KEPT_SECONDS_MAX,
    OLD_SECONDS,
    Recent,
    rests,
)
from leasehold.dashboard.visit import Desk
from leasehold.env import Env, ManualClock
from leasehold.errors import StoreError
from leasehold.service.api import Api
from leasehold.stores.memory import MemoryStore

WAIT_SECONDS = 60


def test_what_is_quick_is_found_out_again_when_it_is_old() -> None:
    clock = ManualClock()
    recent = Recent(Env(clock=clock), 9)
    answers = iter(range(9))
    assert recent.get("x", lambda: next(answers)) == 0
    assert recent.get("x", lambda: next(answers)) == 0
    assert recent.get("y", lambda: next(answers)) == 1
    clock.advance(KEPT_SECONDS)
    assert recent.get("x", lambda: next(answers)) == 2


def test_nobody_waits_for_what_is_slow_and_was_known_before() -> None:
    clock = ManualClock()
    recent = Recent(Env(clock=clock), 9)
    answers = iter("ab")
    go_on, is_over = threading.Event(), threading.Event()
    go_on.set()

    def slow() -> str:
        assert go_on.wait(WAIT_SECONDS)
        clock.advance(1)
        is_over.set()
        return next(answers)

    assert recent.get("x", slow) == "a"
    go_on.clear()
    is_over.clear()
    clock.advance(KEPT_SECONDS_MAX)
    assert recent.get("x", slow) == "a"
    assert recent.get("x", slow) == "a", "one thread finds it out, not two"
    go_on.set()
    assert is_over.wait(WAIT_SECONDS)
    for thread in threading.enumerate():
        if thread.name == "leasehold-dashboard":
            thread.join(WAIT_SECONDS)
    assert recent.get("x", slow) == "b"


def test_where_no_thread_can_be_had_a_page_finds_out_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = ManualClock()
    recent = Recent(Env(clock=clock), 9)
    answers = iter("abc")

    def slow() -> str:
        clock.advance(1)
        return next(answers)

    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    assert recent.get("x", slow) == "a"
    clock.advance(KEPT_SECONDS_MAX)
    monkeypatch.setattr(threading.Thread, "start", refused)
    assert recent.get("x", slow) == "b"
    clock.advance(KEPT_SECONDS_MAX + OLD_SECONDS)
    # Nobody is waited for who never began.
    assert recent.get("x", slow) == "c"


def test_of_several_who_ask_at_once_one_finds_out() -> None:
    recent = Recent(Env(clock=ManualClock()), 9)
    has_begun, go_on = threading.Event(), threading.Event()
    asked: list[int] = []

    def slow() -> int:
        asked.append(1)
        has_begun.set()
        assert go_on.wait(WAIT_SECONDS)
        return len(asked)

    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(recent.get("x", slow)))]
    threads[0].start()
    assert has_begun.wait(WAIT_SECONDS)
    threads += [
        threading.Thread(target=lambda: found.append(recent.get("x", slow))) for _ in range(5)
    ]
    for thread in threads[1:]:
        thread.start()
    go_on.set()
    for thread in threads:
        thread.join(WAIT_SECONDS)
    assert (found, asked) == ([1] * 6, [1])


def test_whoever_waited_for_a_failure_finds_out_for_themselves() -> None:
    recent = Recent(Env(clock=ManualClock()), 9)

    def broken() -> int:
        raise StoreError("not now")

    with pytest.raises(StoreError):
        recent.get("x", broken)
    assert recent.get("x", lambda: 1) == 1
    recent.forget()
    assert recent.get("x", lambda: 2) == 2


def test_only_what_a_change_concerns_is_found_out_anew() -> None:
    recent = Recent(Env(clock=ManualClock()), 9)
    for what in "xy":
        recent.get(what, lambda: "before")
    recent.forget("x", "not known")
    assert [recent.get(what, lambda: "after") for what in "xy"] == ["after", "before"]


def test_who_gave_an_order_is_shown_what_it_did() -> None:
    env = Env(clock=ManualClock())
    with closing(MemoryStore(env=env)) as store:
        desk = Desk(Api(store, env=env, insecure=True))
        before = desk.findings()
        assert desk.findings() is before
        desk.order_was_given()
        assert desk.findings() is not before


def test_what_is_slow_and_was_known_long_ago_is_waited_for() -> None:
    clock = ManualClock()
    recent = Recent(Env(clock=clock), 9)
    answers = iter("ab")

    def slow() -> str:
        clock.advance(1)
        return next(answers)

    assert recent.get("x", slow) == "a"
    clock.advance(KEPT_SECONDS_MAX + OLD_SECONDS)
    assert recent.get("x", slow) == "b"


def test_what_was_begun_before_a_change_is_kept_for_nobody() -> None:
    recent = Recent(Env(clock=ManualClock()), 9)

    def overtaken() -> str:
        recent.forget()
        return "before"

    assert recent.get("x", overtaken) == "before"
    assert recent.get("x", lambda: "after") == "after"


def test_a_page_that_meets_an_old_finding_waits_for_the_one_under_way() -> None:
    clock = ManualClock()
    recent = Recent(Env(clock=clock), 9)
    has_begun, go_on = threading.Event(), threading.Event()
    go_on.set()
    made: list[int] = []

    def slow() -> int:
        has_begun.set()
        assert go_on.wait(WAIT_SECONDS)
        clock.advance(1)
        made.append(1)
        return len(made)

    assert recent.get("x", slow) == 1
    has_begun.clear()
    go_on.clear()
    clock.advance(KEPT_SECONDS_MAX)
    assert recent.get("x", slow) == 1
    assert has_begun.wait(WAIT_SECONDS)
    clock.advance(OLD_SECONDS)
    found: list[int] = []
    page = threading.Thread(target=lambda: found.append(recent.get("x", slow)))
    page.start()
    go_on.set()
    page.join(WAIT_SECONDS)
    assert found == [2]
    assert len(made) == 2, "it was found out once, not twice"


def test_who_is_shown_a_finding_again_is_told_when_there_is_a_new_one() -> None:
    clock = ManualClock()
    recent = Recent(Env(clock=clock), 10)

    def slow() -> int:
        clock.advance(1)
        return 1

    with rests() as noted:
        recent.get("quick", lambda: 1)
        recent.get("slow", slow)
    assert noted == []
    clock.advance(1)
    with rests() as noted:
        recent.get("quick", lambda: 2)
        recent.get("slow", slow)
    assert noted == [KEPT_SECONDS_MAX - 1]
    recent.get("quick", lambda: 2)
    with rests() as noted:
        recent.get("quick", lambda: 2)
    assert noted == [KEPT_SECONDS]


def test_finding_out_takes_no_more_than_a_small_share_of_a_core() -> None:
    clock = ManualClock()
    recent = Recent(Env(clock=clock), 10)
    asked = []

    def find_out() -> None:
        clock.advance(0.15)
        asked.append(clock.now())

    for _ in range(600):
        recent.get("five hundred queues", find_out)
        clock.advance(0.1)
    # It took 0.15 s at a time: of the minute and more that went by, hardly more than 2 %.
    assert 1 < len(asked) <= 10


def test_no_finding_is_shown_again_for_long_however_long_it_took() -> None:
    clock = ManualClock()
    recent = Recent(Env(clock=clock), 10)
    recent.get("very slow", lambda: clock.advance(60))
    with rests() as noted:
        recent.get("very slow", lambda: None)
    assert noted == [KEPT_SECONDS_MAX]
    clock.advance(KEPT_SECONDS_MAX + OLD_SECONDS)
    assert recent.get("very slow", lambda: "new") == "new"


def test_a_server_makes_the_dearest_figures_beforehand_and_shows_none_of_them() -> None:
    with closing(MemoryStore(env=Env(clock=ManualClock()))) as store:
        asked_for = []
        by_queue = store.metrics_by_queue

        def metrics_by_queue(**how: Any) -> Any:
            asked_for.append(threading.current_thread().name)
            return by_queue(**how)

        store.metrics_by_queue = metrics_by_queue  # type: ignore[method-assign]
        store.submit([Draft(id="job", task="t")])
        app = Starlette(routes=dashboard_routes(Api(store, env=Env(ManualClock()), insecure=True)))
        for thread in threading.enumerate():
            if thread.name == "leasehold-templates":
                thread.join(WAIT_SECONDS)
        assert asked_for == ["leasehold-templates"]
        store.submit([Draft(id="later", task="t", queue="later")])
        assert ">later<" in asked(app, "/dashboard/queues").text
        assert len(asked_for) == 2
