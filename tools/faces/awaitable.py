"""The awaitable faces: which class each is derived from, and what is special about it.

A method is handed over to a thread of the bridge unless a table here says otherwise.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from tools.faces import blocking
from tools.faces.definitions import Definition, Module, definitions, module
from tools.faces.text import method, module_text, overload

PATH: Final = "src/leasehold/aio/faces.py"

NOT_AWAITED: Final = {
    "load_tasks": "imports a module, when a program starts",
    "start": "starts threads; `async with` does it",
    "keep_alive": "`async with` waits, not the call",
}
"""The same on both faces."""

MAKES_TASKS: Final = frozenset({"task", "every", "cron"})
"""Called when a module is imported, so not awaited; but the submits of these tasks are."""

LEFT_OUT: Final = {
    "run_worker": "it takes the main thread and its signals: `queue.queue.run_worker()`",
    "bridge": "carries the awaitable calls",
    "codec_for": "for code that decodes by itself",
    "submit_call": "what a task's own submit comes to",
    "lease_request": "a step of lease_many",
    "try_lease": "a step of lease_many",
    "hand_back": "a step of lease_many",
    "asubmit": "of the blocking queue: `submit`",
    "asubmit_call": "of the blocking queue",
    "asubmit_many": "of the blocking queue: `submit_many`",
    "asubmit_workflow": "of the blocking queue: `submit_workflow`",
    "aget": "of the blocking queue: `get`",
    "aget_status": "of the blocking queue: `get_status`",
    "aget_result": "of the blocking queue: `get_result`",
    "aresult_of": "of the blocking queue: `result_of`",
    "ajoin": "of the blocking queue: `join`",
    "await_end": "of the blocking queue: `wait`",
    "await_ends": "of the blocking queue: `wait`",
    "acancel": "of the blocking queue: `cancel`",
    "ashutdown": "of the blocking queue: `shutdown`",
    "ajob": "of the blocking handle: `job`",
    "astatus": "of the blocking handle: `status`",
    "aresult": "of the blocking handle: `result`",
    "aestimated_start": "of the blocking handle: `estimated_start`",
}
"""What only the blocking face has, and why."""

LONG: Final = frozenset(
    {
        *("prune", "check", "repair_clock", "backup", "peek", "purge_queue", "delete_queue"),
        *("cancel_many", "cancel_each", "replay_each", "discard_each", "reprioritize_each"),
        *("cancel_graph", "replay_graph"),
        *("DeadLetters.replay", "DeadLetters.discard", "DeadLetters.purge"),
        *("Operations.plan", "Operations.carry_out"),
    }
)
"""What may take minutes: it gets a thread of its own, so that no short call waits behind it."""

_HANDLE = "AsyncJobHandle({}, self._bridge)"
_WRAPPED: Final = {
    "JobHandle[R]": _HANDLE,
    "JobHandle[Any]": _HANDLE,
    "WorkflowRun": "AsyncWorkflowRun({}, self._bridge)",
}


@dataclass(frozen=True)
class Face:
    """One awaitable class."""

    name: str
    opening: str
    """The class statement, and what is written by hand."""
    inside: str
    """The object that blocks, as the methods reach it."""
    derived_from: tuple[tuple[str, str], ...]
    """Files below `src/leasehold/queue` and the classes in them."""
    bodies: Mapping[str, str] = field(default_factory=dict)
    """The methods that do not go to a thread: those that wait do it by callbacks."""
    plain: frozenset[str] = frozenset()
    """Properties that need no look at the store."""


HANDLE: Final = Face(
    name="AsyncJobHandle",
    opening='''
@refused_in_plain_code("job.{name}()", "queue.queue.wait(job.id)")
class AsyncJobHandle(Awaited, Generic[R]):
    """A job that was submitted, with everything about it to be awaited; see `JobHandle`."""

    __slots__ = ("_handle",)

    def __init__(self, handle: JobHandle[R], bridge: Callable[[], Bridge]) -> None:
        super().__init__(bridge)
        self._handle = handle

    def __repr__(self) -> str:
        return f"AsyncJobHandle({self.id!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AsyncJobHandle) and other._handle == self._handle

    def __hash__(self) -> int:
        return hash(self._handle)
''',
    inside="self._handle",
    derived_from=(("handle.py", "JobHandle"),),
    bodies={
        "wait": "return await self._handle.await_end(timeout)",
        "result": "return await self._handle.aresult(timeout)",
    },
    plain=frozenset({"id", "is_duplicate"}),
)

TASK: Final = Face(
    name="AwaitedTask",
    opening='''
@refused_in_plain_code("{task}.{name}()", "queue.queue.submit({task}, ...)")
class AwaitedTask(BaseTask[P, R], Generic[P, R, C]):
    """A task of an AsyncTaskQueue: called like its function, and submits are awaited; see `Task`.

    A call gives `C`: what the function returns, or for an async function what is to be awaited.
    """

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C:
        """Call the function itself, here and now."""
        result: C = self._definition.func(*args, **kwargs)
        return result
''',
    inside="self._submitting",
    derived_from=(("task.py", "SubmittingTask"),),
    bodies={
        "submit": "handle = await self._submitting.asubmit_call(\n"
        "    self, args, kwargs, block=self._block, connection=self._connection\n)\n"
        "return AsyncJobHandle(handle, self._submitting.bridge)",
    },
)

DECORATOR: Final = Face(
    name="AwaitedDecorator",
    opening='''
class AwaitedDecorator:
    """What `@queue.task(...)` of an AsyncTaskQueue is; see `Decorator`."""

    def __init__(self, decorator: Decorator) -> None:
        self._decorator = decorator
''',
    inside="self._decorator",
    derived_from=(("tasks.py", "Decorator"),),
    bodies={"__call__": "return _awaited(self._decorator(func))"},
)

_AWAITED: Final = '''
def _awaited(made: Any) -> Any:
    """A task, or what makes one, as the awaitable face gives it."""
    if isinstance(made, Decorator):
        return AwaitedDecorator(made)
    return made if isinstance(made, AwaitedTask) else AwaitedTask.like(made)
'''

WORKFLOW_RUN: Final = Face(
    name="AsyncWorkflowRun",
    opening='''
@refused_in_plain_code("run.{name}()", "queue.queue.wait(job.id)")
class AsyncWorkflowRun(Awaited, Mapping[str, AsyncJobHandle[Any]]):
    """A workflow that was submitted: its jobs' handles by name; see `WorkflowRun`."""

    def __init__(self, run: WorkflowRun, bridge: Callable[[], Bridge]) -> None:
        super().__init__(bridge)
        self._run = run

    def __repr__(self) -> str:
        return f"Async{self._run!r}"

    def __getitem__(self, name: str) -> AsyncJobHandle[Any]:
        return AsyncJobHandle(self._run[name], self._bridge)

    def __iter__(self) -> Iterator[str]:
        return iter(self._run)

    def __len__(self) -> int:
        return len(self._run)
