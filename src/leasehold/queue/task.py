"""Tasks for their authors: functions that can also be submitted."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack, cast

from leasehold.core.contract.transactions import OwnConnection
from leasehold.core.model.draft_checks import check_name
from leasehold.core.model.text import plain_text
from leasehold.errors import InvalidJobError
from leasehold.queue.elsewhere import no_attribute_of_task
from leasehold.queue.handle import JobHandle
from leasehold.queue.options import (
    JobOptions,
    NewJob,
    TaskOptions,
    draft_fields,
    draft_safe,
    merged,
)
from leasehold.worker.modules import importable_name
from leasehold.worker.task import TaskDefinition, task_name

if TYPE_CHECKING:
    from typing import Self

    from leasehold.queue.room import Block
    from leasehold.queue.submitting import Submitting

P = ParamSpec("P")
R = TypeVar("R")


class BaseTask(Generic[P, R]):
    """The methods of every kind of task; `R` is the type of a job's `result()`."""

    __name__: str

    def __init__(
        self,
        submitting: Submitting,
        definition: TaskDefinition,
        fields: Mapping[str, Any],
        *,
        options: JobOptions | None = None,
        connection: OwnConnection | None = None,
        block: Block = False,
    ) -> None:
        self._submitting = submitting
        self._definition = definition
        self._connection = connection
        self._block = block
        self._options: JobOptions = options or {}
        self.draft_fields = merged(fields, draft_fields(self._options))
        """The options as fields of a `Draft`, ready for every submit."""
        update_wrapper(cast("Callable[..., Any]", self), definition.func)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    if not TYPE_CHECKING:  # Type checkers should see only the attributes that exist.

        def __getattr__(self, name):
            no_attribute_of_task(self, name)

    @property
    def definition(self) -> TaskDefinition:
        """The code under its name, as workers know it."""
        return self._definition

    @property
    def name(self) -> str:
        """The name by which jobs refer to this task."""
        return self._definition.name

    @classmethod
    def like(cls, task: BaseTask[P, R]) -> Self:
        """The same task as an instance of this class."""
        return cls(task._submitting, task._definition, task.draft_fields)

    def job(self, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """This call as a value, for `submit_many`."""
        for name, given in (("connection", self._connection), ("block", self._block)):
            if given:
                raise InvalidJobError(
                    f"a job as a value has no {name}: give it to submit_many({name}=...)"
                )
        return NewJob(self, args, kwargs)

    def options(self, **options: Unpack[TaskOptions]) -> Self:
        """The same task with other options: `send.options(priority="high").submit("a@b.c")`."""
        connection = options.pop("connection", None)
        block = options.pop("block", self._block)
        return type(self)(
            self._submitting,
            self._definition,
            self.draft_fields,
            options=draft_safe(options),
            connection=connection or self._connection,
            block=block,
        )


class SubmittingTask(BaseTask[P, R]):
    """A task of a TaskQueue, whose submits block; an AsyncTaskQueue's are awaited."""

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Run this call in the background."""
        return self._submitting.submit_call(
            self, args, kwargs, block=self._block, connection=self._connection
        )

    async def asubmit(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """`submit`, to be awaited."""
        return await self._submitting.asubmit_call(
            self, args, kwargs, block=self._block, connection=self._connection
        )


class Task(SubmittingTask[P, R]):
    """A function that can be called as before, and submitted."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself, here and now."""
        result: R = self._definition.func(*args, **kwargs)
        return result


class AsyncTask(SubmittingTask[P, R]):
    """An async function that can be awaited as before, and submitted."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        """Call the function itself, here and now."""
        coroutine: Coroutine[Any, Any, R] = self._definition.func(*args, **kwargs)
        return coroutine


def name_for(func: Callable[..., Any]) -> str:
    """The name of a function's task: `module:qualified.name`.

    A function of the script that was started is named after its file, as if the script had been
    imported: `build` of `python report.py` is `report:build`, and of `python -m app.report` it is
    `app.report:build`. So the name is the same in the script and where it is imported, and two
    scripts on one store do not take each other's jobs. Only without a file (in an interactive
    session) is it `__main__:build`.
    """
    module, _, path = task_name(func).partition(":")
    return f"{importable_name(module)}:{path}"


TaskLike = BaseTask[..., Any] | Callable[..., Any] | str
"""A task, its function, or its name."""


def name_of(task: TaskLike) -> str:
    """A task's name, from the task, its function or the name itself."""
    if isinstance(task, str):
        return plain_text(task)
    return task.name if isinstance(task, BaseTask) else name_for(task)


def checked_name_of(task: TaskLike) -> str:
    """The same; raises InvalidJobError for a name that no task can have."""
    name = name_of(task)
    check_name("task", name)
    return name


def is_of_main(func: Callable[..., Any]) -> bool:
    """Whether a function belongs to the script that was started."""
    return getattr(func, "__module__", None) == "__main__"
