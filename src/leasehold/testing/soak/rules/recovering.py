"""Rules of recovery: which jobs are taken back, and that a turned clock ends no lease."""

from __future__ import annotations

from leasehold.core.model.lease import Settled, SweepReport
from leasehold.core.model.status import Event, Status
from leasehold.errors import LeaseLostError
from leasehold.testing.soak.rules.base import JudgedCall, rule
from leasehold.testing.soak.rules.settling import holder_of

AWAKE_TOLERANCE_SECONDS = 0.6


@rule("REC-1")
def what_is_taken_back_becomes_what_it_must(step: JudgedCall) -> int:
    if step.method != "recover":
        return 0
    assert isinstance(step.answer, SweepReport), f"a sweep raised {step.answer!r}"
    met = 0
    for job in step.before.jobs.values():
        if job.status is not Status.RUNNING:
            continue
        after = step.after.jobs[job.id]
        assert job.lease_expires_at is not None
        if after.status is Status.RUNNING:
            spared = step.book.clocks or job.lease_expires_at > step.now
            assert spared, f"{job.id} expired at {job.lease_expires_at} and was left"
            continue
        assert job.lease_expires_at <= step.now, f"{job.id} is leased until {job.lease_expires_at}"
        assert after.attempts == job.attempts, f"{job.id} had {job.attempts} attempts"
        expected = Status.PENDING
        if job.cancel_requested is not None:
            expected = Status.CANCELLED
        elif job.attempts >= job.allowance:
            expected = Status.DEAD
        assert after.status is expected, f"{job.id} became {after.status}, not {expected}"
        met += 1
    assert step.answer.expired_found == met, f"{met} were taken back: {step.answer}"
    return met


@rule("REC-3")
def a_job_is_taken_back_by_a_sweep_only(step: JudgedCall) -> int:
    taken = step.happened(Event.RECOVERED)
    sweeps = ("recover", "recover_one", "repair_clock")
    assert not taken or step.method in sweeps, f"{taken} by {step.method}"
    return len(taken)


@rule("CLK-3")
def no_lease_ends_before_its_holder_has_lived_it(step: JudgedCall) -> int:
    """A lease is promised in time that the machine was awake, whatever the wall clock says."""
    if step.method not in ("recover", "repair_clock"):
        return 0
    met = 0
    awake = step.after.reading.awake / 1e6
    for event in step.happened(Event.RECOVERED, Event.DEAD, Event.CANCELLED):
        kept = step.book.kept.get((event.job_id, event.lease_version))
        if event.before is Status.RUNNING and kept is not None:
            lived = awake - kept.awake
            assert lived >= kept.seconds - AWAKE_TOLERANCE_SECONDS, (
                f"{event.job_id} was taken after {lived} s of {kept.seconds} s"
            )
            met += 1
    return met


@rule("REC-6")
def taking_a_job_back_is_fenced(step: JudgedCall) -> int:
    if step.method != "recover_one":
        return 0
    job_id, reset = step.call.get("job_id"), step.call.get("reset_attempts")
    job = holder_of(step.before, job_id, step.call.get("version"))
    if job is None:
        assert isinstance(step.answer, LeaseLostError), f"stale, yet {step.answer!r}"
        return 1
    assert isinstance(step.answer, Settled), f"{job_id} is running, yet {step.answer!r}"
    after = step.after.jobs[job_id]
    spent = 0 if reset else job.attempts
    allowance = job.max_retries + 1 if reset else job.allowance
    expected = Status.PENDING
    if job.cancel_requested is not None:
        expected = Status.CANCELLED
    elif spent >= allowance:
        expected = Status.DEAD
    assert (after.status, after.attempts) == (expected, spent), f"{job_id} became {after}"
    assert after.allowance == allowance, f"{job_id} has an allowance of {after.allowance}"
    return 1