''',
    inside="self._run",
    derived_from=(("workflow.py", "WorkflowRun"),),
    bodies={"wait": "return await self._run.await_end(timeout)"},
    plain=frozenset({"id", "last"}),
)

_PART = '''
@refused_in_plain_code("queue.{name}.{{name}}()", "queue.queue.{name}.{{name}}(...)")
class {face}(Awaited):
    """`queue.{name}` with everything to be awaited; see `{part}`."""

    def __init__(self, queue: TaskQueue) -> None:
        super().__init__(queue.bridge)
        self._queue = queue
'''
_ITERATED = """
    def __aiter__(self) -> AsyncIterator[{item}]:
        return aiter(self._each(lambda: iter(self._queue.{name})))
"""
_COUNTED = '''
    async def count(self) -> int:
        """How many there are: `len(...)` of the blocking one."""
        return await self._call(lambda: len(self._queue.{name}))
'''


def _part(file: str, part: str, *more: str, item: str = "") -> Face:
    name = {"DeadLetters": "dead_letters"}.get(part, part.lower())
    opening = "".join((_PART, *more)).format(face=f"Async{part}", part=part, name=name, item=item)
    # A queue that was shut down and opened again has another part of that name.
    return Face(f"Async{part}", opening, f"self._queue.{name}", ((file, part),))


PARTS: Final = (
    _part("schedules.py", "Schedules", _ITERATED, _COUNTED, item="Schedule"),
    _part("settings.py", "Settings", _ITERATED, item="SettingInfo"),
    _part("deadletters.py", "DeadLetters", _ITERATED, _COUNTED, item="Job"),
    _part("operations.py", "Operations", _ITERATED, item="Operation"),
    _part("archive.py", "Archive"),
)

_SUBMIT_MANY: Final = """\
if not partial:
    handles = await self.queue.asubmit_many(jobs, block=block, connection=connection)
    return [AsyncJobHandle(handle, self._bridge) for handle in handles]
answers = await self._call_within(
    connection, lambda: self.queue.submit_many(jobs, partial=True, connection=connection)
)
return [
    answer if isinstance(answer, LeaseholdError) else AsyncJobHandle(answer, self._bridge)
    for answer in answers
]"""
_WAIT: Final = """\
if isinstance(jobs, str) or not isinstance(jobs, Iterable):
    return await self.queue.await_end(jobs, timeout)
return await self.queue.await_ends(jobs, timeout)"""
_LEASE_MANY: Final = """\
request = self.queue.lease_request(limit, queue, worker, tasks, lease_seconds, parent)
return await wait_for_leases(
    self._bridge(), self.queue.ready, self.queue.try_lease, self.queue.hand_back, request, wait
)"""

QUEUE: Final = Face(
    name="AsyncQueueCalls",
    opening='''
