"""Names of tasks that cannot be right: found out at submit, where the queue can know."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from difflib import get_close_matches
from types import ModuleType
from typing import Any, Final

from leasehold.errors import UnknownTaskError
from leasehold.queue.task import main_module
from leasehold.worker.task import COMMAND_TASK

NEAR: Final = 0.8
"""How much two names have in common, from 0 to 1, if one is probably the other mistyped."""


def refuse_misnamed(name: str, known: Iterable[str], *, runs_here: bool) -> None:
    """Raise UnknownTaskError for a name that no worker would find.

    A name of the form `module:function` is looked up in the module, if that is loaded here. Any
    other name may be known to other programs only: it is refused where jobs run in this very
    process and one of its tasks has nearly the same name.
    """
    module_name, separator, path = name.partition(":")
    if separator:
        module = _loaded(module_name)
        if module is not None and not _has(module, path):
            names = [f"{module_name}:{each}" for each in vars(module) if each[:1] != "_"]
            raise UnknownTaskError(
                f"the module {module_name!r} has no {path!r}, so no worker could run "
                f"{name!r}{_meant(name, [*known, *names])}"
            )
    elif runs_here and name != COMMAND_TASK:
        near = _meant(name, known, NEAR)
        if near:
            raise UnknownTaskError(
                f"this queue has no task {name!r}{near} A task of another program is "
                "submitted through a TaskQueue with num_workers=0"
            )


def _meant(name: str, known: Iterable[str], nearness: float = 0.6) -> str:
    near = get_close_matches(name, list(known), n=1, cutoff=nearness)
    return f": did you mean {near[0]!r}?" if near else ""


def _loaded(name: str) -> ModuleType | None:
    """The module of this name, if it is here and done with being imported."""
    module = sys.modules.get("__main__" if name == main_module() else name)
    is_begun = getattr(getattr(module, "__spec__", None), "_initializing", False)
    return None if is_begun else module


def _has(module: ModuleType, path: str) -> bool:
    target: Any = module
    try:
        for part in path.split("."):
            target = getattr(target, part)
    except AttributeError:
        return False
    return True
