"""The part of the store contract about queues and their rules, as numbered clauses.

The meaning of a queue's rules for `submit` and `exchange` (its limits per key are in
`core.model.key_limits`, its start rates in `core.model.start_rate`):

- LIM-1  A submit makes jobs pending only while fewer than `max_depth` jobs of the queue are,
         however many processes submit at once; otherwise QueueFullError names the queue and says
         when to try again, or that this many new pending jobs can never fit at once. Delayed and
         blocked jobs do not count; promotions, retries, releases, recoveries, replays and
         unblocking bypass the limit.
- LIM-2  At most `max_concurrency` jobs of the queue run at once, however many processes lease; the
         slot of a job whose holder was lost is free when the job is taken back. Meanwhile jobs of
         other queues are leased.
- LIM-3  Jobs that come faster than `rate_per_second`, or than `client_rate_per_second` from one
         client, beyond a burst of two seconds' worth, raise RateLimitedError, which says when to
         try again, how many may come at once, how many could now, and when it is all of them again.
- LIM-4  A refused job is counted as `rejected`; a refused all-or-nothing submit uses up nothing. A
         known idempotency key is answered regardless of the rules.
- LIM-5  Listeners hear `on_ready` when a queue that was full has room again, and when a job may be
         leased because another one ended.
- LIM-6  A job that names no lease_seconds, max_retries or retry gets those of its queue when it is
         submitted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from leasehold.core.model.budget import PURGE_AT_ONCE
from leasehold.core.model.key_limits import KeyInfo
from leasehold.core.model.queue_config import QueueConfig, QueueInfo, QueueState
from leasehold.core.model.records import Purged
from leasehold.core.model.search import JobFilter


class QueueRules(Protocol):
    """The operations of a store on queues that have rules of their own."""

    def create_queue(self, queue: str, config: QueueConfig, *, actor: str) -> QueueInfo:
        """Give a new queue its rules.

        - QUE-1  It is active. Creating it again with the same rules changes nothing, its state
                 included, so that any number of processes may do it when they start; with other
                 rules it raises QueueExistsError, which names the differences and who changed them
                 last.
        """

    def update_queue(self, queue: str, changes: Mapping[str, Any], *, actor: str) -> QueueInfo:
        """Change some of a queue's rules.

        - QUE-2  Rules that are not named stay as they are, under races too; None removes one. An
                 invalid one raises InvalidQueueError and changes nothing. A queue that was not
                 created but has held jobs may be changed too; any other raises QueueNotFoundError.
        - QUE-3  A change applies from the next submit and the next lease, in every process;
                 existing jobs stay, and running jobs continue.
        """

    def set_queue_state(self, queue: str, state: QueueState, *, actor: str) -> QueueInfo:
        """Pause, resume or drain a queue.

        - QUE-4  No job of a paused queue is leased; it accepts jobs, and running jobs continue.
        - QUE-5  A draining queue accepts nothing: QueueClosedError names it. Its jobs are leased,
                 retried and recovered as usual.
        - QUE-6  Resuming a queue wakes workers. An unknown queue raises QueueNotFoundError.
        """

    def purge_queue(
        self, queue: str, where: JobFilter, *, actor: str, limit: int = PURGE_AT_ONCE
    ) -> Purged:
        """Delete matching waiting jobs of a queue, at most `limit`, those submitted last first.

        - QUE-7  Only waiting jobs (pending, scheduled, failed, blocked) are deleted, with all
                 their records; they count as cancelled and cleaned. DIS-2 and DIS-3 hold for them.
        - QUE-11  Dependents of a purged job, in any queue, are treated as if the job had been
                 cancelled (DEP-4); a dependent that is not purged itself keeps the status that
                 results. If there are more dependents than one write handles, the job is deleted
                 once the last of them has been handled (DEP-5), unless it was replayed before.
                 DEP-7 does not hold here: a dependent that ignores the purge continues without the
                 job.
        - QUE-12  The answer says whether more jobs may match, and how many jobs that are not purged
                 themselves QUE-11 affects.
        """

    def delete_queue(self, queue: str, *, force: bool, actor: str) -> int:
        """Forget a queue's rules and state; returns how many jobs became dead letters as a result.

        - QUE-8  While jobs wait or run in it, it raises QueueNotEmptyError and changes nothing;
                 with `force`, waiting jobs become `dead` with the reason, and running ones may
                 finish. Jobs that have ended stay where they are. Many jobs take several writes,
                 during which the queue is `deleting`: nothing is accepted or leased, and if the
                 call is cut short, any sweep continues it.
        - QUE-14  From then on it is reported as `deleted`, or not at all once it has no jobs left,
                 until a submit or `create_queue` creates it again.
        """

    def queue_info(self, queue: str) -> QueueInfo | None:
        """A queue's rules, state and figures; None if it was not created and never held a job, or
        was deleted and holds none.

        - QUE-9  Every change by one of these verbs is an audit record.
        - QUE-13  It says when the queue was created and by whom (if it was never created: when its
                 first job came, and no name), and when and by whom its rules or state were changed
                 last. Creating it again with the same rules is no change.
        """

    def list_queues(self) -> list[QueueInfo]:
        """The `queue_info` of every queue that was created or ever held a job, by name.

        - QUE-10  All of it is of one moment and comes from counters: no job is read.
        """

    def key_info(self, queue: str, key: str) -> KeyInfo:
        """How many jobs with this `limit_key` run in a queue, and when the next may start."""
