"""Tasks: names for code, and the registry in which a worker looks them up."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, Literal

import msgspec

from leasehold.codec import CallCodec
from leasehold.core.model.advice import word
from leasehold.core.model.breaker import Breaker
from leasehold.core.model.outcome import Fail, Outcome
from leasehold.core.model.records import is_of_module
from leasehold.core.model.retry import PERMANENT, RETRYABLE
from leasehold.errors import InvalidJobError, TaskNotImportableError, UnknownTaskError
from leasehold.worker.describe import message_of
from leasehold.worker.modules import attribute, module_here, own_attribute

ExecutorKind = Literal["thread", "async", "process", "command"]


@dataclass(frozen=True, slots=True)
class TaskDefinition:
    """Code under a name, and how a worker runs it."""

    name: str
    func: Callable[..., Any]
    codec: CallCodec
    executor: ExecutorKind = "thread"
    permanent: tuple[type[BaseException], ...] = PERMANENT
    retryable: tuple[type[BaseException], ...] = RETRYABLE
    backoff: Callable[[int, BaseException], float] | None = None
    """A retry delay computed by the worker; policies that are data travel with the job."""
    breaker: Breaker | None = None
    """When to hold the task back because it keeps failing."""
    aliases: tuple[str, ...] = ()
    """Its earlier names, under which jobs may still wait."""

    def judge(self, outcome: Outcome) -> Outcome:
        """The outcome to send to the store: a failure carries the task's circuit breaker."""
        if self.breaker is not None and isinstance(outcome, Fail):
            return msgspec.structs.replace(outcome, breaker=self.breaker)
        return outcome


def task_name(func: Callable[..., Any]) -> str:
    """The name under which any process can find a function again: `module:qualified.name`.

    >>> import json
    >>> task_name(json.dumps)
    'json:dumps'
    """
    if isinstance(func, str):
        raise TaskNotImportableError(
            f"{func!r} is not a function: write @queue.task(name={func!r})"
        )
    name = getattr(func, "__qualname__", "")
    module = getattr(func, "__module__", None)
    if "<lambda>" in name:
        raise TaskNotImportableError(
            "a lambda cannot be a task: no worker could find it by name. "
            "Define a function at the top level of a module and submit that."
        )
    if "<locals>" in name:
        raise TaskNotImportableError(
            f"{name} is defined inside another function, so no worker could find it by name. "
            "Move it to the top level of a module, or register it with @queue.task(name=...)."
        )
    if not name or not module:
        raise TaskNotImportableError(
            f"{func!r} is not a plain function: wrap it in one at the top level of a module"
        )
    return f"{module}:{name}"


def default_executor(func: Callable[..., Any]) -> ExecutorKind:
    """Where a function runs by default: async functions on an event loop."""
    return "async" if inspect.iscoroutinefunction(func) else "thread"


