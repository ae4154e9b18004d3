"""Submitting: from a function and its arguments to a job in the store."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, cast, overload

import msgspec

from leasehold.codec import encode_document
from leasehold.core.job import DependencyPolicy, Draft, MetadataValue, PriorityLike
from leasehold.core.records import Submitted
from leasehold.core.transactions import Connection
from leasehold.errors import InvalidJobError, LeaseholdError
from leasehold.queue.commands import command_job
from leasehold.queue.handle import JobHandle
from leasehold.queue.large import has_large, submit_large
from leasehold.queue.options import (
    JobOptions,
    JobRef,
    NewJob,
    RetryLike,
    Seconds,
    draft_fields,
    draft_safe,
    merged,
    split_options,
)
from leasehold.queue.room import Block, check_may_wait, store_when_room
from leasehold.queue.task import BaseTask
from leasehold.queue.tasks import TaskMaking
from leasehold.worker.context import open_connection
from leasehold.worker.hooks import call_hook_of_caller

if TYPE_CHECKING:
    from leasehold.queue.facade import TaskQueue
    from leasehold.queue.funnel import Funnel

R = TypeVar("R")

Function = Callable[..., R]
AsyncFunction = Callable[..., Coroutine[Any, Any, R]]


class Producing(TaskMaking):
    """The part of a TaskQueue that submits jobs."""

    # -- submitting --------------------------------------------------------------------------

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
        timeout_seconds: float | None = None,
        lease_seconds: float | None = None,
        start_within_seconds: float | None = None,
        result_ttl_seconds: float | None = None,
        metadata: Mapping[str, MetadataValue] | None = None,
        idempotency_key: str | None = None,
        parent_id: JobRef | None = None,
        depends_on: JobRef | Iterable[JobRef] | None = None,
        on_dependency_failure: DependencyPolicy | None = None,
        client: str | None = None,
        connection: Connection | None = None,
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
        timeout_seconds: float | None = None,
        lease_seconds: float | None = None,
        start_within_seconds: float | None = None,
        result_ttl_seconds: float | None = None,
        metadata: Mapping[str, MetadataValue] | None = None,
        idempotency_key: str | None = None,
        parent_id: JobRef | None = None,
        depends_on: JobRef | Iterable[JobRef] | None = None,
        on_dependency_failure: DependencyPolicy | None = None,
        client: str | None = None,
        connection: Connection | None = None,
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
        timeout_seconds: float | None = None,
        lease_seconds: float | None = None,
        start_within_seconds: float | None = None,
        result_ttl_seconds: float | None = None,
        metadata: Mapping[str, MetadataValue] | None = None,
        idempotency_key: str | None = None,
        parent_id: JobRef | None = None,
        depends_on: JobRef | Iterable[JobRef] | None = None,
        on_dependency_failure: DependencyPolicy | None = None,
        client: str | None = None,
        connection: Connection | None = None,
        limit_key: str | None = None,
        block: Block = False,
        **kwargs: Any,
    ) -> JobHandle[Any]: ...
    def submit(self, func: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Have `func(*args, **kwargs)` run in the background, as soon as its options allow.

        `func` is a function, a task, or a task's name. The names of the options are reserved here;
        a function with a parameter of such a name is submitted through its task, whose own submit
        takes exactly the function's arguments: `queue.task(func).submit(...)`.

        A queue that is full raises QueueFullError, which says when to try again. With `block=True`
        the call waits until there is room, with `block=5` for at most 5 seconds.

        With `connection`, one from `connect()`, the job is a part of the transaction that is open
        there: it is submitted when that commits.
        """
        task = self._task_of(func, kwargs.pop("task_name", None))
        block = kwargs.pop("block", False)
        connection = kwargs.pop("connection", None)
        own, options = split_options(kwargs)
        return self.submit_call(task, args, own, options, block=block, connection=connection)

    def submit_call(
        self,
        task: BaseTask[..., R],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        options: JobOptions | None = None,
        *,
        block: Block = False,
        connection: Connection | None = None,
    ) -> JobHandle[R]:
        """`submit` for a task at hand: nothing in `kwargs` is taken for an option."""
        draft = self._draft(task, args, kwargs, options)
        if block:
            [answer] = self._store_when_room([draft], block, connection)
        else:
            [answer] = self._store_drafts([draft], connection=connection)
        assert isinstance(answer, Submitted)
        return self._handle(task, answer)

    @overload
    def submit_many(
        self,
        jobs: Iterable[NewJob],
        *,
        partial: Literal[False] = False,
        block: Block = False,
        connection: Connection | None = None,
    ) -> list[JobHandle[Any]]: ...
    @overload
    def submit_many(
        self,
        jobs: Iterable[NewJob],
        *,
        partial: Literal[True],
        connection: Connection | None = None,
    ) -> list[JobHandle[Any] | LeaseholdError]: ...
    def submit_many(
        self,
        jobs: Iterable[NewJob],
        *,
        partial: bool = False,
        block: Block = False,
        connection: Connection | None = None,
    ) -> list[Any]:
        """Submit many jobs in one write: all or nothing.

        With `partial`, the good ones are submitted, and each bad one is answered by its error. With
        `block`, it waits until there is room for all of them, and with `connection` they are a part
        of the transaction that is open there, as in `submit`.
        """
        if partial and block:
            raise InvalidJobError(
                "block waits for room for all the jobs: not together with partial"
            )
        drafts: list[Draft] = []
        answers: list[Any] = []
        for job in jobs:
            try:
                task, draft = self._draft_of(job)
            except LeaseholdError as error:
                if not partial:
                    raise
                answers.append(error)
            else:
                drafts.append(draft)
                answers.append(task)
        stored = iter(
            self._store_when_room(drafts, block, connection)
            if block
            else self._store_drafts(drafts, partial=partial, connection=connection)
        )
        return [
            self._answer(answer, next(stored)) if isinstance(answer, BaseTask) else answer
            for answer in answers
        ]

    def _drafts_of(self, jobs: Iterable[NewJob]) -> tuple[list[BaseTask[..., Any]], list[Draft]]:
        """Jobs that come all or nothing: the task and the draft of each."""
        both = [self._draft_of(job) for job in jobs]
        return [task for task, _ in both], [draft for _, draft in both]

    def _handles(
        self, tasks: Sequence[BaseTask[..., Any]], answers: Sequence[Submitted | LeaseholdError]
    ) -> list[JobHandle[Any]]:
        return [
            self._handle(task, answer)
            for task, answer in zip(tasks, answers, strict=True)
            if isinstance(answer, Submitted)
        ]

    def submit_command(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        connection: Connection | None = None,
        **options: Unpack[JobOptions],
    ) -> JobHandle[Any]:
        """Have a command run: a list of arguments, or a string for the shell.

        Values from outside belong in a list or in `env`, never in a shell string. Only a worker
        with `allow_commands=True` runs it. `options` are those of `submit`.
        """
        job = command_job(command, cwd=cwd, env=env, stdin=stdin, **options)
        [handle] = self.submit_many([job], connection=connection)
        return handle

    def check_job(self, job: NewJob) -> None:
        """Raise whatever a submit would find wrong with this job by itself; nothing is stored.

        What depends on the store, such as an id that is taken or a queue that is full, only a
        submit can tell.
        """
        _, draft = self._draft_of(job)
        if self.blobs is not None and has_large([draft]):
            # A submit puts the payload away first.
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
        task = self._task_of(func, kwargs.pop("task_name", None))
        block = kwargs.pop("block", False)
        connection = kwargs.pop("connection", None)
        own, options = split_options(kwargs)
        if not block:
            return await self.asubmit_call(task, args, own, options, connection=connection)
        check_may_wait(connection or self._joined())
        return await self._await_room(task, args, own, options, block)

    async def asubmit_call(
        self,
        task: BaseTask[..., R],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        options: JobOptions | None = None,
        *,
        connection: Connection | None = None,
    ) -> JobHandle[R]:
        """`submit_call`, to be awaited: submits that wait at the same time share one write."""
        if connection is not None or self._joined() is not None:
            # It waits for nobody: the transaction has its turn, and its thread is this one.
            return self.submit_call(task, args, kwargs, options, connection=connection)
        draft = self._draft(task, args, kwargs, options)
        self._check_open()
        self._ensure_workers()
        if has_large([draft]):
            # It is one large write by itself: nothing is gained by sharing the row's.
            queue = cast("TaskQueue", self)
            [stored] = await queue.bridge().call(self._store_drafts, [draft])
            assert isinstance(stored, Submitted)
            return self._handle(task, stored)
        answer = await self._funnel().submit(draft)
        self._tell_submitted([draft], [answer])
        return self._handle(task, answer)

    async def _await_room(
        self,
        task: BaseTask[..., R],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        options: JobOptions | None,
        block: Block,
    ) -> JobHandle[R]:
        from leasehold.queue.awaiting import wait_for_room

        queue = cast("TaskQueue", self)
        return await wait_for_room(
            lambda: self.asubmit_call(task, args, kwargs, options),
            block,
            store=self.store,
            ready=queue.ready,
            check_open=self._check_open,
            bridge=queue.bridge(),
        )

    def _funnel(self) -> Funnel:
        raise NotImplementedError

    # -- inside ------------------------------------------------------------------------------

    def _draft(
        self,
        task: BaseTask[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        options: JobOptions | None,
    ) -> Draft:
        codec = task.definition.codec
        payload = codec.encode_call(args, kwargs, self._bytes_max)
        return self._make_draft(task, payload, codec.name, options)

    def _draft_of(self, job: NewJob) -> tuple[BaseTask[..., Any], Draft]:
        if not isinstance(job, NewJob):
            raise InvalidJobError(f"submit_many takes NewJob(...) and task.job(...), not {job!r}")
        task = self._task_of(job.task)
        options = draft_safe(job.options)
        if job.document is ...:
            return task, self._draft(task, job.args, job.kwargs, options)
        what = f"the document for {task.name}"
        payload = encode_document(job.document, what, self._bytes_max)
        return task, self._make_draft(task, payload, "json", options)

    def _make_draft(
        self,
        task: BaseTask[..., Any],
        payload: bytes,
        codec: str,
        options: JobOptions | None,
    ) -> Draft:
        fields = task.draft_fields
        if options:
            fields = merged(fields, draft_fields(options))
        if "id" not in fields:
            return Draft(
                id=self._env.new_id(), task=task.name, payload=payload, codec=codec, **fields
            )
        return Draft(task=task.name, payload=payload, codec=codec, **fields)

    def _store_drafts(
        self,
        drafts: Sequence[Draft],
        *,
        partial: bool = False,
        connection: Connection | None = None,
    ) -> list[Submitted | LeaseholdError]:
        """The one way of all submits that block."""
        self._check_open()
        connection = connection or self._joined()
        if connection is None:
            self._ensure_workers()
        # Otherwise `connect` has started them: to register is a write beside the transaction.
        if self.blobs is not None and has_large(drafts):
            drafts, answers = submit_large(
                lambda kept: self._hand_over(kept, partial, connection), self.blobs, drafts
            )
        else:
            answers = self._hand_over(drafts, partial, connection)
        self._tell_submitted(drafts, answers)
        return answers

    def _hand_over(
        self, drafts: Sequence[Draft], partial: bool, connection: Connection | None
    ) -> list[Submitted | LeaseholdError]:
        if connection is not None:
            return self.store.submit_within(connection, drafts, partial=partial)
        return self.store.submit(drafts, partial=partial) if drafts else []

    def _joined(self) -> Connection | None:
        """The connection of the running task's own transaction, if it leads to this store."""
        connection = open_connection()
        return None if connection is None or not self.store.owns(connection) else connection

    def _store_when_room(
        self, drafts: Sequence[Draft], block: Block, connection: Connection | None
    ) -> list[Submitted | LeaseholdError]:
        check_may_wait(connection or self._joined())
        return store_when_room(
            lambda: self._store_drafts(drafts),
            block,
            store=self.store,
            ready=cast("TaskQueue", self).ready,
            check_open=self._check_open,
            env=self._env,
        )

    def _tell_submitted(
        self, drafts: Sequence[Draft], answers: Sequence[Submitted | LeaseholdError]
    ) -> None:
        if self._hooks.on_submit is None:
            return
        for draft, answer in zip(drafts, answers, strict=True):
            if isinstance(answer, Submitted) and not answer.is_duplicate:
                call_hook_of_caller(self._hooks.on_submit, draft)

    def _answer(
        self, task: BaseTask[..., Any], answer: Submitted | LeaseholdError
    ) -> JobHandle[Any] | LeaseholdError:
        return self._handle(task, answer) if isinstance(answer, Submitted) else answer

    def _handle(self, task: BaseTask[..., R], answer: Submitted) -> JobHandle[R]:
        return JobHandle(
            cast("TaskQueue", self),
            answer.id,
            task.definition.codec,
            is_duplicate=answer.is_duplicate,
        )
