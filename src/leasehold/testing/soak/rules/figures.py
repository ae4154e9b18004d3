"""Rules of figures: counts are a recount, and totals grow by the events of a call."""

from __future__ import annotations

from collections import Counter

from leasehold.core.model.outcome import Fail
from leasehold.core.model.status import Event
from leasehold.testing.soak.rules.base import JudgedCall, rule
from leasehold.testing.soak.rules.settling import accepted


@rule("MET-5")
def counts_are_a_recount(step: JudgedCall) -> int:
    counts = Counter(job.status for job in step.after.jobs.values())
    shown = {status: count for status, count in step.after.stats.counts.items() if count}
    assert shown == dict(counts), f"shown are {shown}, there are {dict(counts)}"
    return 1


@rule("MET-1")
def what_happens_is_counted_once(step: JudgedCall) -> int:
    """Of a purge only the ends that are not readable any more are left out."""
    happened = Counter(event.event for event in step.events)
    failed = sum(
        isinstance(settlement.outcome, Fail) and answer.event in (Event.FAILED, Event.DEAD)
        for settlement, answer in accepted(step)
    )
    expected = {
        "submitted": happened[Event.CREATED],
        "leased": happened[Event.LEASED],
        "completed": happened[Event.COMPLETED],
        "failed": failed,
        "retried": happened[Event.FAILED],
        "dead": happened[Event.DEAD],
        "cancelled": happened[Event.CANCELLED],
        "recovered": happened[Event.RECOVERED],
        "cleaned": len(step.gone),
    }
    if step.is_purge:
        expected["cancelled"] += len(step.gone)
    before, after = step.before.stats, step.after.stats
    for name, count in expected.items():
        grown = getattr(after, name) - getattr(before, name)
        assert grown == count, f"{name} has grown by {grown}, not by {count}"
    return sum(expected.values())
