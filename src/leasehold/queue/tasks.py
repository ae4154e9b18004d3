"""Making tasks, with `@queue.task` or from a plain function that is submitted."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Coroutine, Iterable, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, get_args, overload

from leasehold.codec import CallCodec
from leasehold.core.model.breaker import Breaker
from leasehold.core.model.durations import Seconds
from leasehold.core.model.job import Draft, MetadataValue, PriorityLike
from leasehold.core.model.phrases import listed
from leasehold.core.model.retry import PERMANENT, RETRYABLE, Backoff
from leasehold.core.model.text import plain_text, shown
from leasehold.errors import InvalidJobError, TaskNotImportableError
from leasehold.queue.codecs import Codecs
from leasehold.queue.misnamed import NameCheck
from leasehold.queue.options import JobOptions, RetryLike, draft_fields, draft_safe
from leasehold.queue.task import AsyncTask, BaseTask, Task, is_of_main, name_for
from leasehold.worker.describe import describe_briefly
from leasehold.worker.modules import module_of
from leasehold.worker.task import ExecutorKind, TaskDefinition, TaskRegistry, default_executor

if TYPE_CHECKING:
    from leasehold.queue.submitting import Submitting

P = ParamSpec("P")
R = TypeVar("R")

Errors = type[BaseException] | Iterable[type[BaseException]]

DECORATOR_OPTIONS: Final = (
    "name", "aliases", "queue", "priority", "max_retries", "retry", "timeout_seconds",
    "lease_seconds", "start_within_seconds", "result_ttl_seconds", "metadata", "executor",
    "permanent", "retryable", "breaker",
)  # fmt: skip
"""The options of `@queue.task`, as its signature has them."""


class Decorator:
    """The decorator that `@queue.task(...)` returns: keeps the function's types, async or not."""

    def __init__(self, make: Callable[[Callable[..., Any]], Any]) -> None:
        self._make = make

    @overload
    def __call__(  # type: ignore[overload-overlap]  # The first that fits is the right one.
        self, func: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...
    @overload
    def __call__(self, func: Callable[P, R], /) -> Task[P, R]: ...
    def __call__(self, func: Callable[..., Any], /) -> Any:
        """The function as a task."""
        return self._make(func)


class Tasks:
    """The part of a TaskQueue that turns functions into tasks."""

    def __init__(
        self,
        registry: TaskRegistry,
        codecs: Codecs,
        *,
        default_fields: Mapping[str, Any],
        pickle_key: bytes | None,
        runs_here: bool,
    ) -> None:
        self.submitting: Submitting
        """The part through which tasks submit. It needs the tasks itself, so it is set later."""
        self.registry = registry
        self._codecs = codecs
        self._default_fields = default_fields
        """The defaults of every draft: its queue, and the client that submits it."""
        self._pickle_key = pickle_key
        self.runs_here = runs_here
        """Whether jobs run in this process."""
        self.on_task: Callable[[str], None] | None = None
        """Called with the module of a function that a decorator made a task."""
        self.queues: dict[str, str] = {}
        """The default queue of each task's jobs."""
        self._names = NameCheck()
        self._by_name: dict[str, BaseTask[..., Any]] = {}
        self._by_function: dict[Callable[..., Any], BaseTask[..., Any]] = {}
        self.adopted: set[str] = set()
        """Plain functions that became tasks here, by a submit."""

    @overload
    def task(  # type: ignore[overload-overlap]  # The first that fits is the right one.
        self, func: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...
    @overload
    def task(self, func: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def task(
        self,
        /,
        *,
        name: str | None = None,
        aliases: str | Iterable[str] = (),
        queue: str | None = None,
        priority: PriorityLike | None = None,
        max_retries: int | None = None,
        retry: Backoff | RetryLike | None = None,
        timeout_seconds: Seconds | None = None,
        lease_seconds: Seconds | None = None,
        start_within_seconds: Seconds | None = None,
        result_ttl_seconds: Seconds | None = None,
        metadata: Mapping[str, MetadataValue] | None = None,
        executor: ExecutorKind | None = None,
        permanent: Errors = (),
        retryable: Errors = (),
        breaker: Breaker | None = None,
    ) -> Decorator: ...
    def task(
        self,
        func: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        aliases: str | Iterable[str] = (),
        retry: Any = None,
        executor: ExecutorKind | None = None,
        permanent: Errors = (),
        retryable: Errors = (),
        breaker: Breaker | None = None,
        **options: Any,
    ) -> Any:
        """Make a function a task: `@queue.task` or `@queue.task(priority="high", ...)`.

        `retry` is a policy, a list of delays, seconds, or a function of (attempt, error) that the
        worker calls. `permanent` and `retryable` are exception classes that extend the default
        lists, and override them. `breaker` holds the task back while it keeps failing. `aliases`
        are earlier names of the task: jobs that wait under one of them still find it.
        """
        if executor is not None and executor not in get_args(ExecutorKind):
            kinds = listed(get_args(ExecutorKind), "or")
            raise ValueError(f"executor must be {kinds}, not {shown(executor)}")
        backoff: Any = retry if callable(retry) else None
        options["retry"] = None if backoff is not None else retry
        safe = draft_safe(options, DECORATOR_OPTIONS)
        never, again = _error_lists(permanent, retryable)

        def make(function: Callable[..., Any]) -> BaseTask[..., Any]:
            task_name = name_for(function) if name is None else plain_text(name)
            _refuse_method(function)
            definition = TaskDefinition(
                task_name,
                function,
                CallCodec(function, task=task_name, pickle_key=self._pickle_key),
                executor or default_executor(function),
                never,
                again,
                backoff,
                breaker,
                (aliases,) if isinstance(aliases, str) else tuple(aliases),
            )
            # Options that no store would accept are refused here, not at the first submit.
            Draft(task=task_name, **{"id": "any", **draft_fields(safe)}).check()
            task = self._new_task(definition, safe)
            self._by_function[function] = task
            self.adopted.discard(task_name)
            if self.on_task is not None:
                self.on_task(module_of(function))
            return task

        return Decorator(make) if func is None else make(func)

    def load_tasks(self, module: str) -> list[str]:
        """Import a module and register the tasks in it; returns their names.

        This is how a worker finds tasks with custom names. Raises
        TaskNotImportableError, with the reason, if the module cannot be imported.
        """
        try:
            values = vars(importlib.import_module(module)).values()
        except (Exception, SystemExit) as error:  # Importing a module runs its code.
            raise TaskNotImportableError(
                f"the module {module!r} cannot be imported: {describe_briefly(error)}"
            ) from error
        tasks = [value for value in values if isinstance(value, BaseTask)]
        for task in tasks:
            self.registry.register(task.definition)
            self.queues[task.name] = task.draft_fields["queue"]
        return [task.name for task in tasks]

    def _new_task(self, definition: TaskDefinition, options: JobOptions) -> BaseTask[..., Any]:
        self.registry.register(definition)
        kind = AsyncTask if default_executor(definition.func) == "async" else Task
        task: BaseTask[..., Any] = kind(
            self.submitting, definition, self._default_fields, options=options
        )
        self._by_name[definition.name] = task
        self.queues[definition.name] = task.draft_fields["queue"]
        return task

    def task_of(self, func: Any, task_name: str | None = None) -> BaseTask[..., Any]:
        """The task of a submit; a plain function becomes one here."""
        if isinstance(func, BaseTask) and task_name is None:
            return func
        if isinstance(func, str):
            return self._task_by_name(plain_text(task_name or func))
        if not callable(func):
            raise InvalidJobError(
                f"a function, a task or a task's name was expected, not {func!r} (did you call the "
                "function?)"
            )
        function = func.definition.func if isinstance(func, BaseTask) else func
        if task_name is None:
            known = self._by_function.get(function)
        else:
            known = self._by_name.get(task_name)
        if known is not None and known.definition.func is function:
            return known
        return self._adopt(function, task_name)

    def _adopt(self, function: Callable[..., Any], task_name: str | None) -> BaseTask[..., Any]:
        # This comes first, so that a lambda gets the right error.
        name = plain_text(task_name) or name_for(function)
        if task_name is None and is_of_main(function) and not self.runs_here:
            raise TaskNotImportableError(
                f"{function.__qualname__} is defined in the script that was started, and this "
                "process has no workers (num_workers=0): no other process would find it. Move "
                "it to a module, or give it a name with @queue.task."
            )
        codec = CallCodec(function, task=name, pickle_key=self._pickle_key)
        task = self._new_task(TaskDefinition(name, function, codec, default_executor(function)), {})
        self.adopted.add(name)
        if task_name is None:
            self._by_function[function] = task
        return task

    def _task_by_name(self, name: str) -> BaseTask[..., Any]:
        known = self._by_name.get(name)
        if known is not None:
            return known
        if name not in self.registry and name not in self.registry.known_elsewhere:
            self._names.check(name, self._by_name)
        # Its code may exist only in another process, so there is no signature to check against.
        definition = TaskDefinition(name, _unknown_code, self._codecs.codec_for(name))
        return Task(self.submitting, definition, self._default_fields)


def _refuse_method(function: Callable[..., Any]) -> None:
    """Refuse a method that needs an instance of its class, since a job has none."""
    if not isinstance(function, FunctionType):
        return  # A bound method has its object.
    scope, code = function.__qualname__.rpartition(".")[0], function.__code__
    is_in_class = bool(scope) and not scope.endswith("<locals>")
    if is_in_class and code.co_argcount and code.co_varnames[0] == "self":
        raise InvalidJobError(
            f"{function.__qualname__} is a method, and a job has no object to call it on: make "
            "it a function, or a staticmethod (@staticmethod above @queue.task)"
        )


def _error_lists(
    permanent: Errors, retryable: Errors
) -> tuple[tuple[type[BaseException], ...], tuple[type[BaseException], ...]]:
    never, again = _classes("permanent", permanent), _classes("retryable", retryable)
    return (
        (*never, *(cls for cls in PERMANENT if cls not in again)),
        (*again, *(cls for cls in RETRYABLE if cls not in never)),
    )


def _classes(name: str, errors: Errors) -> tuple[type[BaseException], ...]:
    one_or_more: tuple[Any, ...] = (
        tuple(errors)
        if isinstance(errors, Iterable) and not isinstance(errors, str | bytes | type)
        else (errors,)
    )
    for one in one_or_more:
        if not (isinstance(one, type) and issubclass(one, BaseException)):
            raise TypeError(
                f"{name} must be an exception class or a list of them, not {shown(one)}"
            )
    return one_or_more


def is_name_only(task: BaseTask[..., Any]) -> bool:
    """Whether nothing is known here of a task but its name."""
    return task.definition.func is _unknown_code


def _unknown_code(*_args: Any, **_kwargs: Any) -> Any:
    raise TaskNotImportableError("only the name of this task is known here, not its code")
