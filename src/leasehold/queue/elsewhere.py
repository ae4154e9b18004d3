"""Names that other job queues use for what is called otherwise here."""

from __future__ import annotations

from typing import Final, NoReturn

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
FOREIGN_OPTIONS: Final = {"countdown": "delay", "eta": "run_at"}
"""Options of a submit, and what they are called here."""


def no_attribute_of_task(task: object, name: str) -> NoReturn:
    """Raise the AttributeError for a task that has no such attribute."""
    raise _missing("task", task, name, _OF_TASKS.get(name))


def no_attribute_of_queue(queue: object, name: str) -> NoReturn:
    """Raise the AttributeError for a queue that has no such attribute."""
    raise _missing("queue", queue, name, _OF_QUEUES.get(name))


def _missing(what: str, thing: object, name: str, here: str | None) -> AttributeError:
    message = f"{type(thing).__name__!r} object has no attribute {name!r}"
    if here is not None:
        # Without its name and object Python adds no guess of its own, which would contradict.
        return AttributeError(f"{message}: here it is {what}.{here}")
    return AttributeError(message, name=name, obj=thing)
