"""The rules of dependencies: which jobs may wait for which, and how one job's end affects another.

Both stores ask here, inside the write in which a job is submitted or ends.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from leasehold.core.model.job import DependencyPolicy, Draft
from leasehold.core.model.records import Submitted
from leasehold.core.model.status import Status
from leasehold.errors import (
    CycleError,
    InvalidTransitionError,
    LeaseholdError,
    UnknownDependencyError,
)

REASON_LENGTH_MAX: Final = 300
"""A bound on a dependency's reason inside its dependent's; a long chain would repeat them all."""
CYCLE_SHOWN_MAX: Final = 20

_NAMES_A_DEPENDENCY: Final = re.compile(r"dependency (.+?) (is|was) (completed|dead|cancelled)\b")
"""The wording of `told`."""
_NAMES_A_DEPENDENT: Final = re.compile(r"job (\S+), which has not ended, depends on it")
"""The wording of `refuse_discard`."""

J = TypeVar("J")
"""A store's own handle of a job."""

Verdict = Submitted | LeaseholdError | None
"""The fate of a draft: a duplicate, a refusal, or (None) a new job."""


def consequence(policy: DependencyPolicy, ended: Status) -> Status | None:
    """How a dependency's end changes its dependent; None when it no longer blocks anything."""
    if ended is Status.COMPLETED or policy == "ignore":
        return None
    return Status.DEAD if policy == "fail" else Status.CANCELLED


def is_in_the_way(policy: DependencyPolicy, ended: Status | None) -> bool:
    """Whether a dependency keeps its dependent from being pending; its status is None until it
    ends.

    One that ended badly does, unless that is ignored: it ends its dependent instead.
    """
    return ended is None or consequence(policy, ended) is not None


def told(dependency: str, ended: Status, reason: str | None) -> str:
    """A dependency's end in words: the message for its dependent's history, and the reason.

    >>> told("a", Status.DEAD, "ValueError: no")
    'dependency a is dead: ValueError: no'
    """
    verb = "was" if ended is Status.CANCELLED else "is"
    why = f": {reason[:REASON_LENGTH_MAX]}" if reason else ""
    return f"dependency {dependency} {verb} {ended}{why}"


def still_to_wait_for(
    job_id: str, policy: DependencyPolicy, needed: Iterable[tuple[J, str, Status | None]]
) -> list[J]:
    """The existing dependencies that a replayed job must wait for; refuses a replay that would be
    in vain.
    """
    unfinished = []
    for job, needed_id, status in needed:
        if status is None or not status.is_terminal:
            unfinished.append(job)
        elif is_in_the_way(policy, status):
            raise refuse_replay(job_id, needed_id, status)
    return unfinished


def refuse_replay(job_id: str, dependency: str, ended: Status) -> InvalidTransitionError:
    """The refusal of a replay whose job would only wait for a dependency that ended badly."""
    return InvalidTransitionError(
        f"job {job_id} cannot be replayed: {told(dependency, ended, None)}. Replay that one too, "
        "in the same call, before it, or all of it with replay_graph (queuectl retry --graph)"
    )


def unknown_dependency(job_id: str, needed: str) -> UnknownDependencyError:
    """The answer to a draft that depends on a job that does not exist."""
    return UnknownDependencyError(
        f"job {job_id} depends on {needed}, and there is no such job: submit it before, or in the "
        "same call"
    )


def refused_dependency(job_id: str, needed: str, refusal: LeaseholdError) -> UnknownDependencyError:
    """The answer to a draft that depends on a refused draft."""
    return UnknownDependencyError(f"job {job_id} depends on {needed}, which was refused: {refusal}")


def refuse_discard(job_id: str, dependent: str) -> InvalidTransitionError:
    """The answer to a discard of a job that an unfinished one depends on."""
    return InvalidTransitionError(
        f"job {job_id} cannot be discarded: job {dependent}, which has not ended, depends on it"
    )


def without_hidden(text: str, is_hidden: Callable[[str], bool]) -> str:
    """The messages above, for a reader who may not know of some of the jobs that they name.

    The text after a hidden dependency says why it ended, and may quote its own dependencies.

    >>> words = "dependency a was cancelled: dependency b is dead: ValueError: no"
    >>> without_hidden(words, lambda job_id: job_id == "b")
    'dependency a was cancelled: a dependency out of sight is dead'
    >>> without_hidden(words, lambda job_id: job_id == "a")
    'a dependency out of sight was cancelled'
    """
    for named in _NAMES_A_DEPENDENCY.finditer(text):
        if is_hidden(named[1]):
            text = f"{text[: named.start()]}a dependency out of sight {named[2]} {named[3]}"
            break
    return _NAMES_A_DEPENDENT.sub(
        lambda named: (
            "a job out of sight, which has not ended, depends on it"
            if is_hidden(named[1])
            else named[0]
        ),
        text,
    )


class SortedOut(NamedTuple):
    """The drafts of a partial call, with the invalid ones separated."""

    good: list[Draft]
    bad: dict[int, LeaseholdError]
    """By its place in the call."""
    refused: dict[str, LeaseholdError]
    """By its id, for the jobs that depend on it."""

    @classmethod
    def of(cls, drafts: Sequence[Draft]) -> SortedOut:
        bad: dict[int, LeaseholdError] = {}
        for index, draft in enumerate(drafts):
            try:
                draft.check()
            except LeaseholdError as error:
                bad[index] = error
        good = [draft for index, draft in enumerate(drafts) if index not in bad]
        return cls(good, bad, {drafts[index].id: error for index, error in bad.items()})

    def woven(
        self, answers: Iterable[Submitted | LeaseholdError]
    ) -> list[Submitted | LeaseholdError]:
        """The answers for the valid drafts, with the errors of the invalid ones in their places."""
        stored = iter(answers)
        count = len(self.good) + len(self.bad)
        return [self.bad[index] if index in self.bad else next(stored) for index in range(count)]


