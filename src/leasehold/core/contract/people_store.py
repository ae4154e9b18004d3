"""Orders of people about single jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from leasehold.core.model.job import Job
from leasehold.errors import LeaseholdError


class PeopleStore(Protocol):
    """The part of the store that takes orders about jobs, each by its id."""

    def cancel(
        self, job_ids: Sequence[str], *, reason: str, actor: str
    ) -> list[Job | LeaseholdError]:
        """Cancel jobs; one answer each, in order.

        - CAN-1  A waiting job is `cancelled` at once and will never run.
        - CAN-2  A running one is marked `cancel_requested`, its worker is woken, and it ends when
                 the attempt ends or its lease is lost. Asking again keeps the first reason.
        - CAN-3  A terminal one is answered by InvalidTransitionError, an unknown one by
                 JobNotFoundError.
        - CAN-4  A reason that is not text raises InvalidJobError and changes nothing, as in
                 `recover_one`.
        """

    def replay(
        self, job_ids: Sequence[str], *, reset_attempts: bool, actor: str
    ) -> list[Job | LeaseholdError]:
        """Give dead or cancelled jobs another chance; one answer each, in order.

        - RPL-1  The job is `pending` again; its payload and lease version are kept. A start_by is
                 removed, since a person has decided that the job shall run.
        - RPL-2  With reset its attempts are 0 and its allowance is max_retries + 1; without, the
                 attempts are kept and the allowance grows by one.
        - RPL-3  Other statuses are answered by InvalidTransitionError.
        """

    def discard(self, job_ids: Sequence[str], *, actor: str) -> list[Job | LeaseholdError]:
        """Delete terminal jobs with all their records; returns their last snapshots.

        - DIS-1  A job that has not ended is answered by InvalidTransitionError.
        - DIS-2  A later job under the same id never gets a lease version that was granted before.
        - DIS-3  Its idempotency key is free again.
        """

    def reprioritize(self, job_id: str, priority: int, *, actor: str) -> Job:
        """Change the priority of a waiting job; it keeps its place in time.

        - PRI-1  Raises InvalidTransitionError for a job that is not waiting, JobNotFoundError for
                 an unknown one, and InvalidJobError for a number outside 0 to 100.
        """
