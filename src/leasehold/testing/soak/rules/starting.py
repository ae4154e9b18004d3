"""Rules of start rates: how fast jobs are leased, and that they wait no longer than they must.

The rates that are drawn are below forty per second, where starts are spaced evenly.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from leasehold.core.model.job import Job
from leasehold.core.model.lease import Exchange
from leasehold.testing.soak.book import Bucket
from leasehold.testing.soak.rules.base import JudgedCall, rule
from leasehold.testing.soak.rules.leasing import (
    ROUNDING,
    last_start,
    leases_of,
    may_be_leased,
    start_buckets,
)


@rule("STA-1")
def starts_keep_their_distance(step: JudgedCall) -> int:
    """Of a queue, and (STA-2) of a key. Each lease is one (STA-3)."""
    met = 0
    if step.method == "delete_queue" and not step.refused:
        gone = step.call.get("queue")
        step.book.starts = {name: at for name, at in step.book.starts.items() if name[0] != gone}
    for lease in leases_of(step):
        job = step.after.jobs[lease.job_id]
        for name, rate in start_buckets(job, step.before.info(job.queue).config):
            bucket = step.book.starts.get(name)
            if bucket is None or bucket.rate != rate or step.book.clock_repaired:
                bucket = step.book.starts[name] = Bucket(rate)
            if bucket.moments:
                met += 1
                earliest = bucket.moments[-1] + timedelta(seconds=1 / rate)
                assert step.now >= earliest - ROUNDING, f"{lease.job_id} may start at {earliest}"
            bucket.moments.append(step.now)
    return met


@rule("STA-4")
def the_next_start_is_told(step: JudgedCall) -> int:
    request = step.call.get("request")
    if request is None or not isinstance(step.answer, Exchange) or request.free_slots is not None:
        return 0
    if len(step.answer.leases) == request.limit:
        return 0
    again = step.answer.next_due_at
    paced = [
        (earliest, job.id)
        for job in step.after.jobs.values()
        if may_be_leased(job, step, request, paced=False)
        and (earliest := max(_earliest(job, step), default=None)) is not None
    ]
    if paced:
        earliest, job_id = min(paced)
        assert again is not None, f"{job_id} may start at {earliest}, and nobody is told"
        assert again <= max(earliest, step.now) + ROUNDING, f"{job_id} may start at {earliest}"
    return len(paced)


def _earliest(job: Job, step: JudgedCall) -> Iterator[datetime]:
    for name, rate in start_buckets(job, step.after.info(job.queue).config):
        last = last_start(name, rate, step)
        if last is not None and last.moments and last.rate == rate:
            yield last.moments[-1] + timedelta(seconds=1 / rate)


@rule("STA-5")
def what_has_a_rate_is_not_leased_ahead(step: JudgedCall) -> int:
    request = step.call.get("request")
    if request is None or request.free_slots is None:
        return 0
    ahead = leases_of(step)[request.free_slots :]
    for lease in ahead:
        job = step.after.jobs[lease.job_id]
        config = step.before.info(job.queue).config
        assert not list(start_buckets(job, config)), f"{lease.job_id} was leased ahead"
    return len(ahead)
