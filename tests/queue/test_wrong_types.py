"""Every public call refuses arguments of a wrong type: by name, before anything is done."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
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
from leasehold.queue.filters import FilterFields
from leasehold.queue.handle import JobHandle
from leasehold.queue.options import JobOptions
from leasehold.queue.queues import QueueOptions
from leasehold.queue.scheduling import ScheduleOptions
from leasehold.queue.tasks import Decorator
from leasehold.testing import assert_submitted, drain, refute_submitted, submitted
from leasehold.worker.heartbeat import Heartbeat
from leasehold.worker.leases import LeaseManager
from leasehold.worker.supervisor import Supervisor
from leasehold.worker.sweep import RecoverySweep
from support.public_calls import fill, public_calls


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
TO_FILL_IN = object()
FEW = ("a list", "a dict", "bytes", "a thing")
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
    "str | Sequence[str] | None": WRONG.keys() - {"a list", "no text", "text", "no UTF-8", "None"},
    "Mapping[str, Any] | None": WRONG.keys() - {"a dict", "None"},
    "Mapping[str, str] | None": WRONG.keys() - {"a dict", "None"},
    "DependencyPolicy": WRONG.keys() - {"None"},
}
"""By annotation: the values that no call takes; of the others, some calls take some."""

OPTIONS = {
    each.__name__: each for each in (FilterFields, JobOptions, QueueOptions, ScheduleOptions)
}
ELSEWHERE = {
    *("start", "shutdown", "ashutdown", "run_worker", "connect"),  # They begin and end it.
    *("join", "ajoin"),  # They take a timeout only.
}
CALLS = public_calls(ELSEWHERE)


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
        "job": "done",
        "jobs": ["done"],
        "name": "red",
        "func": "t",
        "task": "t",
        "timing": Every(60),
        "worker": "w",
        "prefix": "o",
        "version": "v1",
        "queue": "red",
        "path": "/nonexistent/copy.db",
        "seconds": 60,
        "expression": "* * * * *",
        "priority": 3,
        "metrics": "completed",
        "command": ["ls"],
        "limit_key": "k",
        "limit": 2,
        "value": 3,
        "module": "json",
        "order": CancelAll("x"),
        "wait": 0,
        "operation_id": "x",
        "workflow": Workflow(),
    }
    return values[name]


ALWAYS_GIVEN = {"lease": {"wait"}, "lease_many": {"wait"}}
"""Calls that would wait."""


def made(url: str) -> TaskQueue:
    queue = TaskQueue(url, num_workers=0)
    if queue.list_queues():
        return queue
    fill(queue)
    queue.submit("t", job_id="held", queue="green")
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


def arguments(queue: TaskQueue, call: str, wrong: str) -> tuple[list[Any], dict[str, Any]]:
    """Arguments that are taken, but for one, which is still to be filled in."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for name, _, parameter in parameters(CALLS[call]):
        is_open = parameter is None or parameter.kind is parameter.VAR_POSITIONAL
        is_optional = is_open or parameter.default is not parameter.empty
        if name == wrong:
            given = TO_FILL_IN
        elif is_optional and name not in ALWAYS_GIVEN.get(call, ()):
            continue
        else:
            given = good(queue, call, name)
        by_place = parameter is not None and parameter.kind in {
            parameter.POSITIONAL_ONLY,
            parameter.VAR_POSITIONAL,
        }
        if by_place:
            args.append(given)
        else:
            kwargs[name] = given
    return args, kwargs


