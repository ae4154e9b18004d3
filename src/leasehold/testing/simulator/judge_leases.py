"""Judges what holders and sweeps were answered: S3, S4, S6, S7, S9, S12, S13 and L1."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from leasehold.core.model.job import DEFAULT_LEASE_SECONDS
from leasehold.core.model.joblog import LogLine
from leasehold.core.model.lease import (
    Exchange,
    Lease,
    LeaseRequest,
    Renewal,
    Renewed,
    Settled,
    Settlement,
    StuckJob,
    SweepReport,
)
from leasehold.core.model.limits import EXTENSION_SECONDS_MAX
from leasehold.core.model.priority import effective
from leasehold.core.model.status import Event, Status
from leasehold.env import to_micros
from leasehold.errors import (
    LeaseExpiredError,
    LeaseholdError,
    LeaseLostError,
)
from leasehold.testing.simulator import judge_clock
from leasehold.testing.simulator.judge_clock import latest_expiry
from leasehold.testing.simulator.judge_settling import (
    ROUNDING,
    held,
    judge_refusal,
    judge_settlement,
)
from leasehold.testing.simulator.model import ENDED, Model, ModelJob, broken


def judge_exchange(
    model: Model, answer: Exchange, settlements: Sequence[Settlement], request: LeaseRequest | None
) -> None:
    if len(answer.settled) != len(settlements):
        raise broken("S5", None, "not every settlement was answered")
    for settlement, settled in zip(settlements, answer.settled, strict=True):
        judge_settlement(model, settlement, settled)
    if request is not None:
        _judge_leases(model, request, answer.leases)
    elif answer.leases:
        raise broken("S4", answer.leases[0].job_id, "leased although nobody asked")


# -- leasing -----------------------------------------------------------------------------------


def _judge_leases(model: Model, request: LeaseRequest, leases: Sequence[Lease]) -> None:
    candidates = sorted(
        (job for job in model.jobs.values() if _fits(job, request, model.now)),
        key=lambda job: _order(job, model.now),
    )
    waiting = list(leases)
    # A late job is found out, and cancelled, by the lease that meets it: those of its key which it
    # kept parked until then may have to wait for the next lease.
    behind_late: set[tuple[str, str | None]] = set()
    for job in candidates:
        if len(leases) == request.limit and not waiting:
            break
        key = (job.draft.queue, job.draft.limit_key)
        is_next = bool(waiting) and waiting[0].job_id == job.id
        begun = len(leases) - len(waiting)
        if _is_held_back(model, job, request, begun, waiting[0] if waiting else None):
            model.seen["held back by a start rate"] += 1
        elif is_next:
            _judge_grant(model, job, waiting.pop(0), request)
        elif job.may_be_late(model.now):
            model.reveal_late(job)
            if model.is_paced(job) and job.draft.limit_key is not None:
                behind_late.add(key)
        elif key in behind_late:
            model.seen["behind a late job of its key"] += 1
        elif waiting:
            raise _wrong_lease(model, waiting[0], job)
        else:
            raise broken("S9", job.id, f"{job.id} was available, and {request} did not get it")
    if waiting:
        raise _wrong_lease(model, waiting[0], None)
    if len(leases) > request.limit:
        raise broken("S9", None, f"{len(leases)} leases, but {request.limit} were asked for")


def _is_held_back(
    model: Model, job: ModelJob, request: LeaseRequest, begun: int, lease: Lease | None
) -> bool:
    """Whether a start rate keeps a job from being leased now: it is passed over then."""
    if not model.is_paced(job):
        return False
    earliest = model.next_start(job)
    is_ahead = request.free_slots is not None and begun >= request.free_slots
    if lease is None or lease.job_id != job.id:
        return is_ahead or (earliest is not None and model.now < earliest + ROUNDING)
    if is_ahead or (earliest is not None and model.now < earliest - ROUNDING):
        why = "it was leased ahead" if is_ahead else f"it may begin at {earliest}"
        raise broken("S12", job.id, f"leased at {model.now} although {why}")
    return False


def _order(job: ModelJob, now: datetime) -> tuple[float, datetime, int]:
    """The formula, for jobs without a deadline; then first available, first submitted."""
    moments = (to_micros(job.run_at), None, to_micros(now))
    return -effective(job.priority, job.attempts, *moments), job.run_at, job.place


def _fits(job: ModelJob, request: LeaseRequest, now: datetime) -> bool:
    return (
        job.is_available(now)
        and job.draft.queue in request.queues
        and request.wants(job.draft.queue, job.draft.task)
        and (request.parent_id is None or job.draft.parent_id == request.parent_id)
    )


def _judge_grant(model: Model, job: ModelJob, lease: Lease, request: LeaseRequest) -> None:
    if lease.version <= model.granted.get(job.id, 0):
        raise broken("S3", job.id, f"version {lease.version} was granted before")
    if job.start_by is not None and job.start_by < model.now and not job.grants:
        raise broken("S7", job.id, "leased after its time to live")
    if job.attempts >= job.allowance or lease.attempt != job.attempts + 1:
        raise broken("S6", job.id, f"attempt {lease.attempt} after {job.attempts}: {lease}")
    seconds = job.draft.lease_seconds or request.lease_seconds or DEFAULT_LEASE_SECONDS
    expires_at = model.now + timedelta(seconds=seconds)
    if lease.acquired_at != model.now or abs(lease.expires_at - expires_at) > ROUNDING:
        raise broken("S4", job.id, f"leased from {model.now} to {expires_at}, but it says {lease}")
    if (lease.worker, lease.payload, lease.allowance) != (
        request.worker,
        job.draft.payload,
        job.allowance,
    ):
        raise broken("S1", job.id, f"the lease does not say what was submitted: {lease}")
    model.grant(job, lease.version, lease.worker, lease.expires_at)


def _wrong_lease(model: Model, lease: Lease, best: ModelJob | None) -> Exception:
    job = model.jobs.get(lease.job_id)
    if job is None:
        return broken("S1", lease.job_id, "leased, but no such job was acknowledged or is left")
    if job.status is Status.RUNNING:
        return broken("S4", job.id, f"leased while {job.worker} holds it until {job.expires_at}")
    if job.status is Status.CANCELLED:
        return broken("S13", job.id, "leased although it was cancelled before")
    if job.status in ENDED:
        return broken("S2", job.id, f"leased although it is {job.status}")
    if not job.is_available(model.now):
        return broken("S7", job.id, f"leased at {model.now}, before {job.run_at}")
    better = "something the request did not ask for" if best is None else f"not {best.id}"
    return broken("S9", job.id, f"leased {job.id}, {better}")


# -- renewing and reporting --------------------------------------------------------------------


def judge_renew(
    model: Model,
    answers: Sequence[Renewed | LeaseLostError],
    worker: str,  # noqa: ARG001 - every judge takes the call's own arguments.
    renewals: Sequence[Renewal],
) -> None:
    for renewal, answer in zip(renewals, answers, strict=True):
        job = held(model, renewal.job_id, renewal.version)
        if job is None:
            judge_refusal(model, renewal.job_id, renewal.version, answer)
            continue
        assert job.expires_at is not None
        assert job.acquired_at is not None
        if isinstance(answer, LeaseExpiredError):
            judge_clock.follow(model, job, model.held[job.id, job.version])
            judge_clock.judge_expired(model, job)
            model.seen["refused as expired"] += 1
            continue
        if latest_expiry(model, job) <= model.now:
            raise broken("S4", job.id, f"expired at {job.expires_at}, yet answered {answer}")
        job.moved_by += model.jumped
        until = min(
            model.now + timedelta(seconds=renewal.lease_seconds),
            job.acquired_at + job.moved_by + timedelta(seconds=EXTENSION_SECONDS_MAX),
        )
        until = max(until, job.expires_at)
        if not isinstance(answer, Renewed) or abs(answer.expires_at - until) > ROUNDING:
            raise broken("S5", job.id, f"should be renewed until {until}, not {answer}")
        if answer.cancel_requested != job.cancel_reason:
            raise broken("S13", job.id, f"{answer} should carry {job.cancel_reason}")
        job.expires_at = answer.expires_at
        job.heartbeat_at = model.now
        job.kept_since = model.awake
        job.lease_seconds = (answer.expires_at - model.now).total_seconds()
        model.seen["renewed"] += 1


def judge_report(
    model: Model,
    answer: LeaseholdError | None,
    job_id: str,
    version: int,
    progress: bytes | None = None,
    lines: Sequence[LogLine] = (),  # noqa: ARG001 - log lines are not modelled, only their fence.
    dropped: int = 0,  # noqa: ARG001 - as above.
) -> None:
    job = held(model, job_id, version)
    if job is None:
        judge_refusal(model, job_id, version, answer, tells=True)
    elif answer is not None:
        raise broken("S5", job_id, f"the holder's report was refused: {answer!r}")
    elif progress is not None:
        job.progress = progress


def judge_tell(
    model: Model,
    answer: LeaseholdError | None,
    job_id: str,
    event: Event,
    worker: str,  # noqa: ARG001 - as above.
    version: int,
    message: str,  # noqa: ARG001 - as above.
) -> None:
    if answer is not None:
        raise broken("S11", job_id, f"{event} could not be told: {answer!r}")
    job = model.jobs.get(job_id)
    if job is not None:
        model.tell(job, event, version)


# -- recovering --------------------------------------------------------------------------------


def judge_recover(
    model: Model,
    answer: SweepReport,
    actor: str | None = None,  # noqa: ARG001 - as above.
) -> None:
    running = [job for job in model.jobs.values() if job.status is Status.RUNNING]
    expired = [job for job in running if (job.id, job.version) not in model.held]
    for job in running:
        if job in expired:
            judge_clock.judge_expired(model, job)
        elif job.expires_at is not None and job.expires_at <= model.now:
            raise broken("L1", job.id, f"expired at {job.expires_at}, but the sweep left it")
    if answer.expired_found != len(expired):
        names = [job.id for job in expired]
        raise broken("L1", None, f"{names} were taken, the sweep says {answer}")
    events = [model.take_back(job) for job in expired]
    found = (
        events.count(Event.RECOVERED),
        events.count(Event.DEAD),
        events.count(Event.CANCELLED),
    )
    if (answer.recovered, answer.dead, answer.cancelled) != found:
        raise broken("S6", None, f"recovered, dead, cancelled should be {found}: {answer}")


def judge_recover_one(
    model: Model,
    answer: Settled | LeaseholdError,
    job_id: str,
    version: int,
    reset_attempts: bool,
    reason: str,  # noqa: ARG001 - as above.
    actor: str | None = None,  # noqa: ARG001 - as above.
) -> None:
    job = held(model, job_id, version)
    if job is None:
        judge_refusal(model, job_id, version, answer, tells=False)
        return
    if reset_attempts:
        job.attempts = 0
        job.allowance = job.draft.allowance
    event = model.take_back(job)
    model.seen["taken by a supervisor"] += 1
    expected = (event, job.status, job.attempts)
    if (
        not isinstance(answer, Settled)
        or (answer.event, answer.status, answer.attempts) != expected
    ):
        raise broken("S6", job_id, f"a supervisor took it: {expected} expected, not {answer}")


def judge_stuck(
    model: Model,
    answer: Sequence[StuckJob],
    silent_seconds: float | None,
    running_seconds: float | None = None,
) -> None:
    def is_over(since: datetime | None, seconds: float | None) -> bool:
        if since is None or seconds is None:
            return False
        return since <= model.now - timedelta(seconds=seconds)

    expected = {
        (job.id, job.version)
        for job in model.jobs.values()
        if job.status is Status.RUNNING
        if is_over(job.heartbeat_at, silent_seconds) or is_over(job.acquired_at, running_seconds)
    }
    if {(stuck.job_id, stuck.lease_version) for stuck in answer} != expected:
        bounds = f"silent for {silent_seconds} s, or running for {running_seconds} s"
        raise broken("L1", None, f"{bounds} are {expected}, not {answer}")
