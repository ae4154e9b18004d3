"""Orders about jobs: cancel, replay, discard, reprioritize, purge. Each is written once, here.

A store provides an `OrderDesk`, which reads and writes one job at a time inside one write. Each job
gets its own answer: the job in its new (or last) state, or the error that refuses it. Each call
leaves one audit record of the changes it made.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple, NotRequired, Protocol, TypedDict, TypeVar, Unpack

from leasehold.core.model.draft_checks import check_reason
from leasehold.core.model.job import Job, priority_of
from leasehold.core.model.refusals import no_job, not_ended, not_purged, not_waiting
from leasehold.core.model.status import WAITING, Event, Status, check
from leasehold.core.rules.dependencies import refuse_discard
from leasehold.core.rules.messages import purged_by, replayed, reprioritized
from leasehold.errors import LeaseholdError

AUDITED_IDS_MAX: Final = 100
"""How many ids an audit record names: enough to recognise the order. The count has them all."""

H = TypeVar("H")
"""A store's own handle of a job."""


class Replay(NamedTuple):
    """The new state of a replayed job."""

    status: Status
    attempts: int
    allowance: int
    message: str


class By(TypedDict):
    """The origin of an order."""

    actor: str
    operation: NotRequired[str | None]
    """The id of the operation that it belongs to, for its audit record."""


class OrderDesk(Protocol[H]):
    """The steps of a store for these verbs, inside one write."""

    def find_all(self, job_ids: Sequence[str]) -> Mapping[str, tuple[H, Job]]:
        """The given jobs that exist, each with the store's own handle of it, in its present state.

        Earlier changes made at this desk are visible.
        """

    def met_since(self, jobs: Sequence[H], events: Collection[Event], at: datetime) -> set[str]:
        """The ids of the given jobs that had one of these events after a given time."""

    def tell(self, job: H, event: Event, message: str) -> None:
        """Write an event that changes no status to a job's history."""

    def request_cancel(self, job: H, reason: str) -> None:
        """Record the request for the holder's next renewal."""

    def wake_holder(self, job: H) -> None:
        """Make the holder of a running job renew at once."""

    def end_waiting(self, job: H, after: Status, reason: str) -> None:
        """End a job that waits."""

    def forget(self, jobs: Sequence[H]) -> None:
        """Delete jobs ended at this desk; those with dependents once these have been handled."""

    def allow(self, job: H, allowance: int) -> None:
        """Set how many attempts a job may have in total."""

    def waits_again_for(self, handle: H, job: Job) -> Sequence[Any]:
        """The jobs that a replayed job must wait for; refuses a replay that would be in vain."""

    def replay(self, job: H, replay: Replay, waits_for: Sequence[Any]) -> None:
        """Make an ended job wait again: without its start_by, due at once."""

    def needed_by(self, job: H) -> str | None:
        """An unfinished job that depends on this job."""

    def erase(self, job: H) -> None:
        """Delete an ended job with all its records."""

    def reprioritize(self, job: H, before: int, after: int) -> None:
        """Give a waiting job another priority, and with it another place."""

    def replay_order(self, job_ids: Sequence[str]) -> list[int]:
        """The indexes of these ids, dependencies first."""

    def audit(self, actor: str, action: str, count: int, detail: dict[str, Any]) -> None:
        """Write an audit record."""


Answers = list[Job | LeaseholdError]


def cancel(desk: OrderDesk[H], job_ids: Sequence[str], *, reason: str, **by: Unpack[By]) -> Answers:
    """Cancel waiting jobs at once, and ask the holders of running ones to stop."""
    check_reason(reason)

    def verb(handle: H, job: Job) -> None:
        if job.status is not Status.RUNNING:
            check(Event.CANCELLED, job.status, Status.CANCELLED, job.id)
            desk.end_waiting(handle, Status.CANCELLED, reason)
            return
        if job.cancel_requested is None:
            desk.request_cancel(handle, reason)
            desk.tell(handle, Event.CANCEL_REQUESTED, reason)
        desk.wake_holder(handle)

    return for_each(desk, job_ids, verb, "cancel", by, reason=reason)


