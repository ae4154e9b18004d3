"""The registry of tasks: which code a job may name."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from leasehold.errors import UnknownTaskError
from leasehold.worker.task import TaskRegistry


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A script that was started as `python shop.py`, with a plain function in it."""
    main = ModuleType("__main__")
    main.__file__ = "/srv/shop.py"
    exec("def note(text: str) -> str:\n    return text", main.__dict__)
    monkeypatch.setitem(sys.modules, "__main__", main)
    return main


@pytest.mark.usefixtures("script")
def test_a_plain_function_of_the_last_run_is_named_with_what_to_do() -> None:
    with pytest.raises(UnknownTaskError, match=r"is a function that is loaded here, but no task"):
        TaskRegistry().find("shop:note")
    with pytest.raises(UnknownTaskError, match=r"import_tasks=\['shop'\]"):
        TaskRegistry().find("shop:note")


def test_a_function_of_the_script_is_found_without_importing_the_script_again(
    script: ModuleType,
) -> None:
    found = TaskRegistry(allow_import=("shop",)).find("shop:note")
    assert found.func is script.__dict__["note"]
    assert "shop" not in sys.modules


@pytest.mark.parametrize("name", ["shop:missing", "json:dumps", "elsewhere:note"])
@pytest.mark.usefixtures("script")
def test_other_code_is_not_to_be_had(name: str) -> None:
    with pytest.raises(UnknownTaskError, match="no task"):
        TaskRegistry(allow_import=("reports",)).find(name)
