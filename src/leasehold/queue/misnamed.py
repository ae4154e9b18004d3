"""Names of tasks that are probably wrong: refused at submit where the queue can know."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Final

from leasehold.core.model.job import COMMAND_TASK
from leasehold.core.model.phrases import did_you_mean
from leasehold.errors import UnknownTaskError
from leasehold.worker.modules import attribute, is_being_imported, module_here
from leasehold.worker.safelog import safe_logger
from leasehold.worker.source_names import SourceNames, source_names

logger = safe_logger("leasehold")

SOURCES_MAX: Final = 1000
"""How many modules' names are remembered."""
NEAR: Final = 0.8
"""The similarity, from 0 to 1, above which one name is probably the other mistyped."""


class NameCheck:
    """Checks the names under which one TaskQueue submits jobs without having such a task."""

    def __init__(self, folders: Sequence[str] | None = None) -> None:
        self._folders = folders
        """Where to search for modules that are not loaded; None for Python's own path."""
        self._sources: dict[str, SourceNames | None] = {}
        self._warned: set[str] = set()

    def check(self, name: str, known: Iterable[str]) -> None:
        """Raise UnknownTaskError for a name of the form `module:function` that does not exist.

        That is known for a module that is loaded here, or whose source is here and shows all of its
        names. Any other name may be a task of another program: if it is similar to a task here, a
        warning is logged once.
        """
        module_name, separator, path = name.partition(":")
        module = module_here(module_name) if separator else None
        if module is not None and not is_being_imported(module):
            if _has(module, path):
                return
            code = [each for each, value in vars(module).items() if callable(value)]
            raise _no_such_task(name, code, known)
        if separator and module is None and (source := self._source(module_name)) is not None:
            if source.may_have(name, path):
                return
            raise _no_such_task(name, source.defined, known)
        near = "" if name == COMMAND_TASK else did_you_mean(name, known, NEAR)
        if near and name not in self._warned:
            self._warned.add(name)
            logger.warning(
                "no task %r is known here%s The job waits for a worker that knows it", name, near
            )

    def _source(self, module: str) -> SourceNames | None:
        if module not in self._sources:
            if len(self._sources) >= SOURCES_MAX:
                self._sources.clear()
            folders = sys.path if self._folders is None else self._folders
            self._sources[module] = source_names(module, folders)
        return self._sources[module]


def _no_such_task(name: str, defined: Iterable[str], known: Iterable[str]) -> UnknownTaskError:
    module, _, path = name.partition(":")
    names = [f"{module}:{each}" for each in defined if each[:1] != "_"]
    return UnknownTaskError(
        f"the module {module!r} has no {path!r}, so no worker could run "
        f"{name!r}{did_you_mean(name, [*known, *names])}"
    )


def _has(module: ModuleType, path: str) -> bool:
    try:
        attribute(module, path)
    except AttributeError:
        return False
    return True
