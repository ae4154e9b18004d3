"""Tasks across processes: a child finds the worker's code by name, in its own memory."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from operator import attrgetter
from typing import Any

from leasehold.codec import CallCodec
from leasehold.core.model.retry import PERMANENT, RETRYABLE
from leasehold.errors import TaskNotImportableError
from leasehold.worker.task import TaskDefinition, task_name


def locate(task: TaskDefinition) -> tuple[str, str]:
    """The module and qualified name under which a child will find this task.

    Raises TaskNotImportableError, with advice, if it would find nothing or something else.
    """
    module, _, qualname = task_name(task.func).partition(":")
    if module == "__main__":
        raise TaskNotImportableError(
            f"task {task.name!r} is defined in the script that was started, which a child process "
            f"cannot import: move {qualname} to a module of its own"
        )
    try:
        found: Any = attrgetter(qualname)(sys.modules[module])
    except (KeyError, AttributeError):
        found = None
    if isinstance(getattr(found, "definition", None), TaskDefinition):
        return module, qualname
    if found is not task.func:
        raise TaskNotImportableError(
            f"task {task.name!r} cannot run in a child process: {module}.{qualname} is not its "
            "function. Move it to the top level of an importable module."
        )
    if (task.permanent, task.retryable, task.backoff) != (PERMANENT, RETRYABLE, None):
        raise TaskNotImportableError(
            f"task {task.name!r} cannot run in a child process with its own failure rules: "
            f"{module}.{qualname} is the bare function. Decorate it where it is defined."
        )
    return module, qualname


def load(name: str, module: str, qualname: str, pickle_key: bytes | None) -> TaskDefinition:
    """The task under this name, imported here; errors of its module propagate."""
    found: Any = attrgetter(qualname)(importlib.import_module(module))
    definition = getattr(found, "definition", None)
    if isinstance(definition, TaskDefinition):
        return replace(definition, codec=definition.codec.for_task(name))
    return TaskDefinition(name, found, CallCodec(found, task=name, pickle_key=pickle_key))
