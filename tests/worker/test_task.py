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


SHOP = """
import json
import os
import subprocess
from functools import lru_cache, wraps
from json import dumps

def plain(x): return x

def checked(func):
    @wraps(func)
    def inside(*args): return func(*args)
    return inside

@checked
def decorated(x): return x

@lru_cache
def cached(x): return x

class Desk:
    @staticmethod
    def sell(x): return x
    def method(self): ...

class Watched:
    @property
    def door(self): raise SystemError("somebody looked")

desk, watched = Desk(), Watched()
"""


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("shop")
    exec(SHOP, module.__dict__)
    monkeypatch.setitem(sys.modules, "shop", module)
    return module


@pytest.mark.parametrize("path", ["plain", "decorated", "cached", "Desk.sell"])
@pytest.mark.usefixtures("shop")
def test_a_module_that_may_be_imported_offers_its_own_functions(path: str) -> None:
    assert TaskRegistry(allow_import=("shop",)).find(f"shop:{path}").func(7) == 7


@pytest.mark.parametrize(
    "path",
    ["os.system", "subprocess.getoutput", "json.dumps", "dumps", "Desk", "desk", "desk.method",
     "desk.sell", "watched.door", "plain.__globals__", "plain.__call__", "Desk.__init__",
     "Desk.mro", "__builtins__", "__loader__.load_module", "lru_cache"],
)  # fmt: skip
@pytest.mark.usefixtures("shop")
def test_what_a_module_has_from_elsewhere_is_not_its_own(path: str) -> None:
    """Or a job could run any program wherever a module of tasks imports `os`."""
    with pytest.raises(UnknownTaskError) as refused:
        TaskRegistry(allow_import=("shop",)).find(f"shop:{path}")
    assert "somebody looked" not in str(refused.value)


@pytest.mark.parametrize("name", ["note", "shop.note"])
@pytest.mark.usefixtures("script")
def test_a_name_as_other_queues_write_it_is_answered_with_ours(name: str) -> None:
    registry = TaskRegistry(allow_import=("shop",))
    registry.find("shop:note")
    with pytest.raises(UnknownTaskError, match="did you mean 'shop:note'"):
        registry.find(name)
