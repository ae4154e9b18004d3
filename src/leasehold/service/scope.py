"""The rights of a caller with a scope: dependencies, workflows, and names.

A job of another queue is treated like one that does not exist: a caller who could depend on it
would learn that it exists, and how and when it ends, and could raise its priority. A job under the
name of another's job or workflow would be counted, shown and leased as part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from leasehold.core.contract.store import Store
from leasehold.core.model.job import Draft, Job
from leasehold.core.model.own_names import own_prefix
from leasehold.core.model.schedule import ScheduleDraft, not_found
from leasehold.core.rules.dependencies import refused_dependency, unknown_dependency
from leasehold.errors import ForbiddenError, LeaseholdError
from leasehold.service.caller import Caller


def refusals(
    caller: Caller, drafts: Sequence[Draft], find: Callable[[str], Job | None]
) -> dict[str, LeaseholdError]:
    """The refusals, by id, of drafts that depend on jobs the caller may not see, or on such drafts,
    and of drafts that belong to a foreign workflow.
    """
    found: dict[str, LeaseholdError] = {}
    if caller.queues is None:
        return found
    own = {draft.id for draft in drafts}
    for draft in drafts:
        if draft.parent_id is not None and draft.parent_id not in own:
            refusal = _refused_parent(caller, draft, draft.parent_id, find)
            if refusal is not None:
                found[draft.id] = refusal
    for draft in drafts:
        for needed in draft.depends_on:
            if needed not in own and not caller.may_see(find(needed)):
                found.setdefault(draft.id, unknown_dependency(draft.id, needed))
    news: dict[str, LeaseholdError] = dict(found)
    while news:
        news = {
            draft.id: refused_dependency(draft.id, needed, news[needed])
            for draft in drafts
            for needed in draft.depends_on
            if needed in news and draft.id not in found
        }
        found |= news
    return found


def _refused_parent(
    caller: Caller, draft: Draft, parent_id: str, find: Callable[[str], Job | None]
) -> ForbiddenError | None:
    """It is refused whether such a job exists or not, since the difference would reveal it."""
    assert caller.queues is not None
    prefixes = [own_prefix(queue) for queue in sorted(caller.queues)]
    if parent_id.startswith(tuple(prefixes)) or caller.may_see(find(parent_id)):
        return None
    return ForbiddenError(
        f"job {draft.id} cannot have the parent {parent_id!r}: token {caller.name!r} is limited "
        f"to some queues, so a parent is a job of those, or a name that begins with "
        f"{' or '.join(map(repr, prefixes))}"
    )


def check_schedule(caller: Caller, store: Store, draft: ScheduleDraft) -> None:
    """Refuse a schedule that the caller may not set."""
    for refusal in refusals(caller, [draft.job], store.get).values():
        raise refusal
    _check_schedule_name(caller, store, draft.name, draft.job.queue)


def _check_schedule_name(caller: Caller, store: Store, name: str, queue: str) -> None:
    """Refuse the name of a schedule that the caller may not set, or that could be another's."""
    if caller.queues is None:
        return
    known = store.get_schedule(name)
    if known is None or known.queue not in caller.queues:
        caller.check_new_name("the name of a schedule", name, queue)
        if known is not None:
            raise not_found(name)
