"""Schedules that were declared in code, and whose declaration was taken out of it."""

from __future__ import annotations

import logging
import sys
import textwrap
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from leasehold import Every, TaskQueue
from leasehold.queue import orphans

from .conftest import MakeQueue

Load = Callable[[str, TaskQueue, str], ModuleType]

BOTH = """
    @queue.every("1h")
    def report() -> None: ...

    @queue.cron("0 3 * * *", name="nightly")
    def tidy() -> None: ...
"""
ONE = """
    @queue.every("1h")
    def report() -> None: ...
"""


@pytest.fixture
def next_run(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Makes this process forget what it has declared, as if it were the program's next run."""
    return lambda: monkeypatch.setattr(orphans, "_declared_here", set())


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch, next_run: Callable[[], None]) -> Load:
    """Runs code as a module of this name."""
    next_run()

    def run(name: str, queue: TaskQueue, code: str) -> ModuleType:
        module = ModuleType(name)
        module.__dict__["queue"] = queue
        monkeypatch.setitem(sys.modules, name, module)
        exec(textwrap.dedent(code), module.__dict__)
        return module

    return run


def orphaned(queue: TaskQueue) -> list[str]:
    return [each.name for each in queue.schedules if each.draft.orphaned]


def test_a_schedule_that_its_module_declares_no_more_is_orphaned_when_workers_start(
    make_queue: MakeQueue,
    load: Load,
    next_run: Callable[[], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    queue = make_queue(num_workers=1)
    load("shop_v", queue, BOTH)
    queue.schedule("by hand", "work", Every(60))
    before = queue.schedules.get("nightly")
    queue.start()
    assert orphaned(queue) == []

    queue.shutdown()
    queue = make_queue(num_workers=1)
    if not len(queue.schedules):  # In memory each run has a store of its own.
        load("shop_v", queue, BOTH)
        before = queue.schedules.get("nightly")
    next_run()
    load("shop_v", queue, ONE)
    with caplog.at_level(logging.WARNING, "leasehold"):
        queue.start()
    assert orphaned(queue) == ["nightly"]
    assert "schedule 'nightly' is orphaned: shop_v no longer declares it" in caplog.text
    assert queue.schedules.get("nightly").next_at == before.next_at

    load("shop_v", queue, BOTH)
    assert orphaned(queue) == []


def test_pruning_removes_what_is_known_to_be_declared_no_more(
    make_queue: MakeQueue, load: Load, next_run: Callable[[], None]
) -> None:
    queue = make_queue(num_workers=0)
    load("shop_p", queue, BOTH)
    queue.schedule("by hand", "work", Every(60))
    queue.schedule("by call", "work", Every(60), declared_in="shop_p")
    queue.schedule("of another program", "work", Every(60), declared_in="elsewhere.tasks")
    queue.schedule("of a file that is gone", "work", Every(60), declared_in="json.gone")
    queue.schedule("of a file that is there", "work", Every(60), declared_in="json.tool")
    assert queue.prune_schedules() == []
    next_run()
    load("shop_p", queue, ONE)
    pruned = [each.name for each in queue.prune_schedules()]
    assert pruned == ["by call", "nightly", "of a file that is gone"]
    assert [each.name for each in queue.schedules] == [
        "by hand",
        "of a file that is there",
        "of another program",
        "shop_p:report",
    ]


def test_a_module_that_is_still_being_imported_may_declare_more(
    make_queue: MakeQueue, load: Load, next_run: Callable[[], None]
) -> None:
    queue = make_queue(num_workers=1)
    load("shop_i", queue, BOTH)
    next_run()
    module = load("shop_i", queue, ONE)
    module.__spec__ = ModuleSpec("shop_i", None)
    module.__spec__._initializing = True  # type: ignore[attr-defined]  # As `import` does.
    queue.start()
    assert orphaned(queue) == []
    # Whoever prunes says that everything is declared.
    assert [each.name for each in queue.prune_schedules()] == ["nightly"]
