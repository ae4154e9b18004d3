"""Jobs that depend on others: how they are submitted and replayed, and what may not be discarded.

Guard: where a dependency stands is read in the write that stores its dependent. It has either ended
before, which is seen here, or it ends later, and finds the row in `blocker`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from leasehold.core.model.codes import POLICY_CODE, STATUS_OF
from leasehold.core.model.job import Draft
from leasehold.core.model.status import Status
from leasehold.core.rules.intake import NewLinks
from leasehold.core.rules.submitting import due_at
from leasehold.stores.postgres.server.connection import unnested
from leasehold.stores.postgres.submitting import inheritance
from leasehold.stores.postgres.submitting.dependents import resolve
from leasehold.stores.postgres.writing.step import Step
from leasehold.stores.tables.linking import WAIT_AGAIN

FIND_DEPENDENCIES: Final = """
    SELECT job.id, job.seq, finished.status FROM job LEFT JOIN finished USING (seq)
    WHERE id = ANY($1)
"""
ADD_DEPENDENTS: Final = (
    f"INSERT INTO dependent SELECT *, NULL FROM {unnested('bigint bigint bigint')}"  # noqa: S608  # our own names
)
ADD_DEPENDENCIES: Final = (
    f"INSERT INTO dependency SELECT * FROM {unnested('bigint bigint bigint text')}"  # noqa: S608  # as above
)
ADD_BLOCKERS: Final = f"INSERT INTO blocker SELECT * FROM {unnested('bigint bigint')}"  # noqa: S608  # as above
REMEMBER_ENDED: Final = (
    "INSERT INTO resolving (seq) SELECT unnest($1::bigint[]) ON CONFLICT DO NOTHING"
)


def find_dependencies(step: Step, job_ids: Collection[str]) -> dict[str, tuple[int, Status | None]]:
    """The numbers of jobs, and how each has ended if it has; without ids that no job has."""
    rows: Any = step.execute(FIND_DEPENDENCIES, (list(job_ids),))
    return {job_id: (seq, None if code is None else STATUS_OF[code]) for job_id, seq, code in rows}


def link(
    step: Step,
    numbers: Sequence[int],
    drafts: Sequence[Draft],
    links: Mapping[str, NewLinks],
    known: Mapping[str, int],
) -> None:
    """Link new jobs, which have these numbers, to each other and to those that are known."""
    own = {draft.id: seq for seq, draft in zip(numbers, drafts, strict=True)}
    number_of = {**known, **own}
    dependents, dependencies, blockers = [], [], []
    for draft in drafts:
        if draft.id not in links:
            continue
        seq = own[draft.id]
        needs, blocked_by = links[draft.id]
        policy = POLICY_CODE[draft.on_dependency_failure]
        dependents.append((seq, policy, due_at(draft, step.now)))
        dependencies += [(seq, n, number_of[needed], needed) for n, needed in enumerate(needs)]
        blockers += [(number_of[needed], seq) for needed in blocked_by]
    step.many(ADD_DEPENDENTS, dependents)
    step.many(ADD_DEPENDENCIES, dependencies)
    _block(step, blockers)
    inheritance.raise_needed(step, numbers)


def tell_again(step: Step, ended: Sequence[int]) -> None:
    """Tell those who wait for these jobs, which ended earlier, as if they had just ended."""
    step.execute(REMEMBER_ENDED, (list(ended),))
    step.some_unresolved = True
    resolve(step)


# -- replaying and discarding ------------------------------------------------------------------


def block_again(
    step: Step, seq: int, needed: Sequence[int], *, version: int, attempts: int, events: int
) -> None:
    """Put a replayed job where it waits for its dependencies."""
    step.execute(WAIT_AGAIN, (seq, step.now, version, attempts, events))
    _block(step, [(each, seq) for each in needed])
    inheritance.raise_needed(step, (seq,))


def _block(step: Step, blockers: Sequence[tuple[int, int]]) -> None:
    step.many(ADD_BLOCKERS, blockers)
    step.somebody_waits = True
