"""Modules by the names under which any process could import them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any


def main_module() -> str:
    """The name by which the main script could be imported.

    Without a file (in an interactive session) it is `__main__`.
    """
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name).removesuffix(".__main__")
    file = getattr(main, "__file__", None)
    return Path(file).stem if file else "__main__"


def importable_name(module: str) -> str:
    """A module's name; for the main script, the name under which its file can be imported."""
    return main_module() if module == "__main__" else module


def module_of(function: Callable[..., Any]) -> str:
    """The name by which a function's module could be imported."""
    return importable_name(function.__module__)


def module_here(name: str) -> ModuleType | None:
    """The module of this name, if this process has it."""
    return sys.modules.get("__main__" if name == main_module() else name)


def is_being_imported(module: ModuleType) -> bool:
    """Whether its code has not yet finished running."""
    return getattr(getattr(module, "__spec__", None), "_initializing", False)


def attribute(module: ModuleType, path: str, *default: Any) -> Any:
    """The object in a module under a dotted path; AttributeError, unless a default is given."""
    target: Any = module
    for part in path.split("."):
        target = getattr(target, part, *default)
    return target


def own_attribute(module: ModuleType, path: str) -> Any:
    """The object in a module, or in a class in it, under a dotted path; raises AttributeError.

    For untrusted names: nothing else is inspected, since looking up an attribute may run code.
    """
    target: Any = module
    for part in path.split("."):
        if target is not module and not isinstance(target, type):
            raise AttributeError(f"{path!r} leads through something that is not a class")
        target = getattr(target, part)
    return target


def can_be_imported(name: str) -> bool:
    """Whether a module exists, loaded or not. Its parent packages are imported."""
    if module_here(name) is not None:
        return True
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return False
