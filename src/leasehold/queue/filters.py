"""Filters as keyword arguments: the same ones for search, cancel, replay, discard and purge."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypedDict

from leasehold.core.contract.store import Store
from leasehold.core.model import checked
from leasehold.core.model.job import Job, MetadataValue
from leasehold.core.model.phrases import listed
from leasehold.core.model.search import HeavyField, JobFilter
from leasehold.core.model.status import Status
from leasehold.core.model.text import plain, plain_text, shown
from leasehold.errors import InvalidFilterError, InvalidJobError
from leasehold.queue.options import JobRef, id_of, plain_metadata
from leasehold.queue.task import TaskLike, name_of

PAGE_SIZE: Final = 500


class FilterFields(TypedDict, total=False):
    """The fields of `JobFilter`; a single value may stand for a list of one."""

    ids: Sequence[JobRef]
    queue: str | Sequence[str]
    status: Status | str | Sequence[Status | str]
    task: TaskLike | Sequence[TaskLike]
    priority_min: int
    priority_max: int
    created_from: datetime
    created_before: datetime
    finished_from: datetime
    finished_before: datetime
    metadata: Mapping[str, MetadataValue]
    idempotency_key: str
    parent_id: JobRef
    limit_key: str
    error_text: str
    text: str


def filter_of(where: JobFilter | None, fields: FilterFields) -> JobFilter:
    """One filter, from a `JobFilter` or from keyword arguments.

    >>> filter_of(None, {"status": "dead", "queue": ["a", "b"]}).statuses
    (<Status.DEAD: 'dead'>,)
    """
    if where is not None:
        if fields:
            raise InvalidFilterError("give either a JobFilter or keyword arguments, not both")
        return checked.instance("where", where, JobFilter)
    try:
        return JobFilter(**_known(fields))
    except (TypeError, InvalidJobError) as error:
        raise InvalidFilterError(str(error)) from None


def _known(fields: FilterFields) -> dict[str, Any]:
    """The fields in the words of `JobFilter`."""
    known: dict[str, Any] = {}
    for name, value in fields.items():
        translate = _TRANSLATIONS.get(name)
        if translate is not None:
            field, convert = translate
            known[field] = tuple(convert(item) for item in _many(value))
        elif name == "parent_id":
            known[name] = id_of(value, "parent_id")  # type: ignore[arg-type]
        elif name == "metadata":
            known[name] = plain_metadata(value)  # type: ignore[arg-type]
        elif name in FilterFields.__annotations__:
            known[name] = plain(value)
        else:
            raise InvalidFilterError(
                f"there is no filter {name!r}; the filters are "
                f"{listed(FilterFields.__annotations__)}{_ELSEWHERE.get(name, '')}"
            )
    return known


def found(store: Store, where: JobFilter, without: Collection[HeavyField] = ()) -> Iterator[Job]:
    """All matching jobs, last submitted first, fetched page by page."""
    cursor: str | None = None
    while True:
        page = store.search(where, limit=PAGE_SIZE, cursor=cursor, without=without)
        yield from page.jobs
        cursor = page.next_cursor
        if cursor is None:
            return


def _many(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list | tuple | set | frozenset) else (value,)


def _queue(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidFilterError(f"a queue is named by text, not by {shown(value)}")
    return plain_text(value)


def _status(value: Status | str) -> Status:
    try:
        return Status(value)
    except ValueError as error:
        raise InvalidFilterError(str(error)) from None


_ELSEWHERE: Final = {
    "limit": "; a search is an iterator: itertools.islice(queue.search(...), n) takes the first n",
}
_TRANSLATIONS: Final[dict[str, tuple[str, Callable[[Any], Any]]]] = {
    "ids": ("ids", lambda value: id_of(value, "each of ids")),
    "queue": ("queues", _queue),
    "status": ("statuses", _status),
    "task": ("tasks", name_of),
}
