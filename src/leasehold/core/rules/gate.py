"""The gate of a submit: admits drafts to queues with rules, with one account for each queue.

All of it happens in the write that stores the jobs: the store reads the counts of its queues, and
saves the tokens and places that the accepted jobs use up. So a limit holds under any race.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from leasehold.core.model.drain import Drain
from leasehold.core.model.job import Draft
from leasehold.core.model.queue_config import QueueRule
from leasehold.core.rules.admission import Admission, Asked, asked_for
from leasehold.errors import QueueClosedError


class QueueFill(NamedTuple):
    """How full a queue is, and how fast it drains."""

    pending: int
    ended: int
    """How many of its jobs have ever ended."""
    drain: Drain | None
    """The samples of an earlier look; None before the first."""


class GateBook(Protocol):
    """The state of a store's queues, read and saved inside one write."""

    @property
    def now(self) -> int: ...

    def rule_of(self, queue: str) -> QueueRule | None:
        """The rule of a queue; None if it was never configured."""

    def fill_of(self, queue: str) -> QueueFill: ...

    def keep_drain(self, queue: str, drain: Drain) -> None: ...

    def full_at(self, queue: str, bucket: str) -> int:
        """When a token bucket will be full, in nanoseconds; 0 for a full one."""

    def keep_buckets(self, queue: str, buckets: Mapping[str, int]) -> None:
        """Buckets that are full again may be forgotten: the number of clients is unbounded."""


class Gate:
    """Admits the drafts of one call by the rules of their queues."""

    def __init__(
        self,
        book: GateBook,
        drafts: Sequence[Draft],
        *,
        is_pending: Callable[[Draft], bool],
        known: Callable[[Draft], str | None],
        partial: bool,
    ) -> None:
        """`is_pending` says whether a draft's job will be pending; `known` returns the job that its
        idempotency key stands for, if any.
        """
        self._book = book
        self._drafts = drafts
        self._is_pending = is_pending
        self._known = known
        self._partial = partial
        self._admissions: dict[str, Admission | None] = {}
        self._drains: dict[str, Drain] = {}

    def admit(self, draft: Draft) -> Draft:
        """Admit a draft and fill in its queue's defaults; raises the queue's refusal."""
        queue = draft.queue
        if queue not in self._admissions:
            rule = self._book.rule_of(queue)
            self._admissions[queue] = None if rule is None else self._open(queue, rule)
        admission = self._admissions[queue]
        if admission is None:
            return draft
        return admission.admit(draft, pending=self._is_pending(draft))

    def keep(self) -> None:
        """Save the tokens and places that the accepted jobs have used up."""
        self.keep_drains()
        for queue, admission in self._admissions.items():
            if admission is not None and admission.buckets:
                self._book.keep_buckets(queue, admission.buckets)

    def keep_drains(self) -> None:
        """Save new samples of how fast the queues drain, whether jobs were admitted or not."""
        for queue, drain in self._drains.items():
            self._book.keep_drain(queue, drain)

    def _open(self, queue: str, rule: QueueRule) -> Admission:
        if rule.problem is not None:
            raise QueueClosedError(
                f"queue {queue!r} takes no jobs: its rules cannot be read ({rule.problem}); they "
                "may have been written by a newer version: upgrade this process, or set them again"
            )
        now = self._book.now
        pending = ended = 0
        drain = Drain.begin(now, 0)
        if rule.config.max_depth is not None:
            pending, ended, known = self._book.fill_of(queue)
            drain = Drain.begin(now, ended) if known is None else known.observed(now, ended)
            if drain is not known:
                self._drains[queue] = drain
        return Admission(
            queue,
            rule.state,
            rule.config,
            pending=pending,
            ended=ended,
            drain=drain,
            full_at=lambda bucket: self._book.full_at(queue, bucket),
            asked=None if self._partial else lambda: self._asked_of(queue),
            now=now,
        )

    def _asked_of(self, queue: str) -> Asked:
        return asked_for(self._drafts, queue, self._known, self._is_pending)
