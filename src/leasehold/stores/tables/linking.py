"""Replayed jobs and their dependencies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Final

from leasehold.core.model.codes import POLICY_CODE, STATUS_OF
from leasehold.core.model.graph import order_of
from leasehold.core.model.job import Draft, Job
from leasehold.core.model.status import Status
from leasehold.core.rules.dependencies import still_to_wait_for
from leasehold.core.rules.intake import NewLinks
from leasehold.core.rules.submitting import due_at
from leasehold.stores.tables.dependents import TableLinks
from leasehold.stores.tables.statements import Dialect
from leasehold.stores.tables.step import TableStep

FIND_DEPENDENCIES: Final = """
    SELECT job.id, job.seq, finished.status FROM job LEFT JOIN finished USING (seq) WHERE {}
"""
# The join leaves out dependencies that were discarded since.
DEPENDENCIES_NOW: Final = """
    SELECT needs, job.id, finished.status
    FROM dependency JOIN job ON job.seq = needs LEFT JOIN finished ON finished.seq = needs
    WHERE dependency.seq = $1 ORDER BY n
"""
WAIT_AGAIN: Final = "INSERT INTO waiting VALUES ($1, 1, NULL, $2, $3, $4, $5, NULL)"
# A replay means now, as for any job: the rest of a delay no longer counts.
START_ANEW: Final = "UPDATE dependent SET ended_by = NULL, due = $1 WHERE seq = $2"
LINKS_AMONG: Final = """
    SELECT job.id, (SELECT id FROM job AS needed WHERE needed.seq = needs)
    FROM job JOIN dependency USING (seq) WHERE {}
"""


class TableLinker(ABC):
    """Links jobs that begin to wait to their dependencies, in one write.

    Guard: the status of a dependency is read in the write that stores its dependent. The dependency
    has either ended before, which is seen here, or ends later, and finds the row in `blocker`.
    """

    links: ClassVar[type[TableLinks]]
    add_dependents: ClassVar[str]
    """For `many`, like the next three."""
    add_dependencies: ClassVar[str]
    add_blockers: ClassVar[str]
    remember_ended: ClassVar[str]

    def __init__(self, step: Any) -> None:
        self._step: TableStep = step

    @abstractmethod
    def _raise_needed(self, numbers: Sequence[int]) -> None:
        """Raise the jobs that these jobs, given by ascending numbers, have begun to wait for."""

    def find_dependencies(self, job_ids: Collection[str]) -> dict[str, tuple[int, Status | None]]:
        """The numbers of jobs, and how each has ended if it has; unknown ids are left out."""
        dialect = self.links.histories.dialect
        statement = FIND_DEPENDENCIES.format(dialect.among("id", "$1"))
        rows: Any = self._step.execute(statement, (dialect.listed(list(job_ids)),))
        return {
            job_id: (seq, None if code is None else STATUS_OF[code]) for job_id, seq, code in rows
        }

    def link(
        self,
        numbers: Sequence[int],
        drafts: Sequence[Draft],
        links: Mapping[str, NewLinks],
        known: Mapping[str, int],
    ) -> None:
        """Link new jobs with these numbers to each other and to known jobs."""
        step = self._step
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
        step.many(self.add_dependents, dependents)
        step.many(self.add_dependencies, dependencies)
        self._block(blockers)
        self._raise_needed(numbers)

    def tell_again(self, ended: Sequence[int]) -> None:
        """Apply the ends of these jobs, which ended earlier, to their dependents as if they had
        just ended.
        """
        self._step.many(self.remember_ended, [(seq,) for seq in ended])
        self._step.some_unresolved = True
        self.links.resolve(self._step)

    def block_again(
        self, seq: int, needed: Sequence[int], *, version: int, attempts: int, events: int
    ) -> None:
        """Make a replayed job wait for its dependencies."""
        self._step.execute(WAIT_AGAIN, (seq, self._step.now, version, attempts, events))
        self._block([(each, seq) for each in needed])
        self._raise_needed((seq,))

    def _block(self, blockers: Sequence[tuple[int, int]]) -> None:
        self._step.many(self.add_blockers, blockers)
        self._step.somebody_waits = True


def waits_again_for(step: TableStep, seq: int, job: Job) -> list[int]:
    """The numbers of the jobs that a replayed job must wait for; refuses a replay in vain."""
    if not job.depends_on:
        return []
    needed = (
        (number, needed_id, None if code is None else STATUS_OF[code])
        for number, needed_id, code in step.execute(DEPENDENCIES_NOW, (seq,)).fetchall()
    )
    unfinished = still_to_wait_for(job.id, job.on_dependency_failure, needed)
    step.execute(START_ANEW, (step.now, seq))
    return unfinished


def replay_order(step: TableStep, dialect: Dialect, job_ids: Sequence[str]) -> list[int]:
    """The indexes of these ids, dependencies first."""
    links = LINKS_AMONG.format(dialect.among("job.id", "$1"))
    depends_on: dict[str, list[str]] = {}
    for job_id, needed_id in step.execute(links, (dialect.listed(job_ids),)).fetchall():
        if needed_id is not None:  # It may have been discarded since.
            depends_on.setdefault(job_id, []).append(needed_id)
    return order_of(job_ids, depends_on)
