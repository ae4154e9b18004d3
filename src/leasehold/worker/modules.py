"""Modules by the names under which any process could import them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any


def main_module() -> str:
    """The name by which the script that was started could be imported.

    Where there is no file (an interactive session) it is `__main__`.
    """
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name).removesuffix(".__main__")
    file = getattr(main, "__file__", None)
    return Path(file).stem if file else "__main__"


def importable_name(module: str) -> str:
    """A module's name; for the script that was started, the name of its file too."""
    return main_module() if module == "__main__" else module


def module_of(function: Callable[..., Any]) -> str:
    """The name by which a function's module could be imported."""
    return importable_name(function.__module__)


def module_here(name: str) -> ModuleType | None:
    """The module of this name, if this process has it."""
    return sys.modules.get("__main__" if name == main_module() else name)


def is_being_imported(module: ModuleType) -> bool:
    """Whether its code has not yet run to its end."""
    return getattr(getattr(module, "__spec__", None), "_initializing", False)


def attribute(module: ModuleType, path: str, *default: Any) -> Any:
    """What stands in a module under a dotted path; AttributeError, unless there is a default."""
    target: Any = module
    for part in path.split("."):
        target = getattr(target, part, *default)
    return target


def own_attribute(module: ModuleType, path: str) -> Any:
    """What stands in a module, or in a class of it, under a dotted path; raises AttributeError.

    For names that strangers give: nothing else is looked into, as a look may run code.
    """
    target: Any = module
    for part in path.split("."):
        if target is not module and not isinstance(target, type):
            raise AttributeError(f"{path!r} leads through something that is not a class")
        target = getattr(target, part)
    return target


def can_be_imported(name: str) -> bool:
    """Whether there is such a module, loaded or not. The packages that it is in are imported."""
    if module_here(name) is not None:
        return True
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return False