def replay(
    desk: OrderDesk[H], job_ids: Sequence[str], *, reset_attempts: bool, **by: Unpack[By]
) -> Answers:
    """Give dead or cancelled jobs another chance, dependencies before their dependents.

    They are pending again, or blocked by dependencies that were replayed too.
    """

    def verb(handle: H, job: Job) -> None:
        check(Event.REPLAYED, job.status, Status.PENDING, job.id)
        waits_for = desk.waits_again_for(handle, job)
        again = Replay(
            Status.BLOCKED if waits_for else Status.PENDING,
            0 if reset_attempts else job.attempts,
            job.max_retries + 1 if reset_attempts else job.allowance + 1,
            replayed(by["actor"], reset_attempts=reset_attempts),
        )
        desk.replay(handle, again, waits_for)

    order = desk.replay_order(job_ids)
    ordered = [job_ids[place] for place in order]
    answers = for_each(desk, ordered, verb, "replay", by, reset_attempts=reset_attempts)
    at_place = dict(zip(order, answers, strict=True))
    return [at_place[place] for place in range(len(job_ids))]


def discard(desk: OrderDesk[H], job_ids: Sequence[str], **by: Unpack[By]) -> Answers:
    """Delete ended jobs with all their records."""

    def verb(handle: H, job: Job) -> None:
        if not job.is_terminal:
            raise not_ended(job.id, job.status)
        needed_by = desk.needed_by(handle)
        if needed_by is not None:
            raise refuse_discard(job.id, needed_by)
        desk.erase(handle)

    return for_each(desk, job_ids, verb, "discard", by)


def purge(desk: OrderDesk[H], job_ids: Sequence[str], **by: Unpack[By]) -> Answers:
    """Delete waiting jobs: they are cancelled, and removed when no job waits for them."""
    ended: list[H] = []

    def verb(handle: H, job: Job) -> None:
        check(Event.CANCELLED, job.status, Status.CANCELLED, job.id)
        if job.status is Status.RUNNING:
            raise not_purged(job.id)
        desk.end_waiting(handle, Status.CANCELLED, purged_by(by["actor"]))
        ended.append(handle)

    answers = for_each(desk, job_ids, verb, "purge", by)
    desk.forget(ended)
    return answers


def reprioritize(desk: OrderDesk[H], job_id: str, priority: int, *, actor: str) -> Job:
    """Change a waiting job's priority; nothing else about it changes."""
    (answer,) = reprioritize_all(desk, (job_id,), priority, actor=actor)
    if isinstance(answer, LeaseholdError):
        raise answer
    return answer


def reprioritize_all(
    desk: OrderDesk[H], job_ids: Sequence[str], priority: int, **by: Unpack[By]
) -> Answers:
    """The same for several jobs."""
    priority = priority_of(priority)

    def verb(handle: H, job: Job) -> None:
        if job.status not in WAITING:
            raise not_waiting(job.id, job.status)
        desk.reprioritize(handle, job.priority, priority)
        message = reprioritized(job.priority, priority, by["actor"])
        desk.tell(handle, Event.REPRIORITIZED, message)

    return for_each(desk, job_ids, verb, "reprioritize", by, priority=priority)


def for_each(
    desk: OrderDesk[H],
    job_ids: Sequence[str],
    verb: Callable[[H, Job], None],
    action: str,
    by: By,
    **detail: Any,
) -> Answers:
    """Carry out a verb for each of these jobs, and audit the changes."""
    answers = [answer for part in _without_repeats(job_ids) for answer in _answer(desk, part, verb)]
    done = [answer.id for answer in answers if isinstance(answer, Job)]
    if done:
        operation = by.get("operation")
        detail |= {} if operation is None else {"operation": operation}
        desk.audit(by["actor"], action, len(done), {"jobs": done[:AUDITED_IDS_MAX], **detail})
    return answers


def _without_repeats(job_ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """The ids in parts without repeats, so that a repeated id sees the result of the first."""
    part: dict[str, None] = {}
    for job_id in job_ids:
        if job_id in part:
            yield list(part)
            part = {}
        part[job_id] = None
    yield list(part)


def _answer(desk: OrderDesk[H], job_ids: Sequence[str], verb: Callable[[H, Job], None]) -> Answers:
    """Read all jobs, carry out the verb for each, then read the changed jobs again."""
    found = desk.find_all(job_ids)
    refused: dict[str, LeaseholdError] = {}
    for job_id, (handle, job) in ((each, found[each]) for each in job_ids if each in found):
        try:
            verb(handle, job)
        except LeaseholdError as error:
            refused[job_id] = error
    again = desk.find_all([job_id for job_id in found if job_id not in refused])
    answers: Answers = []
    for job_id in job_ids:
        if job_id not in found:
            answers.append(no_job(job_id))
        elif job_id in refused:
            answers.append(refused[job_id])
        else:
            answers.append(again.get(job_id, found[job_id])[1])
    return answers
