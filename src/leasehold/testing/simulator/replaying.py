"""The same trace on another store: every public answer must agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any, Final

import msgspec

from leasehold.core.contract.store import Store
from leasehold.core.model.job import DEFAULT_QUEUE, Draft
from leasehold.core.model.lease import SweepReport
from leasehold.core.model.retry import Exponential
from leasehold.core.model.search import JobFilter
from leasehold.env import Env, ManualClock, from_micros
from leasehold.errors import LeaseholdError
from leasehold.testing.simulator.calllog import Applied, CallLog
from leasehold.testing.simulator.ranks import Ranks, asked_of
from leasehold.testing.simulator.runner import MakeStore

FREE: Final = frozenset({"next_due_at"})
"""Only hints."""


class Trace(msgspec.Struct):
    """A store's answers to a log of calls, and its state in the end."""

    answers: list[tuple[str, Any]]
    """The call in words, and the answer."""
    jobs: dict[str, Any]
    """By job id: snapshot, history and attempts."""
    stats: Any

    def differences(self, other: Trace) -> Iterator[str]:
        """Where two stores disagree, in order."""
        for (call, mine), (_, theirs) in zip(self.answers, other.answers, strict=True):
            if mine != theirs:
                yield f"{call}\n  one answers {mine}\n  the other {theirs}"
        for job_id in sorted({*self.jobs, *other.jobs}):
            mine, theirs = self.jobs.get(job_id), other.jobs.get(job_id)
            if mine != theirs:
                yield f"{job_id}\n  is {mine}\n  or {theirs}"
        if self.stats != other.stats:
            yield f"stats\n  are {self.stats}\n  or {other.stats}"


def replay(log: CallLog, make_store: MakeStore, seed: int = 0) -> Trace:
    """Apply a run's calls, in the order and at the times they reached the first store."""
    clock = ManualClock(from_micros(log.applied[0].reading.wall))
    store = make_store(Env(clock=clock, random=Random(seed)))
    logged, own = Ranks(), Ranks()
    try:
        answers = []
        for applied in log.applied:
            answers.append(_apply(store, clock, applied, logged, own))
            logged.learn(_comparable(applied.answer))
        return Trace(answers, _jobs(store, own), store.stats())
    finally:
        store.close()


def _apply(
    store: Store, clock: ManualClock, applied: Applied, logged: Ranks, own: Ranks
) -> tuple[str, Any]:
    clock.show(applied.reading)
    arguments = asked_of(_foretellable(applied.arguments), logged, own)
    try:
        answer = getattr(store, applied.method)(**arguments)
    except LeaseholdError as error:
        answer = error
    told = _comparable(answer)
    own.learn(told)
    return f"#{applied.number} {applied.method}({applied.arguments})", own.ranked(told)


def _foretellable(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The same call without the effects that a store may have when it likes.

    That is jitter, cancelling jobs that start too late, and promoting due jobs of queues that were
    not asked for: so there is one queue only.
    """
    given = dict(arguments)
    if "drafts" in given:
        given["drafts"] = [_foretellable_draft(draft) for draft in given["drafts"]]
    if given.get("request") is not None:
        given["request"] = msgspec.structs.replace(given["request"], queues=(DEFAULT_QUEUE,))
    if "queue" in given:
        given["queue"] = None
    return given


def _foretellable_draft(draft: Draft) -> Draft:
    policy = draft.retry or Exponential()
    if isinstance(policy, Exponential):
        policy = msgspec.structs.replace(policy, jitter=0.0)
    return msgspec.structs.replace(
        draft, queue=DEFAULT_QUEUE, retry=policy, start_within_seconds=None
    )


def _comparable(answer: Any) -> Any:
    """Plain data, errors with their words, without values that differ between stores."""
    if isinstance(answer, LeaseholdError):
        return f"{type(answer).__name__}: {answer}"
    if isinstance(answer, SweepReport):
        answer = msgspec.structs.replace(answer, scan_ms=0.0)
    if isinstance(answer, list | tuple):
        return [_comparable(each) for each in answer]
    if isinstance(answer, msgspec.Struct):
        return {
            name: _comparable(getattr(answer, name))
            for name in answer.__struct_fields__
            if name not in FREE
        }
    return answer


def _jobs(store: Store, own: Ranks) -> dict[str, Any]:
    jobs = store.search(JobFilter(), limit=10_000).jobs
    return {
        job.id: [
            own.ranked(_comparable(each), job.id)
            for each in (job, store.history(job.id), store.attempts(job.id))
        ]
        for job in jobs
    }
