"""The options of a submit, and `NewJob`, a submit as a value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol, TypedDict, Unpack, cast, get_args

from leasehold.core.contract.transactions import OwnConnection
from leasehold.core.model.durations import Seconds, given_seconds, plain_seconds
from leasehold.core.model.job import DependencyPolicy, MetadataValue, PriorityLike, priority_of
from leasehold.core.model.numbers import plain_number
from leasehold.core.model.phrases import did_you_mean, listed
from leasehold.core.model.retry import Constant, Delays, Exponential, Linear, RetryPolicy
from leasehold.core.model.text import is_text, plain, plain_text, shown
from leasehold.errors import InvalidJobError, JobNotFoundError
from leasehold.queue.elsewhere import FOREIGN_OPTIONS

if TYPE_CHECKING:
    from leasehold.queue.room import Block
    from leasehold.queue.task import BaseTask


class HasId(Protocol):
    """A handle or a snapshot: an object that knows its job's id."""

    @property
    def id(self) -> str: ...


JobRef = str | HasId
"""A job id, or a handle or snapshot of a job."""

RetryLike = RetryPolicy | Sequence[Seconds] | Seconds
"""A policy, a list of delays, or the same delay every time."""


class JobOptions(TypedDict, total=False):
    """All options of a job beside its task and arguments."""

    job_id: str
    queue: str
    priority: PriorityLike
    max_retries: int
    retry: RetryLike
    run_at: datetime
    delay: Seconds
    deadline: datetime
    timeout_seconds: Seconds
    lease_seconds: Seconds
    start_within_seconds: Seconds
    result_ttl_seconds: Seconds
    metadata: Mapping[str, MetadataValue]
    idempotency_key: str
    parent_id: JobRef
    depends_on: JobRef | Iterable[JobRef]
    on_dependency_failure: DependencyPolicy
    client: str
    limit_key: str


class TaskOptions(JobOptions, total=False):
    """The options for all submits through a task: of their jobs, and of the submit itself."""

    connection: OwnConnection
    block: Block


OPTION_NAMES: Final = frozenset(JobOptions.__annotations__)
TASK_OPTION_NAMES: Final = frozenset({*JobOptions.__annotations__, *TaskOptions.__annotations__})


class NewJob:
    """A job to submit, not yet encoded: a task, its arguments or a document, and options.

    >>> NewJob("mail:send", args=("a@b.c",), priority="high")
    NewJob('mail:send', args=('a@b.c',), priority='high')
    """

    __slots__ = ("args", "document", "kwargs", "options", "task")

    def __init__(
        self,
        task: BaseTask[..., Any] | Callable[..., Any] | str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        document: Any = ...,
        **options: Unpack[JobOptions],
    ) -> None:
        if document is not ... and (args or kwargs):
            raise InvalidJobError("a job has either arguments or a document as its payload")
        self.task = task
        self.args = tuple(args)
        self.kwargs = dict(kwargs or {})
        self.document = document
        """Any JSON document instead of arguments; `...` means that there is none."""
        self.options = options

    def __repr__(self) -> str:
        said = {"args": self.args, "kwargs": self.kwargs} | dict(self.options)
        if self.document is not ...:
            said["document"] = self.document
        task = self.task if isinstance(self.task, str) else getattr(self.task, "__name__", "task")
        parts = [f"{name}={value!r}" for name, value in said.items() if value not in ((), {})]
        return f"NewJob({', '.join([repr(task), *parts])})"


def id_of(job: JobRef, name: str = "job") -> str:
    """The job id of an id, handle or snapshot; raises TypeError for anything else.

    Every call that takes a job uses this, so a store never gets an invalid id.
    """
    job_id = job if isinstance(job, str) else getattr(job, "id", job)
    if not isinstance(job_id, str):
        raise TypeError(f"{name} must be a job, its handle or its id, not {job!r}")
    if not is_text(job_id):
        raise JobNotFoundError(f"there is no job {job_id!r}: ids are UTF-8 text")
    return plain_text(job_id)


def ids_of(jobs: Iterable[JobRef], name: str = "jobs") -> list[str]:
    """The ids of several jobs."""
    return [id_of(job, f"each of {name}") for job in jobs]


def split_options(kwargs: dict[str, Any]) -> tuple[dict[str, Any], JobOptions]:
    """The function's own keyword arguments, and the options: their names are reserved."""
    options = {name: value for name, value in kwargs.items() if name in OPTION_NAMES}
    if not options:
        return kwargs, {}
    own = {name: value for name, value in kwargs.items() if name not in options}
    return own, draft_safe(options)


