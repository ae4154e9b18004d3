"""Hooks: plain callables that are called when something happens to jobs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ParamSpec

from leasehold.core.model.job import Draft
from leasehold.core.model.lease import Lease, Settled
from leasehold.core.model.outcome import JobError
from leasehold.errors import LeaseLostError, StoreError
from leasehold.worker.copies import here, leave_copy
from leasehold.worker.safelog import safe_logger

logger = safe_logger("leasehold.worker")

_P = ParamSpec("_P")


@dataclass(frozen=True, slots=True)
class Hooks:
    """The hooks to call. A hook should return at once; an error that it raises is only logged."""

    on_submit: Callable[[Draft], None] | None = None
    """A job was submitted through the queue object that holds this hook."""
    on_start: Callable[[Lease], None] | None = None
    """A job was given to its executor, which runs it as soon as a slot is free."""
    on_success: Callable[[Lease, Settled], None] | None = None
    on_failure: Callable[[Lease, Settled, JobError], None] | None = None
    """An attempt failed, whether or not another one follows."""
    on_dead: Callable[[Lease, Settled, JobError], None] | None = None
    """An attempt failed and the job will not be tried again."""
    on_lease_lost: Callable[[Lease, LeaseLostError | StoreError], None] | None = None
    on_progress: Callable[[Lease, dict[str, Any]], None] | None = None
    """A running job's progress was written to the store: the latest document, at most twice a
    second. Progress within the task's own transaction is not reported: it commits with the end.
    """


def call_hook(hook: Callable[_P, None] | None, *args: _P.args, **kwargs: _P.kwargs) -> None:
    """Call a hook on one of the worker's own threads; any exception or exit of it is logged.

    A process that the hook has forked ends when the hook does.
    """
    if hook is None:
        return
    pid = here()
    try:
        hook(*args, **kwargs)
    except BaseException as error:
        if here() != pid:
            leave_copy(error)
        logger.exception("a hook failed: %r", hook)
    else:
        if here() != pid:
            leave_copy()


def call_hook_of_caller(
    hook: Callable[_P, None] | None, *args: _P.args, **kwargs: _P.kwargs
) -> None:
    """Call a hook on the application's own thread, in which it may exit or fork."""
    if hook is None:
        return
    try:
        hook(*args, **kwargs)
    except Exception:
        logger.exception("a hook failed: %r", hook)
