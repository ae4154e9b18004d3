"""A job as other languages submit it: JSON in, a draft out."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from leasehold.core.model.job import DependencyPolicy, Draft, MetadataValue, priority_of
from leasehold.core.model.limits import NAME_LENGTH_MAX
from leasehold.core.model.retry import RetryPolicy
from leasehold.env import Env
from leasehold.errors import InvalidJobError
from leasehold.queue.commands import command_job
from leasehold.service.caller import Caller
from leasehold.service.operation import Request

Moment = Annotated[datetime, Meta(tz=True)]
Name = Annotated[str, Meta(min_length=1, max_length=NAME_LENGTH_MAX)]
Priority = Annotated[int, Meta(ge=0, le=100)] | Literal["low", "medium", "high", "critical"]

_SAME_NAMES: Final = (
    "queue", "max_retries", "run_at", "delay_seconds", "deadline", "retry", "timeout_seconds",
    "lease_seconds", "start_within_seconds", "result_ttl_seconds", "metadata", "idempotency_key",
    "parent_id", "on_dependency_failure", "limit_key",
)  # fmt: skip


class NewJob(Request):
    """A job to be submitted: a task with its arguments or payload, or a command."""

    task: Name | None = None
    args: list[Any] | None = None
    kwargs: dict[str, Any] | None = None
    payload: Any | UnsetType = UNSET
    """Any JSON document, in place of args and kwargs."""
    command: str | list[str] | None = None
    """For the built-in task that runs programs: text for a shell, or a list for none. Needs a token
    with the right to submit commands, and a worker that allows them."""
    cwd: str | None = None
    env: dict[str, str] | None = None
    stdin: str | None = None
    id: Name | None = None
    queue: Name = "default"
    priority: Priority = 50
    max_retries: int | None = None
    retry: RetryPolicy | None = None
    run_at: Moment | None = None
    delay_seconds: float | None = None
    deadline: Moment | None = None
    timeout_seconds: float | None = None
    lease_seconds: float | None = None
    start_within_seconds: float | None = None
    result_ttl_seconds: float | None = None
    metadata: dict[str, MetadataValue] | None = None
    idempotency_key: Name | None = None
    parent_id: Name | None = None
    depends_on: tuple[Name, ...] = ()
    on_dependency_failure: DependencyPolicy = "cancel"
    limit_key: Name | None = None

    def draft(self, caller: Caller, env: Env, made_id: str | None = None) -> Draft:
        """The draft for the store; raises InvalidJobError for one that makes no sense.

        `made_id` is for a job without an id that may be sent again: then it has the same one.
        """
        task, payload = self._work()
        caller.check_task(task)
        caller.check_queue(self.queue)
        if self.id is not None:
            caller.check_new_name("the id of a job", self.id, self.queue)
        return Draft(
            id=self.id or made_id or env.new_id(),
            task=task,
            payload=msgspec.json.encode(payload),
            priority=priority_of(self.priority),
            depends_on=self.depends_on,
            client=caller.name,
            **{name: getattr(self, name) for name in _SAME_NAMES},
        )

    def _work(self) -> tuple[str, Any]:
        """The task, and its payload."""
        if (self.command is None) == (self.task is None):
            raise InvalidJobError("a job has either a task or a command")
        if self.command is not None:
            self._refuse("a command", "args", "kwargs", "payload")
            made = command_job(self.command, cwd=self.cwd, env=self.env, stdin=self.stdin)
            return str(made.task), made.document
        assert self.task is not None
        self._refuse("a task", "cwd", "env", "stdin")
        if self.payload is UNSET:
            return self.task, {"args": self.args or [], "kwargs": self.kwargs or {}}
        if self.args is not None or self.kwargs is not None:
            raise InvalidJobError("a task gets args and kwargs, or a payload, not both")
        return self.task, self.payload

    def _refuse(self, what: str, *names: str) -> None:
        for name in names:
            if getattr(self, name) not in (None, UNSET):
                raise InvalidJobError(f"{what} has no {name}")
