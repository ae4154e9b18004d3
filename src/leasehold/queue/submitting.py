"""Submitting: from a function and its arguments to a job in the store."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

import msgspec

from leasehold.codec import Passes
from leasehold.core.contract.transactions import OwnConnection
from leasehold.core.model.durations import Seconds
from leasehold.core.model.job import DependencyPolicy, Draft, MetadataValue, PriorityLike
from leasehold.core.model.records import Submitted
from leasehold.errors import InvalidJobError, LeaseholdError
from leasehold.queue.commands import command_job
from leasehold.queue.drafting import Drafting
from leasehold.queue.handle import JobHandle
from leasehold.queue.large import has_large
from leasehold.queue.misspelt import check_not_misspelt
from leasehold.queue.options import (
    JobOptions,
    JobRef,
    NewJob,
    RetryLike,
    split_options,
)
from leasehold.queue.room import Block
from leasehold.queue.storing import Storing
from leasehold.queue.task import BaseTask
from leasehold.queue.tasks import Tasks, is_name_only

if TYPE_CHECKING:
    from leasehold.queue.awaiting import Bridge
    from leasehold.queue.facade import TaskQueue

R = TypeVar("R")

Function = Callable[..., R]
AsyncFunction = Callable[..., Coroutine[Any, Any, R]]


class Submitting:
    """The part of a TaskQueue that submits jobs."""

    def __init__(
        self,
        queue: TaskQueue,
        tasks: Tasks,
        bridge: Callable[[], Bridge],
    ) -> None:
        self._queue = queue
        """The interface that handles call back."""
        self._tasks = tasks
        self.bridge = bridge
        """The bridge that carries awaitable calls."""

    def work_with(self, drafting: Drafting, storing: Storing) -> None:
        """Called whenever the queue is opened or reopened: tasks keep using the same submits."""
        self._drafting = drafting
        self._storing = storing

    @overload
    def submit(
        self,
        func: AsyncFunction[R],
        /,
        *args: Any,
        task_name: str | None = None,
        job_id: str | None = None,
        queue: str | None = None,
        priority: PriorityLike | None = None,
        max_retries: int | None = None,
        retry: RetryLike | None = None,
        run_at: datetime | None = None,
        delay: Seconds | None = None,
        deadline: datetime | None = None,
        timeout_seconds: Seconds | None = None,
        lease_seconds: Seconds | None = None,
        start_within_seconds: Seconds | None = None,
        result_ttl_seconds: Seconds | None = None,
        metadata: Mapping[str, MetadataValue] | None = None,
        idempotency_key: str | None = None,
        parent_id: JobRef | None = None,
        depends_on: JobRef | Iterable[JobRef] | None = None,
        on_dependency_failure: DependencyPolicy | None = None,
        client: str | None = None,
        connection: OwnConnection | None = None,
        limit_key: str | None = None,
        block: Block = False,
        **kwargs: Any,
    ) -> JobHandle[R]: ...
    @overload
    def submit(
        self,
        func: Function[R],
        /,
        *args: Any,
        task_name: str | None = None,
        job_id: str | None = None,
        queue: str | None = None,
        priority: PriorityLike | None = None,
        max_retries: int | None = None,
        retry: RetryLike | None = None,
        run_at: datetime | None = None,
        delay: Seconds | None = None,
        deadline: datetime | None = None,
        timeout_seconds: Seconds | None = None,
        lease_seconds: Seconds | None = None,
        start_within_seconds: Seconds | None = None,
        result_ttl_seconds: Seconds | None = None,
        metadata: Mapping[str, MetadataValue] | None = None,
        idempotency_key: str | None = None,
        parent_id: JobRef | None = None,
        depends_on: JobRef | Iterable[JobRef] | None = None,
        on_dependency_failure: DependencyPolicy | None = None,
        client: str | None = None,
        connection: OwnConnection | None = None,
        limit_key: str | None = None,
        block: Block = False,
        **kwargs: Any,
    ) -> JobHandle[R]: ...
    @overload
    def submit(
        self,
        func: str,
        /,
        *args: Any,
        task_name: str | None = None,
        job_id: str | None = None,
        queue: str | None = None,
        priority: PriorityLike | None = None,
        max_retries: int | None = None,
        retry: RetryLike | None = None,
        run_at: datetime | None = None,
        delay: Seconds | None = None,
        deadline: datetime | None = None,
        timeout_seconds: Seconds | None = None,
        lease_seconds: Seconds | None = None,
        start_within_seconds: Seconds | None = None,
        result_ttl_seconds: Seconds | None = None,
        metadata: Mapping[str, MetadataValue] | None = None,
        idempotency_key: str | None = None,
        parent_id: JobRef | None = None,
        depends_on: JobRef | Iterable[JobRef] | None = None,
        on_dependency_failure: DependencyPolicy | None = None,
        client: str | None = None,
        connection: OwnConnection | None = None,
        limit_key: str | None = None,
        block: Block = False,
        **kwargs: Any,
    ) -> JobHandle[Any]: ...
    def submit(self, func: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Run `func(*args, **kwargs)` in the background, as soon as its options allow.

        `func` is a function, a task, or a task's name. The names of the options are reserved here;
        a function with a parameter of such a name is submitted through its task, whose own submit
        takes exactly the function's arguments: `queue.task(func).submit(...)`.

        A full queue raises QueueFullError, which says when to try again. With `block=True` the call
        waits until there is room, with `block=5` for at most 5 seconds.

        With `connection`, one from `connect()`, the job is part of the transaction open there: it
        is submitted when that transaction commits.
        """
        task = self._tasks.task_of(func, kwargs.pop("task_name", None))
        block = kwargs.pop("block", False)
        connection = kwargs.pop("connection", None)
        own, options = split_options(kwargs)
        if own and is_name_only(task):
            check_not_misspelt(task.name, own)
        return self.submit_call(task, args, own, options, block=block, connection=connection)

    def submit_call(
        self,
        task: BaseTask[..., R],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        options: JobOptions | None = None,
        *,
        block: Block = False,
        connection: OwnConnection | None = None,
    ) -> JobHandle[R]:
        """`submit` for a known task: nothing in `kwargs` is taken for an option."""
        draft = self._drafting.draft(task, args, kwargs, options)
        if block:
            [answer] = self._storing.store_when_room([draft], block, connection)
        else:
            answer = self._storing.store_draft(draft, connection)
        assert isinstance(answer, Submitted)
        return self._handle(task, answer, connection)

    @overload
    def submit_many(
        self,
        jobs: Iterable[NewJob],
        *,
        partial: Literal[False] = False,
        block: Block = False,
        connection: OwnConnection | None = None,
    ) -> list[JobHandle[Any]]: ...
    @overload
    def submit_many(
        self,
        jobs: Iterable[NewJob],
        *,
        partial: Literal[True],
        connection: OwnConnection | None = None,
    ) -> list[JobHandle[Any] | LeaseholdError]: ...
    def submit_many(
        self,
        jobs: Iterable[NewJob],
        *,
        partial: bool = False,
        block: Block = False,
        connection: OwnConnection | None = None,
    ) -> list[Any]:
        """Submit many jobs in one write: all or nothing.

        With `partial`, the valid jobs are submitted and the answer for each invalid one is its
        error. With `block`, the call waits until there is room for all of them; with `connection`,
        they are part of the transaction open there, as in `submit`.
        """
        if partial and block:
            raise InvalidJobError(
                "block waits for room for all the jobs: not together with partial"
            )
        drafts: list[Draft] = []
        answers: list[Any] = []
        for job in jobs:
            try:
                task, draft = self._drafting.draft_of(job)
            except LeaseholdError as error:
                if not partial:
                    raise
                answers.append(error)
            else:
                drafts.append(draft)
                answers.append(task)
        stored = iter(
            self._storing.store_when_room(drafts, block, connection)
            if block
            else self._storing.store_drafts(drafts, partial=partial, connection=connection)
        )
        return [
            self._answer(each, next(stored), connection) if isinstance(each, BaseTask) else each
            for each in answers
        ]

    def submit_command(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        connection: OwnConnection | None = None,
        **options: Unpack[JobOptions],
    ) -> JobHandle[Any]:
        """Run a command in the background: a list of arguments, or a string for the shell.

        Put untrusted values in a list or in `env`, never in a shell string. Only a worker with
        `allow_commands=True` runs it. `options` are those of `submit`.
        """
        job = command_job(command, cwd=cwd, env=env, stdin=stdin, **options)
        [handle] = self.submit_many([job], connection=connection)
        return handle

    def check_job(self, job: NewJob) -> None:
        """Raise the errors that submitting this job alone would raise; store nothing.

        Refusals that depend on the store (a taken id, a full queue) appear only at submit.
        """
        _, draft = self._drafting.draft_of(job)
        if self._storing.blobs is not None and has_large([draft]):
            # A real submit puts the payload into the blob store first.
            draft = msgspec.structs.replace(draft, payload=b"")
        draft.check()

    # -- awaiting ----------------------------------------------------------------------------

    @overload
    async def asubmit(
        self, func: AsyncFunction[R], /, *args: Any, **kwargs: Any
    ) -> JobHandle[R]: ...
    @overload
    async def asubmit(self, func: Function[R], /, *args: Any, **kwargs: Any) -> JobHandle[R]: ...
    @overload
    async def asubmit(self, func: str, /, *args: Any, **kwargs: Any) -> JobHandle[Any]: ...
    async def asubmit(self, func: Any, /, *args: Any, **kwargs: Any) -> Any:
        """`submit`, to be awaited, with the same options."""
        task = self._tasks.task_of(func, kwargs.pop("task_name", None))
        block = kwargs.pop("block", False)
        connection = kwargs.pop("connection", None)
        own, options = split_options(kwargs)
        if own and is_name_only(task):
            check_not_misspelt(task.name, own)
        return await self.asubmit_call(task, args, own, options, block=block, connection=connection)

    async def asubmit_call(
        self,
        task: BaseTask[..., R],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        options: JobOptions | None = None,
        *,
        block: Block = False,
        connection: OwnConnection | None = None,
    ) -> JobHandle[R]:
        """`submit_call`, to be awaited: submits that wait at the same time share one write."""
        draft = self._drafting.draft(task, args, kwargs, options)
        if block:
            answer = await self._storing.await_room(
                lambda: self._storing.astore_draft(draft, None), block, connection
            )
        else:
            answer = await self._storing.astore_draft(draft, connection)
        return self._handle(task, answer, connection)

    async def asubmit_many(
        self,
        jobs: Iterable[NewJob],
        *,
        block: Block = False,
        connection: OwnConnection | None = None,
    ) -> list[JobHandle[Any]]:
        """`submit_many`, all or nothing, to be awaited; while it waits for room, no thread does."""
        bridge = self._storing.bridge()
        if not block:
            return await bridge.call_within(
                connection, lambda: self.submit_many(jobs, connection=connection)
            )
        tasks, drafts = await bridge.call(self._drafting.drafts_of, jobs)
        return await self.asubmit_drafts(tasks, drafts, block, connection)

    # -- inside ------------------------------------------------------------------------------

    def own_id(self, queue: str, name: str) -> str:
        """An id generated here for the job."""
        return self._drafting.own_id(queue, name)

    def draft_of(
        self, job: NewJob, passes: Passes | None = None
    ) -> tuple[BaseTask[..., Any], Draft]:
        """A job given as a `Job` value, together with its task."""
        return self._drafting.draft_of(job, passes)

    def submit_drafts(
        self,
        tasks: Iterable[BaseTask[..., Any]],
        drafts: Sequence[Draft],
        block: Block,
        connection: OwnConnection | None,
    ) -> list[JobHandle[Any]]:
        """Submit these drafts, all or nothing."""
        answers = (
            self._storing.store_when_room(drafts, block, connection)
            if block
            else self._storing.store_drafts(drafts, connection=connection)
        )
        return self._handles(tasks, answers)

    async def asubmit_drafts(
        self,
        tasks: Iterable[BaseTask[..., Any]],
        drafts: Sequence[Draft],
        block: Block,
        connection: OwnConnection | None,
    ) -> list[JobHandle[Any]]:
        """Submit these drafts once there is room for all of them; no thread waits."""
        bridge = self._storing.bridge()
        answers = await self._storing.await_room(
            lambda: bridge.call(self._storing.store_drafts, drafts), block, connection
        )
        return self._handles(tasks, answers)

    def _handles(
        self, tasks: Iterable[BaseTask[..., Any]], answers: Sequence[Submitted | LeaseholdError]
    ) -> list[JobHandle[Any]]:
        return [
            self._handle(task, answer)
            for task, answer in zip(tasks, answers, strict=True)
            if isinstance(answer, Submitted)
        ]

    def _handle(
        self,
        task: BaseTask[..., R],
        answer: Submitted,
        connection: OwnConnection | None = None,
    ) -> JobHandle[R]:
        return JobHandle(
            self._queue,
            answer.id,
            task.definition.codec,
            is_duplicate=answer.is_duplicate,
            in_transaction=connection is not None,
        )

    def _answer(
        self,
        task: BaseTask[..., Any],
        answer: Submitted | LeaseholdError,
        connection: OwnConnection | None,
    ) -> JobHandle[Any] | LeaseholdError:
        return self._handle(task, answer, connection) if isinstance(answer, Submitted) else answer
