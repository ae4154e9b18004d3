"""Answers and errors for a caller limited to some queues, without jobs of other queues.

A job of theirs may depend on a job of another queue, or belong to it, as arranged by a caller who
may see both. Its record, its history and refusals about it then name that job, and say why it
ended. Every answer of every operation and verb passes through here: a rule that each had to
remember would be forgotten in one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from typing import Any, Final

import msgspec

from leasehold.core.contract.store import Store
from leasehold.core.model.archive import ArchivedJob
from leasehold.core.model.error_documents import error_document, error_from
from leasehold.core.model.outcome import JobError
from leasehold.core.model.search import JobFilter
from leasehold.core.rules.dependencies import without_hidden
from leasehold.errors import LeaseholdError
from leasehold.service.caller import Caller

OUT_OF_SIGHT: Final = "(out of sight)"
"""Stands for the id of a job in another queue: that there is one is no secret, a dependent waits
for it.
"""
LOOKED_UP_AT_ONCE: Final = 500

_WORDS: Final = frozenset({"reason", "why", "message", "detail"})
"""Fields in which a dependency's end may be told."""
_GIVEN: Final = frozenset(
    {"payload", "payload_data", "result", "result_data", "metadata", "progress", "note", "lines"}
)
"""Fields with the applications' own data: they stay unchanged, whatever they say."""

IsHidden = Callable[[str], bool]


class HiddenJobs(msgspec.Struct, frozen=True):
    """Which of the jobs named in an answer must be hidden."""

    is_hidden: IsHidden
    """For dependencies: also one that was deleted, since its owner cannot be told."""
    is_foreign: IsHidden
    """Of parents, whose names need not be those of jobs."""


def shown(caller: Caller, store: Store, answer: Any) -> Any:
    """An answer as this caller may see it."""
    if caller.queues is None:
        return answer
    named: set[str] = set()
    told = _rewritten(answer, "", HiddenJobs(_noting(named), _noting(named)))
    return _rewritten(told, "", _sight_of(caller, store, named)) if named else told


def refused(caller: Caller, store: Store, error: LeaseholdError) -> LeaseholdError:
    """An error as this caller may be told it."""
    answer = shown(caller, store, error)
    assert isinstance(answer, LeaseholdError)
    return answer


def _noting(named: set[str]) -> IsHidden:
    def note(job_id: str) -> bool:
        named.add(job_id)
        return False

    return note


def _sight_of(caller: Caller, store: Store, named: AbstractSet[str]) -> HiddenJobs:
    queue_of: dict[str, str] = {}
    for part in _parts(named):
        found = store.search(
            JobFilter(ids=part), limit=len(part), without=("payload", "result", "metadata")
        )
        queue_of.update((job.id, job.queue) for job in found.jobs)
    for part in _parts(named - queue_of.keys()):
        for archived in _archived(store, part):
            # Of several under one id the latest comes first.
            queue_of.setdefault(archived.id, archived.queue)
    own = caller.queues or frozenset()
    return HiddenJobs(
        is_hidden=lambda job_id: queue_of.get(job_id) not in own,
        is_foreign=lambda job_id: job_id in queue_of and queue_of[job_id] not in own,
    )


def _parts(ids: AbstractSet[str]) -> Iterator[tuple[str, ...]]:
    in_order = sorted(ids)
    for start in range(0, len(in_order), LOOKED_UP_AT_ONCE):
        yield tuple(in_order[start : start + LOOKED_UP_AT_ONCE])


def _archived(store: Store, ids: tuple[str, ...]) -> Iterator[ArchivedJob]:
    cursor: str | None = None
    while True:
        page = store.search_archive(JobFilter(ids=ids), limit=LOOKED_UP_AT_ONCE, cursor=cursor)
        yield from page.jobs
        cursor = page.next_cursor
        if cursor is None:
            return


def _rewritten(value: Any, field: str, sight: HiddenJobs) -> Any:
    """The value; the same object where nothing in it is to be hidden."""
    if field in _GIVEN or isinstance(value, JobError):
        return value
    if field == "inherited_priority":
        return None  # from whom is not known here, and it may be a job of another queue
    if isinstance(value, str):
        return _rewritten_text(value, field, sight)
    if field == "depends_on" and isinstance(value, list | tuple):
        return type(value)(OUT_OF_SIGHT if sight.is_hidden(each) else each for each in value)
    if isinstance(value, LeaseholdError):
        document = error_document(value)
        changed = _rewritten(document, field, sight)
        return value if changed == document else error_from(changed)
    if isinstance(value, msgspec.Struct):
        changes = _changes({name: getattr(value, name) for name in value.__struct_fields__}, sight)
        return msgspec.structs.replace(value, **changes) if changes else value
    if isinstance(value, dict):
        return {**value, **_changes(value, sight)}
    if hasattr(value, "_asdict"):
        fields = value._asdict()
        return type(value)(**{**fields, **_changes(fields, sight)})
    if isinstance(value, list | tuple):
        return type(value)(_rewritten(each, field, sight) for each in value)
    return value


def _rewritten_text(value: str, field: str, sight: HiddenJobs) -> str | None:
    if field == "parent_id":
        return None if sight.is_foreign(value) else value
    return without_hidden(value, sight.is_hidden) if field in _WORDS else value


def _changes(fields: dict[str, Any], sight: HiddenJobs) -> dict[str, Any]:
    rewritten = {name: _rewritten(each, name, sight) for name, each in fields.items()}
    return {name: each for name, each in rewritten.items() if each is not fields[name]}
