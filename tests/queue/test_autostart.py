"""Which processes run an application's jobs without being told to."""

from __future__ import annotations

import multiprocessing.process
import sys
from types import ModuleType

import pytest

from leasehold import TaskQueue
from leasehold.queue.autostart import VARIABLE, Autostart, is_the_application

from .conftest import MakeQueue


@pytest.fixture
def started_as(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script that was started, as far as anybody can see."""
    main = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    return main


@pytest.mark.parametrize(
    ("program", "is_it"),
    [
        ("/srv/shop.py", True),
        ("/srv/shop/__main__.py", False),  # Started as a file, it is called "__main__".
        ("/srv/manage.py", False),
        ("/venv/bin/pytest", False),
        ("/venv/bin/uvicorn", True),
        ("/venv/bin/gunicorn", True),
    ],
)
def test_the_program_itself_and_web_servers_are_the_application(
    program: str, is_it: bool, started_as: ModuleType
) -> None:
    started_as.__file__ = program
    assert is_the_application("shop.tasks") is is_it


def test_an_interactive_session_is_not(started_as: ModuleType) -> None:
    assert not is_the_application("__main__")
    assert not is_the_application("shop")


def test_a_process_of_a_pool_is_not(
    started_as: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    started_as.__file__ = "/srv/shop.py"
    monkeypatch.setattr(multiprocessing.process, "parent_process", object)
    assert not is_the_application("shop")


def begun(wanted: bool | None) -> bool:
    autostart = Autostart(lambda: None, wanted)
    autostart.begin("somewhere.tasks")
    autostart.cancel()
    return autostart.is_begun


def test_it_can_be_switched_in_the_code_and_in_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert (begun(None), begun(True), begun(False)) == (False, True, False)
    monkeypatch.setenv(VARIABLE, "1")
    assert begun(False)
    monkeypatch.setenv(VARIABLE, "0")
    assert not begun(True)
    monkeypatch.setenv(VARIABLE, "no")
    with pytest.raises(ValueError, match="LEASEHOLD_AUTOSTART must be 1 or 0, not 'no'"):
        TaskQueue("memory://")


def test_switched_off_only_start_starts_the_workers(make_queue: MakeQueue) -> None:
    queue = make_queue(num_workers=1, autostart=False)
    queue.task(name="work")(int)
    job = queue.submit("work")
    assert queue.get(job).status.value == "pending"
    assert queue.workers() == []
    queue.start()
    assert job.result(timeout=60) == 0
