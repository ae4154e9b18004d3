"""Names that other job queues use for things that have different names here."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, NoReturn, TypeVar, cast

from leasehold.core.model.phrases import did_you_mean

F = TypeVar("F", bound=Callable[..., None])

_OF_TASKS: Final = {
    "delay": "submit(...)",
    "apply_async": "options(...).submit(...)",
    "send": "submit(...)",
    "send_with_options": "options(...).submit(...)",
    "enqueue": "submit(...)",
    "defer": "submit(...)",
    "schedule": "options(delay=...).submit(...), or queue.schedule(...) for what recurs",
    "s": "job(...), for chains and groups",
    "signature": "job(...), for chains and groups",
}
_OF_QUEUES: Final = {
    "enqueue": "submit(function, ...)",
    "enqueue_call": "submit(function, ...)",
    "enqueue_in": "submit(function, ..., delay=...)",
    "enqueue_at": "submit(function, ..., run_at=...)",
    "send_task": "submit('name', ...)",
    "put": "submit(function, ...)",
    "actor": "task",
    "job": "task, for the decorator, or get(job_id)",
    "fetch_job": "get(job_id)",
    "close": "shutdown()",
}
FOREIGN_OPTIONS: Final = {
    "countdown": "delay",
    "eta": "run_at",
    "expires": "start_within_seconds",
    "time_limit": "timeout_seconds",
    "backoff": "retry",
    "timezone": "zone",
    "tz": "zone",
}
"""Options of a submit or a schedule, and what they are called here."""


_OF_CONSTRUCTORS: Final = {
    "workers": "num_workers",
    "concurrency": "num_workers",
    "worker_count": "num_workers",
    "broker": "url",
}


def with_advice(init: F) -> F:
    """The constructor, whose TypeError for a keyword that it does not have says what is meant."""
    names = inspect.signature(init).parameters

    @wraps(init)
    def checked_init(self: object, *args: Any, **kwargs: Any) -> None:
        unknown = next((name for name in kwargs if name not in names), None)
        if unknown is not None:
            here = _OF_CONSTRUCTORS.get(unknown)
            near = f": did you mean {here!r}?" if here else did_you_mean(unknown, names)
            raise TypeError(f"{type(self).__name__}() has no parameter {unknown!r}{near}")
        init(self, *args, **kwargs)

    return cast("F", checked_init)


def no_attribute_of_task(task: object, name: str) -> NoReturn:
    """Raise the AttributeError for a task that has no such attribute."""
    raise _missing("task", task, name, _OF_TASKS.get(name))


def no_attribute_of_queue(queue: object, name: str) -> NoReturn:
    """Raise the AttributeError for a queue that has no such attribute."""
    raise _missing("queue", queue, name, _OF_QUEUES.get(name))


def _missing(what: str, thing: object, name: str, here: str | None) -> AttributeError:
    message = f"{type(thing).__name__!r} object has no attribute {name!r}"
    if here is not None:
        # Without name and object, Python adds no suggestion of its own, which would contradict this
        # one.
        return AttributeError(f"{message}: here it is {what}.{here}")
    return AttributeError(message, name=name, obj=thing)
