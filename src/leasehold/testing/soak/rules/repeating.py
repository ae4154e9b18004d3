"""Rules of repeated requests: nothing happens, and the answer is that of the first."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from leasehold.core.model.job import Job
from leasehold.core.model.lease import Exchange, Lease
from leasehold.core.model.status import Status
from leasehold.errors import InvalidJobError
from leasehold.testing.soak.calls import REPEAT, Call
from leasehold.testing.soak.rules.base import JudgedCall, rule


def repeated(step: JudgedCall) -> Call | None:
    """The request that was sent again, if one was."""
    asked = step.call.get("first") if step.method == REPEAT else None
    return asked if isinstance(asked, Call) else None


def is_another(step: JudgedCall, asked: Call) -> bool:
    """Whether the id was used for another request."""
    return step.book.requests[asked.request_id or ""].asked != asked


@rule("RPT-1")
def a_repeated_request_does_nothing_and_is_answered_alike(step: JudgedCall) -> int:
    asked = repeated(step)
    if asked is None:
        return 0
    assert step.events == [], f"{step.events}"
    assert _unmoved(step.after.jobs) == _unmoved(step.before.jobs), "a job has changed"
    assert step.after.stats == step.before.stats, "it was counted"
    if is_another(step, asked):
        return 0
    first, again = step.book.requests[asked.request_id or ""].answer, step.answer.answer
    if isinstance(first, Exchange):
        first, again = first.settled, again.settled
    assert list(map(_plain, again)) == list(map(_plain, first)), f"{first} was answered"
    return 1


def _unmoved(jobs: Mapping[str, Job]) -> dict[str, Job]:
    """Jobs without the times of leases: the first write after the machine slept moves them."""
    return {
        job_id: structs.replace(
            job, lease_expires_at=None, heartbeat_at=None, updated_at=job.created_at
        )
        if job.status is Status.RUNNING
        else job
        for job_id, job in jobs.items()
    }


@rule("RPT-3")
def an_id_is_for_one_request(step: JudgedCall) -> int:
    asked = repeated(step)
    if asked is None or not is_another(step, asked):
        return 0
    assert isinstance(step.answer.answer, InvalidJobError), f"{step.answer.answer!r}"
    return 1


@rule("RPT-5")
def a_repeated_exchange_has_the_leases_that_last(step: JudgedCall) -> int:
    asked = repeated(step)
    if asked is None or asked.method != "exchange" or is_another(step, asked):
        return 0
    first = step.book.requests[asked.request_id or ""].answer
    lasting = [(each.job_id, each.version) for each in first.leases if _is_held(step, each)]
    again = [(each.job_id, each.version) for each in step.answer.answer.leases]
    assert again == lasting, f"{lasting} are still held"
    for lease in step.answer.answer.leases:
        expires_at = step.after.jobs[lease.job_id].lease_expires_at
        assert lease.expires_at == expires_at, f"{lease} expires at {expires_at}"
    return len(lasting)


def _is_held(step: JudgedCall, lease: Lease) -> bool:
    job = step.after.jobs.get(lease.job_id)
    return job is not None and job.status is Status.RUNNING and job.lease_version == lease.version


def _plain(answer: object) -> object:
    """Errors that say the same are the same."""
    return f"{type(answer).__name__}: {answer}" if isinstance(answer, Exception) else answer
