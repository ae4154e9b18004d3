"""The gate of a submit: who is let into queues that have rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from leasehold.core.admission import Admission, Asked, asked_for
from leasehold.core.drain import Drain
from leasehold.core.job import Draft
from leasehold.core.status import Status
from leasehold.stores.memory.rules import Rule
from leasehold.stores.memory.state import QueueState, State


class Gate:
    """Lets the drafts of one call in, by the rules of the queues that have any."""

    __slots__ = ("_admissions", "_drafts", "_is_pending", "_partial", "_state")

    def __init__(
        self,
        state: State,
        drafts: Sequence[Draft],
        *,
        is_pending: Callable[[Draft], bool],
        partial: bool,
    ) -> None:
        self._state = state
        self._drafts = drafts
        self._is_pending = is_pending
        self._partial = partial
        self._admissions: dict[str, tuple[Rule, Admission]] = {}

    def admit(self, draft: Draft) -> Draft:
        """Let a draft in, with its queue's defaults and then the store's; raises what its queue has
        against it.
        """
        queue = self._state.queues.get(draft.queue)
        if queue is not None and queue.rule is not None:
            known = self._admissions.get(draft.queue)
            if known is None:
                admission = self._open(draft.queue, queue, queue.rule)
                known = self._admissions[draft.queue] = queue.rule, admission
            draft = known[1].admit(draft, pending=self._is_pending(draft))
        defaults = self._state.settings.draft_defaults
        return draft if defaults is None else defaults.applied_to(draft)

    def write_down(self) -> None:
        """Keep what the jobs that were let in have used up."""
        now = self._state.now * 1000
        for rule, admission in self._admissions.values():
            if admission.buckets:
                # A bucket that is full is as good as none: clients come and go without number.
                both = {**rule.buckets, **admission.buckets}
                rule.buckets = {name: at for name, at in both.items() if at > now}

    def _open(self, name: str, queue: QueueState, rule: Rule) -> Admission:
        now = self._state.now
        totals = queue.totals
        ended = totals.completed + totals.dead + totals.cancelled
        rule.drain = (
            Drain.begin(now, ended) if rule.drain is None else rule.drain.observed(now, ended)
        )
        return Admission(
            name,
            rule.state,
            rule.config,
            pending=queue.counts[Status.PENDING],
            ended=ended,
            drain=rule.drain,
            full_at=lambda bucket: rule.buckets.get(bucket, 0),
            asked=None if self._partial else lambda: self._asked_of(name),
            now=now,
        )

    def _asked_of(self, queue: str) -> Asked:
        return asked_for(self._drafts, queue, self._state.known_id, self._is_pending)
