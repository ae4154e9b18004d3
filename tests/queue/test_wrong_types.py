"""Arguments of a wrong type are refused by every public call: by name, and before anything is done."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from leasehold import (
    AsyncTaskQueue,
    CancelAll,
    Every,
    JobFilter,
    LeaseholdError,
    NewJob,
    TaskQueue,
    Workflow,
)
from leasehold.core.model.durations import plain_seconds
from leasehold.core.model.lease import Lease
from leasehold.queue.archive import Archive
from leasehold.queue.deadletters import DeadLetters
from leasehold.queue.facade import INTERNAL
from leasehold.queue.filters import FilterFields
from leasehold.queue.handle import JobHandle
from leasehold.queue.operations import Operations
from leasehold.queue.options import JobOptions
from leasehold.queue.queues import QueueOptions
from leasehold.queue.schedules import Schedules
from leasehold.queue.scheduling import ScheduleOptions
from leasehold.queue.settings import Settings
from leasehold.testing import assert_submitted, drain, refute_submitted, submitted
from leasehold.worker.heartbeat import Heartbeat
from leasehold.worker.leases import LeaseManager
from leasehold.worker.supervisor import Supervisor
from leasehold.worker.sweep import RecoverySweep


class Thing:
    """Of no type that any call takes."""


WRONG: dict[str, Any] = {
    "a list": ["a"],
    "a list of things": [Thing()],
    "a dict": {"a": 1},
    "None": None,
    "bytes": b"x",
    "a thing": Thing(),
    "a huge number": 10**400,
    "a number": 3,
    "half": 1.5,
    "below zero": -1,
    "no number": float("nan"),
    "no text": "",
    "text": "soon",
    "no UTF-8": "a\udceb",
}
NO_TEXT = WRONG.keys() - {"no text", "text", "no UTF-8"}
NO_LIST = WRONG.keys() - {"a list", "a list of things", "a dict"}
NEVER: dict[str, set[str] | frozenset[str]] = {
    "str": NO_TEXT,
    "str | None": NO_TEXT - {"None"},
    "int": WRONG.keys() - {"a number", "below zero"},
    "int | None": WRONG.keys() - {"None", "a number", "below zero", "half", "a huge number"},
    "bool": set(WRONG),
    "date | None": WRONG.keys() - {"None"},
    "datetime": WRONG.keys() - {"None"},
    "datetime | None": WRONG.keys() - {"None"},
    "Lease": set(WRONG),
    "Job": set(WRONG),
    "JobRef": NO_TEXT,
    "Workflow": set(WRONG),
    "Plan": set(WRONG),
    "Operation": set(WRONG),
    "JobFilter | None": WRONG.keys() - {"None"},
    "Breaker | None": WRONG.keys() - {"None"},
    "ExecutorKind | None": WRONG.keys() - {"None", "no text"},
    "Iterable[JobRef]": NO_LIST,
    "Iterable[NewJob]": NO_LIST | {"a list of things"},
    "Iterable[Lease]": set(WRONG),
    "Sequence[Any]": NO_LIST,
    "Sequence[TaskLike] | None": NO_LIST - {"None"} | {"a list of things"},
    "str | Sequence[str]": WRONG.keys() - {"a list", "no text", "text", "no UTF-8"},
    "str | Sequence[str] | None": WRONG.keys()
    - {"a list", "no text", "text", "no UTF-8", "None"},
    "Mapping[str, Any] | None": WRONG.keys() - {"a dict", "None"},
    "Mapping[str, str] | None": WRONG.keys() - {"a dict", "None"},
    "DependencyPolicy": WRONG.keys() - {"None"},
}
"""By annotation: the values that no call takes; of the others, some calls take some."""

PARTS = {
    "": TaskQueue,
    "dead_letters.": DeadLetters,
    "operations.": Operations,
    "archive.": Archive,
    "settings.": Settings,
    "schedules.": Schedules,
}
OPTIONS = {each.__name__: each for each in (FilterFields, JobOptions, QueueOptions, ScheduleOptions)}
ELSEWHERE = {
    *("start", "shutdown", "ashutdown", "run_worker", "connect"),  # They begin and end it.
    *("join", "ajoin"),  # They take a timeout only.
}
CALLS = {
    prefix + name: call
    for prefix, part in PARTS.items()
    for name, call in inspect.getmembers(part, inspect.isfunction)
    if not name.startswith("_") and name not in INTERNAL | ELSEWHERE
}


def parameters(call: Callable[..., Any]) -> Iterator[tuple[str, str, Any]]:
    """Name, annotation and kind of each parameter, those of `Unpack[...]` one by one."""
    for each in list(inspect.signature(call).parameters.values())[1:]:
        if each.kind is not each.VAR_KEYWORD:
            yield each.name, str(each.annotation), each
            continue
        unpacked = re.search(r"Unpack\[(\w+)\]", str(each.annotation))
        # A submit takes the arguments of the function, too; options are among them.
        options = OPTIONS[unpacked[1]] if unpacked else JobOptions
        for name, annotation in options.__annotations__.items():
            yield name, getattr(annotation, "__forward_arg__", str(annotation)), None


def good(queue: TaskQueue, call: str, name: str) -> Any:
    """A value that is taken, for the parameters beside the wrong one."""
    if name in {"lease", "leases"}:
        queue.submit("t", queue="green")
        lease = queue.lease("green", worker="w", wait=0)
        return lease if name == "lease" else [lease]
    if name == "operation":
        return queue.operations.begin(queue.operations.plan(CancelAll("x"), queue="red"))
    if name == "plan":
        return queue.operations.plan(CancelAll("x"), queue="red")
    if name == "name" and "." in call:
        return "poll_interval" if call.startswith("settings.") else "daily"
    if name == "job" and call in {"payload_of", "check_job"}:
        return queue.get("one") if call == "payload_of" else NewJob("t")
    values = {
        **{"job": "done", "jobs": ["done"], "name": "red", "func": "t", "task": "t"},
        **{"timing": Every(60), "worker": "w", "prefix": "o", "version": "v1", "queue": "red"},
        **{"path": "/nonexistent/copy.db", "seconds": 60, "expression": "* * * * *"},
        **{"priority": 3, "metrics": "completed", "command": ["ls"], "limit_key": "k"},
        **{"limit": 2, "value": 3, "module": "json", "order": CancelAll("x"), "wait": 0},
        **{"operation_id": "x", "workflow": Workflow()},
    }
    return values[name]


ALWAYS_GIVEN = {"lease": {"wait"}, "lease_many": {"wait"}}
"""Calls that would wait."""


def made(url: str) -> TaskQueue:
    queue = TaskQueue(url, num_workers=0)
    if queue.list_queues():
        return queue
    queue.create_queue("red")
    queue.submit("t", job_id="one", queue="red", max_retries=3)
    queue.submit("t", job_id="done", queue="blue")
    queue.ack(queue.lease("blue", worker="w", wait=0) or pytest.fail(), 7)
    queue.submit("t", job_id="gone", queue="blue", max_retries=0)
    queue.nack(queue.lease("blue", worker="w", wait=0) or pytest.fail(), "broken")
    queue.submit("t", job_id="held", queue="green")
    queue.mark_deploy("v1")
    queue.schedule("daily", "t", Every(timedelta(days=1)))
    return queue


def everything(queue: TaskQueue) -> list[Any]:
    return [
        list(queue.search()),
        queue.list_queues(),
        list(queue.schedules),
        [info.value for info in queue.settings],
        queue.audit_log(1000),
        queue.deploys(),
    ]


def attempt(queue: TaskQueue, call: str, wrong: str, value: Any) -> BaseException | None:
    """Make a call with one wrong argument; answers the error."""
    owner, _, method = call.rpartition(".")
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for name, _, parameter in parameters(CALLS[call]):
        is_open = parameter is None or parameter.kind is parameter.VAR_POSITIONAL
        is_optional = is_open or parameter.default is not parameter.empty
        if name == wrong:
            given = value
        elif is_optional and name not in ALWAYS_GIVEN.get(call, ()):
            continue
        else:
            given = good(queue, call, name)
        if not is_open and parameter.kind is not parameter.POSITIONAL_ONLY:
            kwargs[name] = given
        elif parameter is None:
            kwargs[name] = given
        else:
            args.append(given)
    before = everything(queue)
    try:
        answer = getattr(getattr(queue, owner) if owner else queue, method)(*args, **kwargs)
        if inspect.iscoroutine(answer):
            answer = asyncio.run(answer)
        if call in {"every", "cron"} or (call == "task" and wrong != "func"):
            answer(len)
        if isinstance(answer, Iterator):
            list(answer)
    except Exception as error:
        assert everything(queue) == before, f"{call}({wrong}={value!r}) was refused, half done"
        return error
    return None


@pytest.mark.parametrize("call", CALLS)
def test_it_is_refused_by_name(url: str, call: str) -> None:
    queue = made(url)
    faults = []
    for name, annotation, parameter in parameters(CALLS[call]):
        for kind in WRONG if url == "memory://" else ("a list", "a dict", "bytes", "a thing"):
            value = WRONG[kind]
            if name in {"timeout", "block", "wait"} and (value is None or plain_seconds(value)):
                continue  # That would wait.
            error = attempt(queue, call, name, value)
            if error is None:
                queue.shutdown()
                queue = made("memory://")  # The call has changed something: begin anew.
                # An option that is None is not given.
                is_option = parameter is None and value is None
                if kind in NEVER.get(annotation, ()) and not is_option:
                    faults.append(f"{name} ({annotation}): {kind} is taken")
            elif not isinstance(error, LeaseholdError | TypeError | ValueError) or not (
                isinstance(error, LeaseholdError) or name in str(error)
            ):
                faults.append(f"{name} ({annotation}): {kind}: {error!r}")
    queue.shutdown()
    assert faults == []