@refused_in_plain_code("queue.{name}()", "queue.queue.{name}(...)")
class AsyncQueueCalls(Awaited):
    """What of an `AsyncTaskQueue` is derived from `TaskQueue`."""
''',
    inside="self.queue",
    derived_from=(*blocking.PARTS, ("life.py", "QueueLife"), ("facade.py", "TaskQueue")),
    bodies={
        "submit": "return AsyncJobHandle(\n"
        "    await self.queue.asubmit(func, *args, **kwargs), self._bridge\n)",
        "submit_many": _SUBMIT_MANY,
        "submit_workflow": "run = await self.queue.asubmit_workflow(\n"
        "    workflow, block=block, connection=connection\n)\n"
        "return AsyncWorkflowRun(run, self._bridge)",
        "wait": _WAIT,
        "get_result": "return await self.queue.aget_result(job, timeout)",
        "result_of": "return await self.queue.aresult_of(job, codec)",
        "join": "await self.queue.ajoin(timeout)",
        "lease": "leases = await self.lease_many(\n"
        "    1, queue, worker, tasks, wait, lease_seconds=lease_seconds, parent=parent\n)\n"
        "return leases[0] if leases else None",
        "lease_many": _LEASE_MANY,
        "shutdown": "await self.queue.ashutdown(wait, timeout)",
    },
)

_INIT_BODY: Final = """\
queue = TaskQueue({call})
super().__init__(queue.bridge)
self.queue = queue
{quotes}The queue underneath, for what blocks for good reason (`run_worker`).{quotes}
{plain}
{parts}
"""


def text() -> str:
    """The module with all of them."""
    sources = [module("leasehold/aio/awaited.py"), module("leasehold/queue/awaiting.py")]
    classes = ['P = ParamSpec("P")\nR = TypeVar("R")\nC = TypeVar("C")\n']
    for face in (HANDLE, TASK, DECORATOR, WORKFLOW_RUN, *PARTS, QUEUE):
        methods, read = _methods(face)
        if face is QUEUE:
            methods.insert(0, _init(read[-1]))
        classes.append(face.opening + "\n" + textwrap.indent("\n".join(methods), "    "))
        sources += read
    classes.append(_AWAITED)
    opening = (
        "# ruff: noqa: ASYNC109 - a timeout means the same here as in the calls that block.\n"
        '"""The awaitable faces, made by `make faces` from the classes that block: do not edit."""'
    )
    return module_text(opening, "\n".join(classes), PATH, sources)


AWAITABLE: Final = {
    r"JobHandle\b": "AsyncJobHandle",
    r"WorkflowRun\b": "AsyncWorkflowRun",
    r"Iterator\b": "AsyncItems",
    r"Decorator\b": "AwaitedDecorator",
    r"Task\[P, R\]": "AwaitedTask[P, R, R]",
    r"AsyncTask\[P, R\]": "AwaitedTask[P, R, Coroutine[Any, Any, R]]",
}
"""What the awaitable faces answer where the blocking ones answer this."""


def awaitable(returns: str) -> str:
    """What the awaitable method answers where the blocking one answers this."""
    for name, awaited in AWAITABLE.items():
        returns = re.sub(rf"\b{name}", awaited, returns)
    return returns


def _methods(face: Face) -> tuple[list[str], list[Module]]:
    sources = [module(f"leasehold/queue/{file}") for file, _ in face.derived_from]
    methods: dict[str, str] = {}
    for source, (_, class_name) in zip(sources, face.derived_from, strict=True):
        for definition in definitions(source, class_name, names=_names(face)):
            if definition.name in {*NOT_AWAITED, *LEFT_OUT, *blocking.BETWEEN_PARTS}:
                continue
            if not definition.is_property:
                methods[definition.name] = _method(face, class_name, definition)
            elif definition.name in face.plain:
                methods[definition.name] = _property(face, definition)
            elif face is not QUEUE:
                methods[definition.name] = _method(face, class_name, definition)
    return list(methods.values()), sources


def _names(face: Face) -> tuple[str, ...] | None:
    """A decorator has no public method: it is called itself."""
    return ("__call__",) if face is DECORATOR else None


def _init(facade: Module) -> str:
    [definition] = definitions(facade, "TaskQueue", names=("__init__",))
    plain = "\n".join(f"self.{name} = queue.{name}" for name in NOT_AWAITED)
    parts = "\n".join(
        f"self.{face.inside.removeprefix('self._queue.')} = {face.name}(queue)" for face in PARTS
    )
    body = _INIT_BODY.format(call=definition.call, plain=plain, parts=parts, quotes='"""')
    return method(definition, body, doc=None, returns="None")


def _property(face: Face, definition: Definition) -> str:
    value = f"{face.inside}.{definition.name}"
    value = _WRAPPED.get(definition.returns, "{}").format(value)
    made = method(
        definition,
        f"return {value}",
        doc=definition.doc,
        returns=awaitable(definition.returns),
    )
    return f"@property\n{made}"


_OVERLAP: Final = re.compile(r"  # type: ignore\[overload-overlap\].*")
"""The kinds of task of the awaitable face do not overlap."""


def _method(face: Face, class_name: str, definition: Definition) -> str:
    makes_tasks = definition.name in {*MAKES_TASKS, "__call__"}
    is_async = not (makes_tasks or definition.returns.startswith("Iterator["))
    overloads = [
        overload(
            _OVERLAP.sub("", header) if makes_tasks else header,
            awaitable(returns),
            is_async=is_async,
        )
        for header, returns in definition.overloads
    ]
    made = method(
        replace(definition, is_async=is_async),
        face.bodies.get(definition.name) or _handed_over(face, class_name, definition),
        doc=_doc(class_name, definition),
        returns=awaitable(definition.returns),
    )
    return "".join((*overloads, made))


def _handed_over(face: Face, class_name: str, definition: Definition) -> str:
    """Let a thread of the bridge make the call."""
    call = f"{face.inside}.{definition.name}"
    if definition.is_property:
        call = f"lambda: {call}"
    elif definition.call:
        call = f"lambda: {call}({definition.call})"
    if definition.returns.startswith("Iterator["):
        return f"return self._each({call})"
    if definition.name in MAKES_TASKS:
        # Type checkers match no overload with a call that gives all parameters.
        return (
            f"make: Any = {call.partition('(')[0].removeprefix('lambda: ')}\n"
            f"made: {awaitable(definition.returns)} = _awaited(make({definition.call}))\n"
            "return made"
        )
    if definition.has_connection:
        done = f"await self._call_within(connection, {call})"
    elif {definition.name, f"{class_name}.{definition.name}"} & LONG:
        done = f"await self._call_long({call})"
    else:
        done = f"await self._call({call})"
    if definition.returns == "None":
        return done
    return f"return {_WRAPPED.get(definition.returns, '{}').format(done)}"


def _doc(class_name: str, definition: Definition) -> str | None:
    if definition.doc is None:
        return None
    first, *more = textwrap.dedent(definition.doc).split("\n\n")
    first = first.strip().replace("Block until", "Wait until")
    owner = class_name if class_name in _NAMED else "TaskQueue"
    return f"{first}\n\nSee `{owner}.{definition.name}`.\n" if more else first


_NAMED: Final = frozenset(
    {"JobHandle", "WorkflowRun", "Schedules", "Settings", "DeadLetters", "Operations", "Archive"}
)
