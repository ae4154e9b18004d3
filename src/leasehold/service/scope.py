"""Dependencies of new jobs, for a caller who may see some queues only.

A job of another queue is as unknown to them as one that is not there: whoever could depend on it
would learn that it exists, and how and when it ends, and could raise its priority.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from leasehold.core.model.job import Draft, Job
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
