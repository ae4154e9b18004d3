"""Admission: which jobs a queue with limits accepts.

There is one account per queue and submit. The store gives it the counts read inside its write, asks
it about each job, and saves the account together with the jobs, so that a limit holds under any
race.

Only jobs that a submit makes pending count towards `max_depth`: a delayed or blocked job is
accepted however deep the queue is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from leasehold.core.model.drain import Drain
from leasehold.core.model.job import Draft
from leasehold.core.model.queue_config import QueueConfig, QueueState, being_deleted
from leasehold.core.model.rate import NANOS, Rate
from leasehold.env import from_micros
from leasehold.errors import QueueClosedError, QueueFullError, RateLimitedError

QUEUE_BUCKET: Final = "queue"
"""The name of the bucket that all clients of a queue share."""
_CLIENT: Final = "client:"


def client_bucket(client: str | None) -> str:
    """The name of a client's own bucket; clients without a name share one."""
    return _CLIENT + (client or "")


def key_bucket(limit_key: str) -> str:
    """The name of a key's own bucket."""
    return "key:" + limit_key


def loose_rate(config: QueueConfig, bucket: str) -> Rate | None:
    """The rate of a bucket that need not be exact under every race; None for a key's bucket, which
    must be exact.

    >>> loose_rate(QueueConfig(rate_per_second=2), "queue")
    Rate(per_second=2)
    """
    if bucket == QUEUE_BUCKET:
        rate = config.rate_per_second
    elif bucket.startswith(_CLIENT):
        rate = config.client_rate_per_second
    else:
        return None
    return None if rate is None else Rate(rate)


Asked = Sequence[tuple[Draft, bool]]
"""The new jobs of an all-or-nothing call, and whether each of them would be pending."""


def asked_for(
    drafts: Sequence[Draft],
    queue: str,
    known: Callable[[Draft], str | None],
    is_pending: Callable[[Draft], bool],
) -> Asked:
    """The new jobs that one call adds to one queue, without drafts that are duplicates.

    `known` returns the job that an idempotency key stands for, which may be one admitted earlier in
    this call. It is called only when a job is refused, so it may be slow.
    """
    keys: set[str] = set()
    asked = []
    for draft in drafts:
        if draft.queue != queue:
            continue
        if draft.idempotency_key is not None:
            if draft.idempotency_key in keys or known(draft) not in (None, draft.id):
                continue
            keys.add(draft.idempotency_key)
        asked.append((draft, is_pending(draft)))
    return asked


