"""What a caller who may see some queues only may depend on, and how they name schedules.

A job of another queue is as unknown to them as one that is not there: whoever could depend on it
would learn that it exists, and how and when it ends, and could raise its priority.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from leasehold.core.contract.store import Store
from leasehold.core.model.job import Draft, Job
from leasehold.core.model.schedule import not_found
from leasehold.core.rules.dependencies import refused_dependency, unknown_dependency
from leasehold.errors import UnknownDependencyError
from leasehold.service.caller import Caller


def refusals(
    caller: Caller, drafts: Sequence[Draft], find: Callable[[str], Job | None]
) -> dict[str, UnknownDependencyError]:
    """By id, the drafts that depend on jobs which the caller may not see, or on such drafts."""
    found: dict[str, UnknownDependencyError] = {}
    if caller.queues is None or not any(draft.depends_on for draft in drafts):
        return found
    own = {draft.id for draft in drafts}
    for draft in drafts:
        for needed in draft.depends_on:
            if needed not in own and not caller.may_see(find(needed)):
                found.setdefault(draft.id, unknown_dependency(draft.id, needed))
    news = found
    while news:
        news = {
            draft.id: refused_dependency(draft.id, needed, news[needed])
            for draft in drafts
            for needed in draft.depends_on
            if needed in news and draft.id not in found
        }
        found |= news
    return found


def check_schedule_name(caller: Caller, store: Store, name: str, queue: str) -> None:
    """Refuse the name of a schedule that is not the caller's to set, or could be another's."""
    if caller.queues is None:
        return
    known = store.get_schedule(name)
    if known is None or known.queue not in caller.queues:
        caller.check_new_name("the name of a schedule", name, queue)
        if known is not None:
            raise not_found(name)
