"""What people ask for, in the words of this database; see `tables.order_desk`."""

from __future__ import annotations

from collections.abc import Sequence

from leasehold.core.model.job import Job
from leasehold.core.rules.placing import Standing
from leasehold.stores.postgres.leasing import ready
from leasehold.stores.postgres.leasing.ends import entry
from leasehold.stores.postgres.leasing.state import Histories
from leasehold.stores.postgres.reading.read import read_jobs
from leasehold.stores.postgres.rules.queues import QueueBook
from leasehold.stores.postgres.submitting import linking
from leasehold.stores.postgres.submitting.dependents import DependentsBook
from leasehold.stores.postgres.submitting.inheritance import Bases
from leasehold.stores.tables.job_states import JobState
from leasehold.stores.tables.order_desk import TableDesk


class OrderDesk(TableDesk, Histories):
    """See `leasehold.core.rules.people.OrderDesk`."""

    queue_book = QueueBook
    dependents = DependentsBook
    bases = Bases

    def _read(self, job_ids: Sequence[str]) -> list[Job]:
        return read_jobs(self._step.db, job_ids)

    def _enter_again(self, job: JobState, attempts: int) -> None:
        step, version, n = self._step, job.lease_version, job.events + 1
        ready.enter(step, [entry(step, job.seq, version=version, attempts=attempts, events=n)])

    def _block_again(self, job: JobState, attempts: int, needed: Sequence[int]) -> None:
        version, n = job.lease_version, job.events + 1
        linking.block_again(
            self._step, job.seq, needed, version=version, attempts=attempts, events=n
        )

    def _move(self, standing: Standing, priority: int) -> None:
        ready.reprioritize(self._step, standing, priority)