def attempt(queue: TaskQueue, call: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    owner, _, method = call.rpartition(".")
    answer = getattr(getattr(queue, owner) if owner else queue, method)(*args, **kwargs)
    if inspect.iscoroutine(answer):
        answer = asyncio.run(answer)
    if isinstance(answer, Decorator):
        answer(len)
    if isinstance(answer, Iterator):
        list(answer)


def fault(name: str, annotation: str, is_option: bool, kind: str, error: Any) -> str | None:
    """What is wrong with how a call took a value, if anything."""
    if error is None:
        # An option that is None is not given.
        is_given = not (is_option and kind == "None")
        never = is_given and kind in NEVER.get(annotation, ())
        return f"{name} ({annotation}): {kind} is taken" if never else None
    named = isinstance(error, TypeError | ValueError) and name in str(error)
    return None if named or isinstance(error, LeaseholdError) else f"{name}: {kind}: {error!r}"


@pytest.mark.parametrize("call", CALLS)
def test_it_is_refused_by_name_and_nothing_is_done(
    url: str, call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # "soon" is a good name for a copy of the store.
    queue = made(url)
    faults: list[str | None] = []
    for name, annotation, parameter in parameters(CALLS[call]):
        args, kwargs = arguments(queue, call, name)
        before = everything(queue)
        # Opening a file takes a while: there, the kinds that look least like what is wanted.
        for kind in WRONG if url == "memory://" else FEW:
            value = WRONG[kind]
            if name in {"timeout", "block", "wait"} and (value is None or plain_seconds(value)):
                continue  # That would wait.
            if (call, name) == ("task", "max_retries") and isinstance(value, int | float):
                continue  # It is told with the first submit which numbers are too large.
            filled = [value if each is TO_FILL_IN else each for each in args]
            named = {key: value if each is TO_FILL_IN else each for key, each in kwargs.items()}
            error: Exception | None = None
            try:
                attempt(queue, call, filled, named)
            except Exception as raised:
                error = raised
            faults.append(fault(name, annotation, parameter is None, kind, error))
            if error is None and everything(queue) != before:  # It was carried out: begin anew.
                queue.shutdown()
                queue = made("memory://")
                args, kwargs = arguments(queue, call, name)
                before = everything(queue)
        assert everything(queue) == before, f"{call} was refused for {name}, half done"
    queue.shutdown()
    assert [each for each in faults if each] == []


ARGUMENTS: dict[str, Callable[[TaskQueue], Any]] = {
    "name must be text": lambda q: q.pause_queue(WRONG["a number"]),
    "name must be text, not None": lambda q: q.schedules.pause(WRONG["None"]),
    "queue must be text": lambda q: q.peek(WRONG["a number"]),
    "version must be text": lambda q: q.mark_deploy(WRONG["a number"]),
    "text must be text": lambda q: q.mark_deploy("v1", WRONG["a number"]),
    "reason must be text": lambda q: q.cancel("done", reason=WRONG["a number"]),
    "cursor must be text": lambda q: q.search_page(cursor=WRONG["a number"]),
    "job must be a job, its handle or its id": lambda q: q.get(WRONG["a number"]),
    "job must be .* not None": lambda q: q.history(WRONG["None"]),
    "each of jobs must be a job": lambda q: q.cancel_each(["done", WRONG["a number"]]),
    "each of jobs must be .* not None": lambda q: q.dead_letters.discard(WRONG["None"]),
    "parent must be a job": lambda q: q.lease("none", wait=0, parent=WRONG["a number"]),
}
"""By what a TypeError says: arguments of calls."""
PARTS: dict[str, tuple[str, Callable[[TaskQueue], Any]]] = {
    "search(queue)": ("invalid_filter", lambda q: list(q.search(queue=WRONG["a number"]))),
    "search(ids)": ("invalid_filter", lambda q: list(q.search(ids=[WRONG["a number"]]))),
    "search(task)": ("invalid_filter", lambda q: list(q.search(task=WRONG["a number"]))),
    "search(status)": ("invalid_filter", lambda q: list(q.search(status=WRONG["a number"]))),
    "search(text)": ("invalid_filter", lambda q: list(q.search(text=WRONG["a number"]))),
    "search(metadata)": ("invalid_filter", lambda q: list(q.search(metadata=WRONG["a number"]))),
    "count(priority_min)": ("invalid_filter", lambda q: q.count(priority_min=WRONG["text"])),
    "count(created_from)": ("invalid_filter", lambda q: q.count(created_from=WRONG["text"])),
    "submit(queue)": ("invalid_job", lambda q: q.submit("t", queue=WRONG["a number"])),
    "submit(parent_id)": ("invalid_job", lambda q: q.submit("t", parent_id=WRONG["a number"])),
    "submit(depends_on)": ("invalid_job", lambda q: q.submit("t", depends_on=WRONG["a number"])),
    "create_queue": ("invalid_queue", lambda q: q.create_queue("x", max_depth=WRONG["text"])),
    "settings.set": ("invalid_setting", lambda q: q.settings.set("max_retries", WRONG["text"])),
}
"""By the code of the error: parts of what is described to a call."""


@pytest.mark.parametrize("words", ARGUMENTS)
def test_an_argument_of_a_wrong_type_is_a_type_error(words: str) -> None:
    with made("memory://") as queue, pytest.raises(TypeError, match=words):
        ARGUMENTS[words](queue)


@pytest.mark.parametrize("call", PARTS)
def test_a_part_of_a_wrong_type_is_the_error_of_the_whole(call: str) -> None:
    code, attempted = PARTS[call]
    with made("memory://") as queue, pytest.raises(LeaseholdError) as refused:
        attempted(queue)
    assert refused.value.code == code
    assert isinstance(refused.value, ValueError)


@pytest.fixture(scope="module", params=["memory", "sqlite"])
def queue(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TaskQueue]:
    """One for all these calls: each is refused, and changes nothing."""
    file = tmp_path_factory.mktemp("wrong") / "jobs.db"
    with made("memory://" if request.param == "memory" else str(file)) as opened:
        yield opened


BESIDE: dict[str, tuple[str, Callable[[TaskQueue, Any], Any]]] = {
    "LeaseManager": ("worker", lambda q, bad: LeaseManager(q.store, bad)),
    "acquire": ("queues", lambda q, bad: LeaseManager(q.store, "w").acquire(bad)),
    "acquire limit": ("limit", lambda q, bad: LeaseManager(q.store, "w").acquire(["red"], bad)),
    "renew": ("lease", lambda q, bad: LeaseManager(q.store, "w").renew(bad)),
    "complete": ("lease", lambda q, bad: LeaseManager(q.store, "w").complete(bad)),
    "fail": ("lease", lambda q, bad: LeaseManager(q.store, "w").fail(bad, ValueError("x"))),
    "snooze": ("lease", lambda q, bad: LeaseManager(q.store, "w").snooze(bad, 1)),
    "release": ("lease", lambda q, bad: LeaseManager(q.store, "w").release(bad)),
    "Heartbeat": ("worker", lambda q, bad: _heart(q, worker=bad)),
    "Heartbeat interval": ("interval_seconds", lambda q, bad: _heart(q, interval_seconds=bad)),
    "Heartbeat threshold": ("failure_threshold", lambda q, bad: _heart(q, failure_threshold=bad)),
    "Heartbeat.add": ("lease", lambda q, bad: _heart(q).add(bad)),
    "Heartbeat.discard": ("lease", lambda q, bad: _heart(q).discard(bad)),
    "RecoverySweep": (
        "interval_seconds",
        lambda q, bad: RecoverySweep(q.store, interval_seconds=bad),
    ),
    "Supervisor": ("actor", lambda q, bad: Supervisor(q.store, actor=bad)),
    "find_stuck": ("silent_seconds", lambda q, bad: Supervisor(q.store).find_stuck(bad)),
    "Supervisor.requeue": ("jobs", lambda q, bad: Supervisor(q.store).requeue(bad)),
    "drain": ("queue", lambda q, bad: drain(bad)),
    "drain jobs_max": ("jobs_max", lambda q, bad: drain(q, jobs_max=bad)),
    "submitted": ("queue", lambda q, bad: submitted(bad, "t")),
    "submitted kwargs": ("kwargs", lambda q, bad: submitted(q, "t", kwargs=bad)),
    "assert_submitted": ("count", lambda q, bad: assert_submitted(q, "t", count=bad)),
    "refute_submitted": ("queue", lambda q, bad: refute_submitted(bad, "t")),
    "JobHandle.cancel": ("reason", lambda q, bad: JobHandle(q, "one", None).cancel(bad)),
    "JobHandle.wait": ("timeout", lambda q, bad: JobHandle(q, "done", None).wait(bad)),
    "Workflow": ("workflow_id", lambda q, bad: Workflow(bad)),
    "Workflow.add": ("name", lambda q, bad: Workflow().add(bad, NewJob("t"))),
    "Workflow.add job": ("job", lambda q, bad: Workflow().add("a", bad)),
    "Workflow.add after": ("after", lambda q, bad: Workflow().add("a", NewJob("t"), after=bad)),
    "JobFilter": ("queues", lambda q, bad: JobFilter(queues=bad)),
    "AsyncTaskQueue.peek": ("queue", lambda q, bad: asyncio.run(_peek(bad))),
    "TaskQueue num_workers": (
        "num_workers",
        lambda q, bad: TaskQueue("memory://", num_workers=bad),
    ),
    "TaskQueue queues": (
        "queues",
        lambda q, bad: TaskQueue("memory://", num_workers=0, queues=bad),
    ),
    "TaskQueue lease": (
        "lease_seconds",
        lambda q, bad: TaskQueue("memory://", num_workers=0, lease_seconds=bad),
    ),
    "TaskQueue actor": ("actor", lambda q, bad: TaskQueue("memory://", num_workers=0, actor=bad)),
    "TaskQueue client": (
        "client",
        lambda q, bad: TaskQueue("memory://", num_workers=0, client=bad),
    ),
    "TaskQueue hook": (
        "on_start",
        lambda q, bad: TaskQueue("memory://", num_workers=0, on_start=bad),
    ),
}


def _heart(queue: TaskQueue, **options: Any) -> Heartbeat:
    def ignore(*_: Any) -> None: ...

    given = {"worker": "w", **options}
    return Heartbeat(queue.store, on_lost=ignore, on_cancel=ignore, **given)


async def _peek(queue: Any) -> None:
    async with AsyncTaskQueue("memory://", num_workers=0) as opened:
        await opened.peek(queue)


@pytest.mark.parametrize("kind", ["a list of things", "a thing", "bytes"])
@pytest.mark.parametrize("call", BESIDE)
def test_the_parts_beside_a_queue_say_it_too(queue: TaskQueue, call: str, kind: str) -> None:
    name, make = BESIDE[call]
    before = everything(queue)
    with pytest.raises((LeaseholdError, TypeError, ValueError)) as caught:
        make(queue, WRONG[kind])
    assert isinstance(caught.value, LeaseholdError) or name in str(caught.value)
    assert everything(queue) == before


def test_a_lease_that_was_not_found_is_explained(queue: TaskQueue) -> None:
    with pytest.raises(TypeError, match=r"lease\(\) found no job"):
        queue.ack(queue.lease("empty", worker="w", wait=0))  # type: ignore[arg-type]


def test_the_message_says_what_was_given_and_what_is_wanted(queue: TaskQueue) -> None:
    with pytest.raises(TypeError, match=r"^queue must be text, not \['a'\]$"):
        queue.peek(["a"])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^limit must be a whole number, not '3'$"):
        queue.peek("red", limit="3")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^force must be True or False, not 'no'$"):
        queue.delete_queue("red", force="no")  # type: ignore[arg-type]