class TaskRegistry:
    """The tasks a worker may run.

    A task is found by the name it was registered under. A name of the form `module:function` is
    imported only if its module is in the allow-list: a job must never be able to name arbitrary
    code.
    """

    def __init__(
        self, *, allow_import: tuple[str, ...] = (), pickle_key: bytes | None = None
    ) -> None:
        self._tasks: dict[str, TaskDefinition] = {}
        self._allow_import = allow_import
        self._pickle_key = pickle_key
        self._functions_run_in: ExecutorKind = "thread"
        self.known_elsewhere: frozenset[str] = frozenset()
        """Tasks known from the entries of live workers, so that their names are accepted."""

    def __iter__(self) -> Iterator[TaskDefinition]:
        return iter(list(self._tasks.values()))

    @property
    def can_find_tasks(self) -> bool:
        """Whether there are tasks here, or modules to import them from."""
        return bool(self._tasks or self._allow_import)

    def known_names(self) -> tuple[str, ...]:
        """The registered tasks by name, and `module:*` for modules that may be imported."""
        return (*sorted(self._tasks), *(f"{module}:*" for module in self._allow_import))

    def may_import(self, name: str) -> bool:
        """Whether a task's name belongs to a module that may be imported."""
        module, separator, _ = name.partition(":")
        return bool(separator) and any(is_of_module(module, each) for each in self._allow_import)

    def __contains__(self, name: str) -> bool:
        return name in self._tasks

    def register(self, definition: TaskDefinition) -> None:
        """Add a task; a second one under the same name is refused unless it is the same code."""
        for name in (definition.name, *definition.aliases):
            known = self._tasks.get(name)
            if known is not None and not _same_code(known.func, definition.func):
                raise InvalidJobError(
                    f"a task named {name!r} is already registered: give one of them another name"
                )
        self._tasks[definition.name] = self._placed(definition)
        for alias in definition.aliases:
            codec = definition.codec.for_task(alias)
            self._tasks[alias] = self._placed(replace(definition, name=alias, codec=codec))

    def allow_import_of(self, modules: tuple[str, ...]) -> None:
        """Let jobs name functions of these modules too."""
        self._allow_import = tuple(dict.fromkeys((*self._allow_import, *modules)))

    def run_functions_in(self, executor: Literal["thread", "process"]) -> None:
        """Run plain functions on this executor, unless their task asks for another kind."""
        self._functions_run_in = executor
        self._tasks = {name: self._placed(task) for name, task in self._tasks.items()}

    def find(self, name: str) -> TaskDefinition:
        """The task under this name; raises UnknownTaskError if it cannot be found."""
        known = self._tasks.get(name)
        if known is not None:
            return known
        definition = self._placed(self._import(name))
        self._tasks[name] = definition
        return definition

    def _meant_by(self, name: str) -> str:
        """People used to other queues write a task as `shop.resize` or `resize`."""
        function = name.rpartition(".")[2]
        near = [each for each in self._tasks if each.rpartition(":")[2] == function]
        return f": did you mean {near[0]!r}?" if near else ""

    def _placed(self, definition: TaskDefinition) -> TaskDefinition:
        if definition.executor != "thread" or self._functions_run_in == "thread":
            return definition
        return replace(definition, executor=self._functions_run_in)

    def _import(self, name: str) -> TaskDefinition:
        module_name, separator, path = name.partition(":")
        if not separator:
            raise UnknownTaskError(
                f"no task named {name!r} is registered with the worker{self._meant_by(name)}"
            )
        if not self.may_import(name):
            raise UnknownTaskError(_not_allowed(name, module_name, path))
        try:
            module = module_here(module_name) or importlib.import_module(module_name)
            target = own_attribute(module, path)
        except (Exception, SystemExit) as error:  # Importing a module runs its code.
            raise UnknownTaskError(
                f"task {name!r} cannot be imported here: {message_of(error)}"
            ) from error
        # A decorated task is in its module under its own name.
        definition = getattr(target, "definition", None)
        if isinstance(definition, TaskDefinition):
            # Its jobs may have a name other than its own: the one by which it is imported.
            return replace(definition, codec=definition.codec.for_task(name))
        if not _is_defined_in(module, path, target):
            raise UnknownTaskError(_not_its_own(name, module_name, target))
        codec = CallCodec(target, task=name, pickle_key=self._pickle_key)
        return TaskDefinition(name, target, codec, default_executor(target))


def _is_defined_in(module: ModuleType, path: str, target: Any) -> bool:
    """Whether it is a function that this module defines under this name.

    Names that a module imported are not its own; otherwise `import os` would let a job run
    `os.system`.
    """
    return (
        callable(target)
        and not isinstance(target, type)
        and getattr(target, "__module__", None) == module.__name__
        and getattr(target, "__qualname__", None) == path
    )


def _not_its_own(name: str, module_name: str, target: Any) -> str:
    if inspect.isfunction(target):
        return (
            f"{name!r} is a function that {module_name} has from elsewhere: submit it as "
            f"{target.__module__}:{target.__qualname__}, and let the worker import that module"
        )
    return f"{name!r} is not a function that {module_name} defines"


def _not_allowed(name: str, module_name: str, path: str) -> str:
    allow = (
        f"`queuectl worker start --import {word(module_name)}` "
        f"(in Python: TaskQueue(import_tasks=[{module_name!r}]))"
    )
    module = module_here(module_name)
    if module is not None and inspect.isfunction(attribute(module, path, None)):
        return (
            f"{name!r} is a function that is loaded here, but no task: a plain function is a task "
            "only in a run that has submitted it. Put @queue.task above it, or let the worker "
            f"import its module: {allow}"
        )
    return f"the worker has no task {name!r}, and may not import module {module_name!r}: {allow}"


def _same_code(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    # A reloaded module has the same function as a new object; that is not a conflict.
    return (one.__module__, one.__qualname__) == (other.__module__, other.__qualname__)
