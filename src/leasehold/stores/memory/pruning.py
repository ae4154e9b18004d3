"""Prune: one bounded piece of a clean-up, under the store's one lock."""

from __future__ import annotations

from datetime import timedelta
from heapq import heappop

import msgspec

from leasehold.core.queue_retention import is_worth_it
from leasehold.core.retention import (
    COUNTED,
    CleanUp,
    CleanUpMode,
    PruneReport,
    RetentionPolicy,
    Scope,
    check_limit,
    due_at,
)
from leasehold.core.status import Status
from leasehold.env import from_micros, to_micros
from leasehold.stores.memory.record import Record
from leasehold.stores.memory.state import State


def prune(
    state: State,
    policy: RetentionPolicy | None,
    run: int | None,
    scope: Scope,
    limit: int,
    actor: str,
) -> PruneReport:
    """Begin a clean-up, or go on with one."""
    check_limit(limit)
    policy = policy or state.policy
    if run is None:
        return _begin(state, policy, scope, actor)
    place = next((at for at, record in enumerate(state.cleanups) if record.run == run), None)
    if place is None or state.cleanups[place].ended_at is not None:
        return PruneReport(run=run)
    started = state.env.clock.monotonic()
    report = (
        _prune_jobs(state, policy, scope, limit)
        or _drop_results(state, limit)
        or _drop_histories(state, policy, limit)
        or _drop_archived(state, policy, limit)
    )
    elapsed = state.env.clock.monotonic() - started
    record = _counted(state, state.cleanups[place], report or PruneReport(), elapsed)
    if report is not None:
        state.cleanups[place] = record
        return msgspec.structs.replace(report, run=run, more=True, lock_seconds=elapsed)
    state.cleanups[place] = msgspec.structs.replace(record, ended_at=from_micros(state.now))
    return _end(state, state.cleanups[place], policy, scope, actor)


def _begin(state: State, policy: RetentionPolicy, scope: Scope, actor: str) -> PruneReport:
    now = from_micros(state.now)
    last = state.cleanups[-1] if state.cleanups else None
    if not (scope.force or scope.emergency):
        due = due_at(policy, last, now)
        if due is None or due > now:
            return PruneReport(next_due_at=due)
        common, *own = (
            (state.policy_of(shelf, policy), state.finished.counts(shelf))
            for shelf in state.finished.shelves()
        )
        if not (is_worth_it(*common, own) or state.archive.has_old(policy.oldest_day(now))):
            assert policy.interval_seconds is not None
            return PruneReport(next_due_at=now + timedelta(seconds=policy.interval_seconds))
    state.too_old_to_tell = None
    record = CleanUp(
        run=1 if last is None else last.run + 1,
        mode=scope.mode,
        actor=actor,
        started_at=now,
        active_at=now,
    )
    state.cleanups.append(record)
    return PruneReport(run=record.run, more=True)


def _end(
    state: State, record: CleanUp, policy: RetentionPolicy, scope: Scope, actor: str
) -> PruneReport:
    now = from_micros(state.now)
    state.too_old_to_tell = None
    if policy.audit_seconds is not None:
        kept_from = now - timedelta(seconds=policy.audit_seconds)
        while state.audit and state.audit[0].at <= kept_from:
            state.audit.popleft()
    if scope.mode is not CleanUpMode.DAILY:
        detail = {"mode": scope.mode.value, "dead": scope.dead}
        state.note_action(actor, "prune", detail, record.pruned)
    due = due_at(policy, state.cleanups[-1], now)
    return PruneReport(run=record.run, next_due_at=due)


def _counted(state: State, record: CleanUp, report: PruneReport, elapsed: float) -> CleanUp:
    counts = {name: getattr(record, name) + getattr(report, name) for name in COUNTED}
    return msgspec.structs.replace(
        record,
        active_at=from_micros(state.now),
        writes=record.writes + 1,
        lock_seconds=record.lock_seconds + elapsed,
        **counts,
    )


def _prune_jobs(
    state: State, policy: RetentionPolicy, scope: Scope, limit: int
) -> PruneReport | None:
    old: list[Record] = []
    for shelf in state.finished.shelves():
        cutoffs = state.policy_of(shelf, policy).cutoffs(from_micros(state.now), scope)
        for status, cutoff in cutoffs.items():
            old += state.ended_by(shelf, status, to_micros(cutoff), limit - len(old))
    if not old:
        return None
    ends = [record.status for record in old]
    for record in old:
        state.prune(record, policy)
    return PruneReport(
        completed=ends.count(Status.COMPLETED),
        cancelled=ends.count(Status.CANCELLED),
        dead=ends.count(Status.DEAD),
        archived=0 if policy.archive_seconds == 0 else len(old),
        taken=len(old),
    )


def _drop_results(state: State, limit: int) -> PruneReport | None:
    dropped = 0
    while dropped < limit and state.result_ends and state.result_ends[0][0] <= state.now:
        heappop(state.result_ends)[2].result = None
        dropped += 1
    return PruneReport(results_dropped=dropped, taken=dropped) if dropped else None


def _drop_histories(state: State, policy: RetentionPolicy, limit: int) -> PruneReport | None:
    if state.too_old_to_tell is None:
        state.too_old_to_tell = _beyond(state, policy.history_events_max)
    doomed = state.too_old_to_tell[-limit:]
    if not doomed:
        return None
    del state.too_old_to_tell[-limit:]
    for record in doomed:
        record.history = []
        record.attempt_rows = []
        record.error = None
    return PruneReport(histories_dropped=len(doomed), taken=len(doomed))


def _beyond(state: State, events_max: int | None) -> list[Record]:
    """Completed jobs beyond the bound, the last to end first. Looked for once per clean-up."""
    if events_max is None:
        return []
    events = 0
    found = []
    for record in state.finished.last(Status.COMPLETED):
        if not record.history:
            break
        events += len(record.history)
        if events > events_max:
            found.append(record)
    return found


def _drop_archived(state: State, policy: RetentionPolicy, limit: int) -> PruneReport | None:
    dropped = state.archive.drop_old(policy.oldest_day(from_micros(state.now)), limit)
    return PruneReport(archive_dropped=dropped, taken=dropped) if dropped else None
