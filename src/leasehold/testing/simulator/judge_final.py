"""Judges the store's public reads when all is over: S1, S6, S11, L1, and the counts."""

from __future__ import annotations

from collections import Counter

from leasehold.core.contract.store import Store
from leasehold.core.model.history import HistoryEvent
from leasehold.core.model.job import Job
from leasehold.core.model.records import Submitted
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Event, Status
from leasehold.testing.simulator.calllog import CallFate, CallLog
from leasehold.testing.simulator.judge_people import judge_get
from leasehold.testing.simulator.model import (
    ENDED,
    KEY_WINDOW,
    Expected,
    Model,
    ModelJob,
    ViolationError,
    broken,
)

ATTEMPTS_KEPT_MAX = 100


def judge_final(model: Model, log: CallLog, store: Store) -> None:
    jobs = _all_jobs(store)
    _judge_presence(model, log, jobs, store)
    for job_id, job in model.jobs.items():
        judge_get(model, store.get(job_id), job_id)
        _judge_history(job, store.history(job_id))
        _judge_attempts(job, store)
        if job.status not in ENDED:
            raise broken("L1", job_id, f"faults have stopped, and it is still {job.status}")
    _judge_stats(model, jobs, store)
    problems = store.check()
    if problems:
        raise broken("S11", None, f"the store's own check finds {problems}")


def _all_jobs(store: Store) -> list[Job]:
    jobs: list[Job] = []
    page = store.search(JobFilter(), limit=50)
    jobs.extend(page.jobs)
    while page.next_cursor is not None:
        page = store.search(JobFilter(), limit=50, cursor=page.next_cursor)
        jobs.extend(page.jobs)
    return jobs


def _judge_presence(model: Model, log: CallLog, jobs: list[Job], store: Store) -> None:
    found = [job.id for job in jobs]
    in_order = sorted(model.jobs.values(), key=lambda job: -job.place)
    if found != [job.id for job in in_order]:
        missing = set(model.jobs) - set(found)
        raise broken("S1", next(iter(missing), None), f"{missing} missing; found are {found}")
    kept_or_discarded = {*model.jobs, *model.discarded}
    for call in log.calls:
        if call.method == "submit" and call.verdict is CallFate.OK:
            for answer in call.answer:
                is_new = isinstance(answer, Submitted) and not answer.is_duplicate
                if is_new and answer.id not in kept_or_discarded:
                    raise broken("S1", answer.id, "acknowledged, and gone")
    for (queue, key), known in model.keys.items():
        where = JobFilter(
            idempotency_key=key, queues=(queue,), created_from=known.expires_at - KEY_WINDOW
        )
        if len(store.search(where).jobs) > 1:
            raise broken("S10", known.job_id, f"several jobs were made of key {key}")


def _judge_history(job: ModelJob, history: list[HistoryEvent]) -> None:
    """A store may tell of every stale call or only of those it must, but of none by chance."""
    try:
        _compare(job, history, [each for each in job.events if not each.optional])
    except ViolationError:
        if not any(each.optional for each in job.events):
            raise
        _compare(job, history, job.events)


def _compare(job: ModelJob, history: list[HistoryEvent], events: list[Expected]) -> None:
    """Every event that should be there is, in order, and nothing else but promotions."""
    status: Status | None = None
    last: Expected | None = None
    expected = list(events)
    for sequence, event in enumerate(history, start=1):
        if event.sequence != sequence or event.before is not status:
            raise broken("S11", job.id, f"{event} does not follow {status} as number {sequence}")
        status = event.after
        if event.event is Event.PROMOTED:
            if last is None or last.due is None or last.due > event.at:
                raise broken("S7", job.id, f"promoted too early: {event}, after {last}")
            continue
        # An event without a date may have come before a dated one.
        dated = next((each for each in expected if each.at is not None), None)
        free = [each for each in expected if each.at is None]
        wanted = next((each for each in (dated, *free) if each and _matches(each, event)), None)
        if wanted is None:
            raise broken("S11", job.id, f"{event} stands where {dated or free} should")
        expected.remove(wanted)
        if wanted.after is not None:
            last = wanted
    if expected:
        raise broken("S11", job.id, f"its history lacks {expected}")
    if status is not job.status:
        raise broken("S11", job.id, f"its history ends as {status}, but it is {job.status}")


def _matches(expected: Expected, event: HistoryEvent) -> bool:
    after = event.before if expected.after is None else expected.after
    return (
        event.event is expected.event
        and event.after is after
        and event.attempts == expected.attempts
        and (expected.version is None or event.lease_version == expected.version)
        and (expected.at is None or event.at == expected.at)
    )


def _judge_attempts(job: ModelJob, store: Store) -> None:
    recorded = [
        (attempt.lease_version, attempt.number, attempt.worker, attempt.outcome)
        for attempt in store.attempts(job.id)
    ]
    granted = [
        (grant.version, grant.number, grant.worker, grant.outcome)
        for grant in job.grants[-ATTEMPTS_KEPT_MAX:]
    ]
    if recorded != granted:
        raise broken("S6", job.id, f"granted were {granted}, recorded are {recorded}")


def _judge_stats(model: Model, jobs: list[Job], store: Store) -> None:
    stats = store.stats()
    recount = Counter(job.status for job in jobs)
    counts = {status: count for status, count in stats.counts.items() if count}
    if counts != dict(recount):
        raise broken("STATS", None, f"the store counts {counts}, there are {dict(recount)}")
    for name in ("submitted", "completed", "failed", "retried", "dead", "cancelled", "cleaned"):
        if getattr(stats, name) != model.totals[name]:
            raise broken("STATS", None, f"total {name}: {model.totals[name]}, not {stats}")
    if stats.recovered != model.totals["recovered"]:
        raise broken("STATS", None, f"total recovered: {model.totals['recovered']}, not {stats}")
