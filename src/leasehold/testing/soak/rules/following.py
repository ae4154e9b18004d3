"""Rules of the change feed: every event once, in order, or a gap."""

from __future__ import annotations

from collections import defaultdict

from leasehold.core.model.status import Event
from leasehold.testing.soak.book import Untold
from leasehold.testing.soak.calls import Followed
from leasehold.testing.soak.rules.base import JudgedCall, rule


@rule("CHG-1")
def every_event_is_told_once(step: JudgedCall) -> int:
    if not isinstance(step.answer, Followed):
        return 0
    untold, step.book.untold = step.book.untold, Untold()
    if untold is None or step.answer.gap:
        assert step.answer.changes == [] or step.answer.gap, f"{step.answer.changes} were told"
        return 0
    told: dict[str, list[tuple[int, Event]]] = defaultdict(list)
    gone = set()
    for change in step.answer.changes:
        if change.kind == "job" and change.status is None:
            gone.add(change.name)
        elif change.event is not None and change.sequence is not None:
            told[change.name].append((change.sequence, change.event))
    assert untold.gone <= gone, f"nobody heard that {untold.gone - gone} are gone"
    met = 0
    for job_id in step.after.jobs:
        # A job whose history was dropped has lost its events, and an id may be another job's now.
        if job_id not in step.used_again and step.store.history(job_id):
            expected = untold.events.get(job_id, [])
            assert told.get(job_id, []) == expected, f"{job_id}: {told.get(job_id)}, not {expected}"
            met += len(expected)
    return met