def draft_safe(
    options: Mapping[str, Any], offered: Iterable[str] = TASK_OPTION_NAMES
) -> JobOptions:
    """The options that are not None; an unknown name is refused with those that are `offered`."""
    if not options:
        return {}
    unknown = options.keys() - OPTION_NAMES
    if unknown:
        name = min(unknown)
        here, offered = FOREIGN_OPTIONS.get(name), sorted(offered)
        is_here = here in offered or here in OPTION_NAMES
        near = f": did you mean {here!r}?" if is_here else did_you_mean(name, offered, 0.7)
        raise InvalidJobError(
            f"unknown option {name!r}{near}"
            f"{' The options are' if near else '; there are'} {listed(offered)}"
        )
    given = {name: value for name, value in options.items() if value is not None}
    return cast("JobOptions", given)


def draft_fields(options: JobOptions) -> dict[str, Any]:
    """The same options as fields of a `Draft`."""
    fields: dict[str, Any] = {}
    for name, value in options.items():
        translate = _TRANSLATIONS.get(name)
        if translate is not None:
            field, convert = translate
            fields[field] = convert(value)
        elif name in _DURATIONS:
            fields[name] = _seconds(name, value)
        else:
            fields[name] = value
    return fields


def merged(defaults: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """A draft's fields: the given ones override the task's own."""
    both = {**defaults, **fields}
    if "run_at" in fields and "delay_seconds" not in fields:
        both.pop("delay_seconds", None)
    if "delay_seconds" in fields and "run_at" not in fields:
        both.pop("run_at", None)
    return both


def retry_policy(value: RetryLike) -> RetryPolicy:
    """A policy, from a policy, a list of delays or one delay.

    >>> retry_policy([1, "10s"])
    Delays(seconds=(1, 10))
    """
    try:
        if isinstance(value, Exponential | Linear | Constant | Delays):
            return value
        if isinstance(value, list | tuple):
            return Delays(tuple(given_seconds("each delay", each) for each in value))
        seconds = plain_seconds(value)
        if seconds is not None:
            return Constant(seconds)
    except (TypeError, ValueError) as error:
        raise InvalidJobError(f"retry={value!r}: {error}") from error
    raise InvalidJobError(
        f"retry must be a policy, a list of delays or seconds, not {value!r}"
        + (": a function can only be given to @queue.task(retry=...)" if callable(value) else "")
    )


def _seconds(name: str, value: Any) -> float:
    try:
        return given_seconds(name, value)
    except ValueError as error:
        raise InvalidJobError(str(error)) from None


def _count(value: object) -> int | float:
    number = plain_number(value)
    if number is None:
        raise InvalidJobError(f"max_retries must be a number, not {value!r}")
    return number


def _text(name: str) -> Callable[[Any], str]:
    def convert(value: Any) -> str:
        if type(value) is str:
            return value
        if isinstance(value, str):
            return plain_text(value)
        raise InvalidJobError(f"{name} must be text, not {shown(value)}")

    return convert


def _policy(value: object) -> DependencyPolicy:
    if isinstance(value, str) and value in get_args(DependencyPolicy):
        return cast("DependencyPolicy", plain_text(value))
    allowed = listed(get_args(DependencyPolicy), "or")
    raise InvalidJobError(f"on_dependency_failure must be {allowed}, not {shown(value)}")


def _moment(value: datetime) -> datetime:
    if not isinstance(value, datetime):
        raise InvalidJobError(f"run_at and deadline must be datetimes, not {value!r}")
    return value


def plain_metadata(value: Mapping[str, MetadataValue]) -> dict[str, MetadataValue]:
    """Names and values of the built-in types; raises InvalidJobError if it is not a mapping."""
    if not isinstance(value, Mapping):
        raise InvalidJobError(f"metadata maps names to values, it is not {shown(value)}")
    return cast(
        "dict[str, MetadataValue]", {plain(name): plain(each) for name, each in value.items()}
    )


def _ids(value: JobRef | Iterable[JobRef]) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        return (_id("depends_on")(value),)
    return tuple(_id("each of depends_on")(job) for job in value)


def _id(name: str) -> Callable[[JobRef], str]:
    def convert(value: JobRef) -> str:
        try:
            return id_of(value, name)
        except TypeError as error:
            raise InvalidJobError(str(error)) from None

    return convert


_TRANSLATIONS: Final[dict[str, tuple[str, Callable[[Any], Any]]]] = {
    "job_id": ("id", _text("job_id")),
    "priority": ("priority", priority_of),
    "retry": ("retry", retry_policy),
    "run_at": ("run_at", _moment),
    "deadline": ("deadline", _moment),
    "delay": ("delay_seconds", lambda value: _seconds("delay", value)),
    "max_retries": ("max_retries", _count),
    "metadata": ("metadata", plain_metadata),
    **{name: (name, _text(name)) for name in ("queue", "idempotency_key", "limit_key", "client")},
    "on_dependency_failure": ("on_dependency_failure", _policy),
    "parent_id": ("parent_id", _id("parent_id")),
    "depends_on": ("depends_on", _ids),
}
_DURATIONS: Final = frozenset(
    {"timeout_seconds", "lease_seconds", "start_within_seconds", "result_ttl_seconds"}
)
