"""What takes long is found out behind the pages, and told again meanwhile."""

from __future__ import annotations

import threading

from leasehold.dashboard.visit import KEPT_REST, KEPT_SECONDS, Desk
from leasehold.env import Env, ManualClock
from leasehold.service.api import Api
from leasehold.stores.memory import MemoryStore

WAIT_SECONDS = 60


def test_what_is_quick_is_found_out_again_when_it_is_old() -> None:
    clock = ManualClock()
    desk = Desk(Api(MemoryStore(), env=Env(clock=clock)))
    answers = iter(range(9))
    assert desk.lately("x", lambda: next(answers)) == 0
    assert desk.lately("x", lambda: next(answers)) == 0
    assert desk.lately("y", lambda: next(answers)) == 1
    clock.advance(KEPT_SECONDS)
    assert desk.lately("x", lambda: next(answers)) == 2


def test_nobody_waits_for_what_is_slow_and_was_known_before() -> None:
    clock = ManualClock()
    desk = Desk(Api(MemoryStore(), env=Env(clock=clock)))
    answers = iter("ab")
    go_on, is_over = threading.Event(), threading.Event()
    go_on.set()

    def slow() -> str:
        assert go_on.wait(WAIT_SECONDS)
        clock.advance(1)
        is_over.set()
        return next(answers)

    assert desk.lately("x", slow) == "a"
    go_on.clear()
    is_over.clear()
    clock.advance(KEPT_REST)
    assert desk.lately("x", slow) == "a"
    assert desk.lately("x", slow) == "a", "one thread finds it out, not two"
    go_on.set()
    assert is_over.wait(WAIT_SECONDS)
    for thread in threading.enumerate():
        if thread.name == "leasehold-dashboard":
            thread.join(WAIT_SECONDS)
    assert desk.lately("x", slow) == "b"
