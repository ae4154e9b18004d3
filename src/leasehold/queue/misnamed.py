"""Names of tasks that are probably wrong: refused at submit where the queue can know."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from types import ModuleType
from typing import Final

from leasehold.errors import UnknownTaskError
from leasehold.worker.modules import attribute, is_being_imported, module_here
from leasehold.worker.safelog import safe_logger
from leasehold.worker.task import COMMAND_TASK

logger = safe_logger("leasehold")

NEAR: Final = 0.8
"""How much two names have in common, from 0 to 1, if one is probably the other mistyped."""


class NameCheck:
    """Looks at the names under which one TaskQueue submits jobs, and has no task."""

    def __init__(self) -> None:
        self._warned: set[str] = set()

    def check(self, name: str, known: Iterable[str]) -> None:
        """Raise UnknownTaskError for a name of the form `module:function` that is not there.

        That is known of a module that is loaded here. Any other name may be a task of another
        program: if it is nearly that of a task here, a warning is logged, once.
        """
        module_name, separator, path = name.partition(":")
        module = module_here(module_name) if separator else None
        if module is not None and not is_being_imported(module):
            if _has(module, path):
                return
            names = [f"{module_name}:{each}" for each in vars(module) if each[:1] != "_"]
            raise UnknownTaskError(
                f"the module {module_name!r} has no {path!r}, so no worker could run "
                f"{name!r}{_meant(name, [*known, *names])}"
            )
        near = "" if name == COMMAND_TASK else _meant(name, known, NEAR)
        if near and name not in self._warned:
            self._warned.add(name)
            logger.warning(
                "this program has no task %r%s The job waits for a worker that has one", name, near
            )


def _meant(name: str, known: Iterable[str], nearness: float = 0.6) -> str:
    near = get_close_matches(name, list(known), n=1, cutoff=nearness)
    return f": did you mean {near[0]!r}?" if near else ""


def _has(module: ModuleType, path: str) -> bool:
    try:
        attribute(module, path)
    except AttributeError:
        return False
    return True