class Admission:
    """Admits jobs of one call to one queue, or says why not."""

    def __init__(
        self,
        queue: str,
        state: QueueState,
        config: QueueConfig,
        *,
        pending: int,
        ended: int,
        drain: Drain,
        full_at: Callable[[str], int],
        asked: Callable[[], Asked] | None,
        now: int,
    ) -> None:
        """`full_at` holds the buckets; `asked` is the demand of a whole batch, None where each job
        is admitted on its own; `now` is in micros.
        """
        self._queue = queue
        self._state = state
        self._config = config
        self._pending = pending
        self._ended = ended
        self._drain = drain
        self._full_at = full_at
        self._asked = asked
        self._now = now
        self._made_pending = 0
        self._taken: Counter[str] = Counter()
        self.buckets: dict[str, int] = {}
        """The buckets used: when each is full again, in nanoseconds."""

    def admit(self, draft: Draft, *, pending: bool) -> Draft:
        """Accept a job and fill in the queue's defaults, or raise the refusal.

        `pending` says whether the job adds to the depth: a delayed or blocked one does not.
        """
        if self._state is QueueState.DELETING:
            raise being_deleted(self._queue)
        if self._state is QueueState.DRAINING:
            raise QueueClosedError(
                f"job {draft.id} was not stored: queue {self._queue!r} is draining: it accepts "
                f"no new jobs until it is resumed"
            )
        if pending:
            self._check_depth(draft)
        taken = dict(self._take(draft))
        self.buckets.update(taken)
        self._taken.update(taken.keys())
        self._pending += pending
        self._made_pending += pending
        return self._config.applied_to(draft)

    def _check_depth(self, draft: Draft) -> None:
        limit = self._config.max_depth
        if limit is None or self._pending < limit:
            return
        asked = 1 if self._asked is None else sum(pending for _, pending in self._asked())
        if asked > limit:
            raise QueueFullError(
                f"{asked} jobs do not fit at once into queue {self._queue!r}, which holds "
                f"{limit} pending jobs: submit fewer at a time",
                queue=self._queue,
                limit=limit,
                remaining=self._room(limit),
            )
        before = self._pending if self._asked is None else self._pending - self._made_pending
        surplus = before + asked - limit
        seconds = self._drain.seconds_for(max(1, surplus), now=self._now, ended=self._ended)
        raise QueueFullError(
            f"job {draft.id} was not stored: queue {self._queue!r} is full ({before} of {limit} "
            f"pending); try again in {seconds:.1f} s",
            seconds,
            queue=self._queue,
            limit=limit,
            remaining=self._room(limit),
            reset_at=from_micros(self._now + round(seconds * 1e6)),
        )

    def _room(self, limit: int) -> int:
        """How many more jobs could wait; a refused batch takes no room."""
        kept = self._pending if self._asked is None else self._pending - self._made_pending
        return max(0, limit - kept)

    def _take(self, draft: Draft) -> Iterator[tuple[str, int]]:
        now = self._now * 1000
        for bucket, who, rate in self._rates(draft):
            full_at = self.buckets.get(bucket)
            if full_at is None:
                full_at = self._full_at(bucket)
            wait = rate.wait_nanos(full_at, jobs=1, now=now)
            if wait:
                raise self._too_fast(draft, bucket, who, rate, wait)
            yield bucket, rate.take(full_at, jobs=1, now=now)

    def _rates(self, draft: Draft) -> Iterator[tuple[str, str, Rate]]:
        config = self._config
        if config.rate_per_second is not None:
            yield QUEUE_BUCKET, "all clients together", Rate(config.rate_per_second)
        if config.client_rate_per_second is not None:
            who = f"client {draft.client!r}" if draft.client else "a client without a name"
            yield client_bucket(draft.client), who, Rate(config.client_rate_per_second)
        if config.key_rate_per_second is not None and draft.limit_key is not None:
            who = f"key {draft.limit_key!r}"
            yield key_bucket(draft.limit_key), who, Rate(config.key_rate_per_second)

    def _too_fast(
        self, draft: Draft, bucket: str, who: str, rate: Rate, wait: int
    ) -> RateLimitedError:
        asked = 1 if self._asked is None else sum(map(self._is_for(bucket), self._asked()))
        # A refused batch uses up no tokens.
        used = self.buckets.get(bucket) if self._asked is None else None
        full_at = self._full_at(bucket) if used is None else used
        now = self._now * 1000
        remaining = rate.remaining(full_at, now=now)
        reset_at = from_micros(-(-max(full_at, now) // 1000))
        if asked > rate.burst:
            return RateLimitedError(
                f"{asked} jobs at once exceed the burst of queue {self._queue!r}, which accepts "
                f"{rate.per_second:g} per second from {who} and {rate.burst} at once: "
                "submit fewer at a time",
                queue=self._queue,
                limit=rate.burst,
                remaining=remaining,
                reset_at=reset_at,
            )
        # The remaining jobs of this call have to fit too.
        behind = 0 if self._asked is None else max(0, asked - self._taken[bucket] - 1)
        seconds = (wait + behind * rate.interval_nanos) / NANOS
        return RateLimitedError(
            f"job {draft.id} was not stored: queue {self._queue!r} accepts {rate.per_second:g} "
            f"jobs per second from {who}; try again in {seconds:.3f} s ({remaining} of "
            f"{rate.burst} "
            f"are left, and all of them again at {reset_at.isoformat(timespec='milliseconds')})",
            seconds,
            queue=self._queue,
            limit=rate.burst,
            remaining=remaining,
            reset_at=reset_at,
        )

    def _is_for(self, bucket: str) -> Callable[[tuple[Draft, bool]], bool]:
        """Whether a job uses a token of this bucket."""
        return lambda asked: any(name == bucket for name, _, _ in self._rates(asked[0]))
