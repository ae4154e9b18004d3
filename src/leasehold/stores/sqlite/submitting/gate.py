"""The gate of a submit: who is let into queues that have rules.

Guard: depth and buckets are read, and written down, in the write that stores the jobs, so no other
process comes in between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from leasehold.core.admission import Admission, Asked, asked_for
from leasehold.core.budget import FORGOTTEN_AT_ONCE
from leasehold.core.drain import Drain
from leasehold.core.job import Draft
from leasehold.errors import QueueClosedError
from leasehold.stores.sqlite.writing.step import Step

# Only the UNIQUE (queue, task) index and the queue's few lanes are read, never its jobs.
FILLED: Final = """
    SELECT coalesce(sum(pending), 0),
           coalesce(sum(total_completed + total_dead + total_cancelled), 0)
    FROM lane WHERE queue = ?
"""
DRAIN: Final = "SELECT older_at, older_ended, newer_at, newer_ended FROM queue WHERE name = ?"
KEEP_DRAIN: Final = """
    UPDATE queue SET older_at = ?, older_ended = ?, newer_at = ?, newer_ended = ? WHERE name = ?
"""
FULL_AT: Final = "SELECT full_at FROM bucket WHERE queue = ? AND name = ?"
KEEP_BUCKET: Final = "INSERT OR REPLACE INTO bucket VALUES (?, ?, ?)"
# A bucket that is full is as good as none: clients come and go without number.
FORGET_FULL_BUCKETS: Final = f"""
    DELETE FROM bucket WHERE (queue, name) IN (
        SELECT queue, name FROM bucket WHERE full_at <= ? ORDER BY full_at
        LIMIT {FORGOTTEN_AT_ONCE})
"""  # noqa: S608  # our own number


class Gate:
    """Lets the drafts of one call in, by the rules of the queues that have any."""

    def __init__(
        self,
        step: Step,
        drafts: Sequence[Draft],
        *,
        is_pending: Callable[[Draft], bool],
        known: Callable[[Draft], str | None],
        partial: bool,
    ) -> None:
        """`known` says which job a draft's idempotency key stands for, if it stands for one."""
        self._step = step
        self._drafts = drafts
        self._is_pending = is_pending
        self._known = known
        self._partial = partial
        self._admissions: dict[str, Admission | None] = {}
        self._samples: dict[str, Drain] = {}

    def admit(self, draft: Draft) -> Draft:
        """Let a draft in, with its queue's defaults and then the store's; raises what its queue has
        against it.
        """
        if draft.queue not in self._admissions:
            self._admissions[draft.queue] = self._open(draft.queue)
        admission = self._admissions[draft.queue]
        if admission is not None:
            draft = admission.admit(draft, pending=self._is_pending(draft))
        defaults = self._step.settings.draft_defaults
        return draft if defaults is None else defaults.applied_to(draft)

    def write_down(self) -> None:
        """Keep what the jobs that were let in have used up."""
        self.write_samples()
        for queue, admission in self._admissions.items():
            if admission is not None and admission.buckets:
                self._step.execute(FORGET_FULL_BUCKETS, (self._step.now * 1000,))
                self._step.executemany(
                    KEEP_BUCKET,
                    [(queue, name, full_at) for name, full_at in admission.buckets.items()],
                )

    def write_samples(self) -> None:
        """Keep new measures of how fast the queues drain, whether jobs were let in or not."""
        for queue, drain in self._samples.items():
            self._step.execute(
                KEEP_DRAIN,
                (drain.older_at, drain.older_ended, drain.newer_at, drain.newer_ended, queue),
            )

    def _open(self, queue: str) -> Admission | None:
        step = self._step
        rule = step.rules.get(queue)
        if rule is None:
            return None
        if rule.problem is not None:
            raise QueueClosedError(
                f"queue {queue!r} takes no jobs: its rules cannot be read ({rule.problem}); they "
                "may have been written by a newer version: upgrade this process, or set them again"
            )
        pending = ended = 0
        drain = Drain.begin(step.now, 0)
        if rule.config.max_depth is not None:
            filled: Any = step.execute(FILLED, (queue,)).fetchone()
            pending, ended = filled
            drain = self._look_at_drain(queue, ended)
        return Admission(
            queue,
            rule.state,
            rule.config,
            pending=pending,
            ended=ended,
            drain=drain,
            full_at=lambda bucket: self._full_at(queue, bucket),
            asked=None if self._partial else lambda: self._asked_of(queue),
            now=step.now,
        )

    def _asked_of(self, queue: str) -> Asked:
        return asked_for(self._drafts, queue, self._known, self._is_pending)

    def _look_at_drain(self, queue: str, ended: int) -> Drain:
        step = self._step
        row: Any = step.execute(DRAIN, (queue,)).fetchone()
        known = None if row[0] is None else Drain(*row)
        drain = Drain.begin(step.now, ended) if known is None else known.observed(step.now, ended)
        if drain is not known:
            self._samples[queue] = drain
        return drain

    def _full_at(self, queue: str, bucket: str) -> int:
        row = self._step.execute(FULL_AT, (queue, bucket)).fetchone()
        return 0 if row is None else int(row[0])