class SubmitPlan:
    """What becomes of the drafts of one call, some of which depend on others.

    `verdicts` are the verdicts on the drafts without their dependencies; `exists` says whether the
    store has a job with an id; `refused` are drafts of the call that were refused earlier; `gone`
    are the ids of drafts that are duplicates of pruned jobs.
    """

    def __init__(
        self,
        drafts: Sequence[Draft],
        verdicts: Sequence[Verdict],
        exists: Callable[[str], bool],
        refused: Mapping[str, LeaseholdError],
        gone: Collection[str] = (),
    ) -> None:
        self._drafts = drafts
        self._gone = gone
        self._exists = exists
        self._refused = refused
        self.verdicts = list(verdicts)
        """One per draft, with all dependencies taken into account."""
        self._first: dict[str, int] = {}
        """The draft for each id: of several, the first that was not refused."""
        for index, draft in enumerate(drafts):
            first = self._first.setdefault(draft.id, index)
            if isinstance(verdicts[first], LeaseholdError):
                self._first[draft.id] = index
        self.refusal = next((each for each in verdicts if isinstance(each, LeaseholdError)), None)
        """The first refusal, which may have caused others; None if nothing is refused."""
        self._judge_all()
        self.needs: list[tuple[str, ...]] = [
            tuple(dict.fromkeys(map(self._stands_for, draft.depends_on))) if verdict is None else ()
            for draft, verdict in zip(drafts, self.verdicts, strict=True)
        ]
        """The dependencies of each new job, with duplicates replaced by their originals."""

    def _judge_all(self) -> None:
        """Judge each draft after its dependencies; if that is impossible, there is a cycle."""
        waits = {
            index: {
                inner
                for inner in map(self._index, draft.depends_on)
                if inner is not None and self._is_open(inner)
            }
            for index, draft in enumerate(self._drafts)
            if self._is_open(index)
        }
        followers: dict[int, list[int]] = {}
        for index, inner in waits.items():
            for each in inner:
                followers.setdefault(each, []).append(index)
        ready = [index for index, inner in waits.items() if not inner]
        while waits:
            if not ready:
                ready = _cycle(waits)
                error = self._cycle_error(ready)
                for index in ready:
                    self.verdicts[index] = error
            for index in ready:
                refusal = self.verdicts[index] or self._judge(self._drafts[index])
                assert not isinstance(refusal, Submitted)
                self.verdicts[index] = refusal
                self.refusal = self.refusal or refusal
                del waits[index]
            freed = [each for index in ready for each in followers.get(index, ()) if each in waits]
            for index in ready:
                for each in followers.get(index, ()):
                    waits.get(each, set()).discard(index)
            ready = [index for index in dict.fromkeys(freed) if not waits[index]]
        for index, verdict in enumerate(self.verdicts):
            # A duplicate of a draft that is refused later is refused too.
            if (
                isinstance(verdict, Submitted)
                and verdict.id in self._first
                and self._drafts[index].id not in self._gone
            ):
                first = self.verdicts[self._first[verdict.id]]
                self.verdicts[index] = first if isinstance(first, LeaseholdError) else verdict

    def _is_open(self, index: int) -> bool:
        return self.verdicts[index] is None and bool(self._drafts[index].depends_on)

    def _index(self, job_id: str) -> int | None:
        """The index of the draft of this call that an id means, if any."""
        return self._first.get(self._stands_for(job_id))

    def _stands_for(self, job_id: str) -> str:
        if job_id in self._gone:
            return job_id  # Not the job that has the pruned job's id by now.
        index = self._first.get(job_id)
        verdict = None if index is None else self.verdicts[index]
        return verdict.id if isinstance(verdict, Submitted) else job_id

    def _judge(self, draft: Draft) -> LeaseholdError | None:
        for needed in draft.depends_on:
            if needed in self._gone:
                return UnknownDependencyError(
                    f"job {draft.id} depends on {needed}, a duplicate of a job that was pruned: "
                    "submit it without that dependency"
                )
            index = self._index(needed)
            refusal = self._refused.get(needed) if index is None else self.verdicts[index]
            if isinstance(refusal, LeaseholdError):
                return refused_dependency(draft.id, needed, refusal)
            if index is None and not self._exists(self._stands_for(needed)):
                return unknown_dependency(draft.id, needed)
        return None

    def _cycle_error(self, cycle: list[int]) -> CycleError:
        ids = [self._drafts[index].id for index in (*cycle, cycle[0])]
        left_out = len(ids) - CYCLE_SHOWN_MAX
        shown = ids if left_out <= 0 else [*ids[:CYCLE_SHOWN_MAX], f"({left_out} more)"]
        return CycleError(f"these jobs depend on each other in a cycle: {' -> '.join(shown)}")


def _cycle(waits: Mapping[int, set[int]]) -> list[int]:
    """Some cycle among jobs that each wait for another one: following the links must meet it."""
    path: dict[int, int] = {}
    index = next(iter(waits))
    while index not in path:
        path[index] = len(path)
        index = min(waits[index])
    return list(path)[path[index] :]
