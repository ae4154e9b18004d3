"""A clean-up: when it begins, its phases, the rows that each phase takes, and its record.

A clean-up is a series of calls. Each call looks for old rows without the write lock, and removes a
bounded part of them in one write, which checks each job again. The record of the clean-up also
holds the phase and the position in it, so the next call, from any process, continues from there; a
process that dies loses only its latest look.

`core.rules.cleanup_store` is the protocol that a store implements for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import msgspec

from leasehold.core.model.queue_retention import QueueRetention, is_worth_it
from leasehold.core.model.retention import (
    COUNTED,
    CleanUp,
    CleanUpMode,
    PruneReport,
    RetentionPolicy,
    Scope,
    check_limit,
    due_at,
)
from leasehold.core.model.status import Status
from leasehold.core.rules.cleanup_store import (
    Bookmark,
    CleanedStore,
    CleanUpBatch,
    CleanUpLook,
    CleanUpProgress,
    CleanUpRecords,
    CleanUpWrite,
    Cutoffs,
    K,
    Phase,
)
from leasehold.env import to_micros


class PruneRequest(NamedTuple):
    """The request of one call of prune."""

    policy: RetentionPolicy
    scope: Scope
    limit: int
    actor: str

    @property
    def is_asked_for(self) -> bool:
        """Whether a person wants it now, due or not."""
        return self.scope.mode is not CleanUpMode.DAILY

    def cutoffs(self, status: Status, own: Mapping[str, QueueRetention], now: datetime) -> Cutoffs:
        """The cutoffs by status: which jobs are old enough now."""

        def cutoff(policy: RetentionPolicy) -> int | None:
            moment = policy.cutoffs(now, self.scope).get(status)
            return None if moment is None else to_micros(moment)

        apart = {queue: cutoff(each.over(self.policy)) for queue, each in own.items()}
        return Cutoffs(cutoff(self.policy), apart)


def prune(store: CleanedStore[K], run: int | None, order: PruneRequest) -> PruneReport:
    """Begin a clean-up, or continue the one with that number."""
    check_limit(order.limit)
    return _begin(store, order) if run is None else _go_on(store, run, order)


# -- its begin ---------------------------------------------------------------------------------


def _begin(store: CleanedStore[K], order: PruneRequest) -> PruneReport:
    with store.look() as look:
        report = _not_now(look, order) or _not_worth_it(look, order)
    return report or store.write(lambda write: _open(write, order))


def _not_now(store: CleanUpRecords, order: PruneRequest) -> PruneReport | None:
    """When the next clean-up may begin, if not now. One requested by a person may always begin."""
    due = due_at(order.policy, store.latest(), store.now)
    if order.is_asked_for or (due is not None and due <= store.now):
        return None
    return PruneReport(next_due_at=due)


def _not_worth_it(look: CleanUpLook[K], order: PruneRequest) -> PruneReport | None:
    """When to look again if there is too little to clean."""
    policy = order.policy
    if order.is_asked_for or policy.interval_seconds is None:
        return None
    ended = dict(look.counts(None))
    apart = []
    for queue, retention in look.own_retentions().items():
        counts = look.counts(queue)
        apart.append((retention.over(policy), counts))
        ended = {status: jobs - counts[status] for status, jobs in ended.items()}
    has_old = _has_old_archive(look, policy) or _has_old_audits(look, policy)
    if has_old or is_worth_it(policy, ended, apart):
        return None
    return PruneReport(next_due_at=look.now + timedelta(seconds=policy.interval_seconds))


def _open(write: CleanUpWrite[K], order: PruneRequest) -> PruneReport:
    # Checked again inside the write: of many workers one begins.
    report = _not_now(write, order)
    if report is not None:
        return report
    last = write.latest()
    record = CleanUp(
        run=1 if last is None else last.run + 1,
        mode=order.scope.mode,
        actor=order.actor,
        started_at=write.now,
        active_at=write.now,
    )
    write.save(CleanUpProgress(record, Phase.CANCELLED, Bookmark()))
    return PruneReport(run=record.run, more=True)


# -- its writes --------------------------------------------------------------------------------


def _go_on(store: CleanedStore[K], run: int, order: PruneRequest) -> PruneReport:
    with store.look() as look:
        progress = look.progress(run)
        if progress is None or progress.record.ended_at is not None:
            return PruneReport(run=run)
        phase, found = _next_work(look, progress, order)
    began = 0.0

    def operation(write: CleanUpWrite[K]) -> PruneReport:
        nonlocal began
        began = store.monotonic()
        now_open = write.progress(run)
        if now_open is None or now_open.record.ended_at is not None:
            return PruneReport(run=run)
        if phase is Phase.OVER:
            return _end(write, now_open.record, order)
        report = _take(write, phase, found, order)
        report = msgspec.structs.replace(
            report,
            run=run,
            more=True,
            taken=report.taken or len(found.items),
            lock_seconds=store.monotonic() - began,
        )
        record = _counted(now_open.record, report, write.now)
        # A store may leave days of the archive that are being read: the next clean-up tries again.
        is_over = phase is Phase.ARCHIVE and not report.taken
        following = _after(phase, CleanUpBatch() if is_over else found)
        write.save(CleanUpProgress(record, *following))
        return report

    report = store.write(operation)
    # Measured until the write is durable: the commit is part of what others wait for.
    elapsed = store.monotonic() - began
    return msgspec.structs.replace(report, lock_seconds=elapsed) if report.more else report


def _next_work(
    look: CleanUpLook[K], progress: CleanUpProgress, order: PruneRequest
) -> tuple[Phase, CleanUpBatch[K]]:
    """The first phase with something to do, from where the clean-up stands."""
    phase, bookmark = progress.phase, progress.bookmark
    while phase is not Phase.OVER:
        found = _find(look, phase, bookmark, order)
        if found.items or found.after is not None:
            return phase, found
        phase, bookmark = _after(phase, found)
    return phase, CleanUpBatch()


def _after(phase: Phase, found: CleanUpBatch[K]) -> tuple[Phase, Bookmark]:
    return (Phase(phase + 1), Bookmark()) if found.after is None else (phase, found.after)


def _counted(record: CleanUp, report: PruneReport, now: datetime) -> CleanUp:
    return msgspec.structs.replace(
        record,
        active_at=now,
        writes=record.writes + 1,
        lock_seconds=record.lock_seconds + report.lock_seconds,
        **{name: getattr(record, name) + getattr(report, name) for name in COUNTED},
    )


def _end(write: CleanUpWrite[K], record: CleanUp, order: PruneRequest) -> PruneReport:
    now = write.now
    record = msgspec.structs.replace(record, ended_at=now, active_at=now)
    write.save(CleanUpProgress(record, Phase.OVER, Bookmark()))
    # A clean-up requested by a person is audited as well.
    if record.mode is not CleanUpMode.DAILY:
        detail = {"mode": record.mode.value, "dead": order.scope.dead}
        write.audit(order.actor, "prune", record.pruned, detail)
    return PruneReport(run=record.run, next_due_at=due_at(order.policy, record, now))


# -- its phases --------------------------------------------------------------------------------

_STATUS_OF: Final = {
    Phase.CANCELLED: Status.CANCELLED,
    Phase.DEAD: Status.DEAD,
    Phase.COMPLETED: Status.COMPLETED,
}


def _find(
    look: CleanUpLook[K], phase: Phase, after: Bookmark, order: PruneRequest
) -> CleanUpBatch[K]:
    if phase in _STATUS_OF:
        status = _STATUS_OF[phase]
        cutoffs = order.cutoffs(status, look.own_retentions(), look.now)
        if cutoffs.latest is None:
            return CleanUpBatch()
        return look.find_ended(status, cutoffs, after, order.limit)
    if phase is Phase.RESULTS:
        return look.find_results(after, order.limit)
    if phase is Phase.HISTORIES:
        events_max = order.policy.history_events_max
        return (
            CleanUpBatch()
            if events_max is None
            else look.find_histories(events_max, after, order.limit)
        )
    if phase is Phase.ARCHIVE:
        more = _has_old_archive(look, order.policy)
    elif phase is Phase.AUDIT:
        more = _has_old_audits(look, order.policy)
    else:
        more = look.has_rest(order.scope)
    return CleanUpBatch(after=after if more else None)


def _has_old_archive(look: CleanUpLook[K], policy: RetentionPolicy) -> bool:
    first, oldest = policy.oldest_day(look.now), look.oldest_archived_day()
    return first is not None and oldest is not None and oldest < first


def _has_old_audits(look: CleanUpLook[K], policy: RetentionPolicy) -> bool:
    kept_until, archived_until = (
        policy.audit_cutoff(look.now),
        policy.audit_archive_cutoff(look.now),
    )
    oldest = look.oldest_audits()
    return _is_by(oldest.kept, kept_until) or _is_by(oldest.archived, archived_until)


def _is_by(moment: datetime | None, until: datetime | None) -> bool:
    return moment is not None and until is not None and moment <= until


def _take(
    write: CleanUpWrite[K], phase: Phase, found: CleanUpBatch[K], order: PruneRequest
) -> PruneReport:
    if phase in _STATUS_OF:
        report = _take_jobs(write, found, order)
    elif phase is Phase.RESULTS:
        report = PruneReport(results_dropped=write.drop_results(found.items))
    elif phase is Phase.HISTORIES:
        report = PruneReport(histories_dropped=write.drop_histories(found.items))
    elif phase is Phase.ARCHIVE:
        first = order.policy.oldest_day(write.now)
        assert first is not None
        dropped = write.drop_archived(first, order.limit)
        report = PruneReport(archive_dropped=dropped, taken=dropped)
    elif phase is Phase.AUDIT:
        report = _take_audits(write, order)
    else:
        report = PruneReport(taken=write.drop_rest(order.limit, order.scope))
    return report


def _take_audits(write: CleanUpWrite[K], order: PruneRequest) -> PruneReport:
    policy, now, limit = order.policy, write.now, order.limit
    until = policy.audit_cutoff(now)
    moved = 0 if until is None else write.archive_audits(until, limit)
    over = policy.audit_archive_cutoff(now)
    dropped = 0 if over is None else write.drop_archived_audits(over, limit)
    return PruneReport(audit_archived=moved, audit_dropped=dropped, taken=moved + dropped)


def _take_jobs(write: CleanUpWrite[K], found: CleanUpBatch[K], order: PruneRequest) -> PruneReport:
    """Archive and delete, in one write."""
    # Use the rules that hold in this write: a queue may have raised its retention since.
    own = write.own_retentions()
    cutoffs = {status: order.cutoffs(status, own, write.now) for status in _STATUS_OF.values()}
    ended = write.still_ended(found.items)
    old = [job for job in ended if cutoffs[job.status].take(job.queue, job.ended_at)]
    archived = order.policy.archive_seconds != 0
    if old:
        write.remove(old, archived=archived)
    ends = [job.status for job in old]
    return PruneReport(
        completed=ends.count(Status.COMPLETED),
        cancelled=ends.count(Status.CANCELLED),
        dead=ends.count(Status.DEAD),
        archived=len(old) if archived else 0,
    )
