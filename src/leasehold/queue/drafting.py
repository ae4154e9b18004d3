"""From a call of a task to the draft of a job: encoded, with all options settled."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from leasehold.codec import Passes, encode_document
from leasehold.core.model.job import DEFAULT_QUEUE, Draft
from leasehold.core.model.phrases import did_you_mean
from leasehold.core.model.text import shown
from leasehold.env import Env
from leasehold.errors import InvalidJobError
from leasehold.queue.elsewhere import FOREIGN_OPTIONS
from leasehold.queue.options import (
    TASK_OPTION_NAMES,
    JobOptions,
    NewJob,
    draft_fields,
    draft_safe,
    merged,
)
from leasehold.queue.task import BaseTask
from leasehold.queue.tasks import Tasks


class Drafting:
    """Makes drafts; nothing is stored."""

    def __init__(
        self,
        tasks: Tasks,
        env: Env,
        bytes_max: int,
        id_prefix: Callable[[str], str] | None = None,
    ) -> None:
        """`id_prefix` returns the prefix that the store requires of job ids in a queue."""
        self._tasks = tasks
        self._new_id = env.new_id
        self._id_prefix = id_prefix
        self.bytes_max = bytes_max

    def draft(
        self,
        task: BaseTask[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        options: JobOptions | None,
        passes: Passes | None = None,
    ) -> Draft:
        """The draft for a call of a task; `passes` says which results it gets before `args`."""
        definition = task.definition
        codec = definition.codec
        try:
            payload = codec.encode_call(args, kwargs, self.bytes_max, passes)
        except InvalidJobError as error:
            raise _with_hint(error, definition.func, kwargs) from None
        return self._make(definition.name, task.draft_fields, payload, codec.name, options)

    def draft_of(
        self, job: NewJob, passes: Passes | None = None
    ) -> tuple[BaseTask[..., Any], Draft]:
        """The draft of a job given as a value, and its task."""
        if not isinstance(job, NewJob):
            raise InvalidJobError(f"submit_many takes NewJob(...) and task.job(...), not {job!r}")
        task = self._tasks.task_of(job.task)
        options = draft_safe(job.options)
        if job.document is ...:
            return task, self.draft(task, job.args, job.kwargs, options, passes)
        if passes is not None:
            raise InvalidJobError(f"a job whose payload is a document is given no results: {job!r}")
        what = f"the document for {task.name}"
        payload = encode_document(job.document, what, self.bytes_max)
        return task, self._make(task.name, task.draft_fields, payload, "json", options)

    def drafts_of(self, jobs: Iterable[NewJob]) -> tuple[list[BaseTask[..., Any]], list[Draft]]:
        """The task and the draft of each job of an all-or-nothing call."""
        both = [self.draft_of(job) for job in jobs]
        return [task for task, _ in both], [draft for _, draft in both]

    def own_id(self, queue: str, name: str) -> str:
        """An id generated here for the job, with the prefix that the store requires."""
        return name if self._id_prefix is None else self._id_prefix(queue) + name

    def _make(
        self,
        task: str,
        fields: Mapping[str, Any],
        payload: bytes,
        codec: str,
        options: JobOptions | None,
    ) -> Draft:
        if options:
            fields = merged(fields, draft_fields(options))
        if "id" not in fields:
            job_id = self._new_id()
            if self._id_prefix is not None:
                job_id = self.own_id(fields.get("queue", DEFAULT_QUEUE), job_id)
            return Draft(id=job_id, task=task, payload=payload, codec=codec, **fields)
        return Draft(task=task, payload=payload, codec=codec, **fields)


def _with_hint(
    error: InvalidJobError, func: Callable[..., Any], kwargs: Mapping[str, Any]
) -> InvalidJobError:
    """The error, with a hint if options were given as arguments."""
    parameters = inspect.signature(func).parameters
    foreign = [
        name
        for name in kwargs
        if FOREIGN_OPTIONS.get(name) in TASK_OPTION_NAMES and name not in parameters
    ]
    if foreign:
        here, value = FOREIGN_OPTIONS[foreign[0]], kwargs[foreign[0]]
        return type(error)(f"{error}; here it is the option {here}={shown(value)}")
    misplaced = [name for name in kwargs if name in TASK_OPTION_NAMES and name not in parameters]
    if not misplaced:
        unknown = next((name for name in kwargs if name not in parameters), "")
        near = did_you_mean(unknown, TASK_OPTION_NAMES, 0.8)
        return type(error)(f"{error}{near}") if near else error
    options = ", ".join(f"{name}=..." for name in misplaced)
    what = f"{misplaced[0]} is an option" if len(misplaced) == 1 else "these are options"
    name = getattr(func, "__name__", "task")
    return type(error)(f"{error}; {what}: {name}.options({options}).submit(...)")
