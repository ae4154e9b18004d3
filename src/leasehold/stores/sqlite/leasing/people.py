"""What people ask for, in the words of this database; see `tables.order_desk`."""

from __future__ import annotations

from collections.abc import Sequence

from leasehold.core.model.job import Job
from leasehold.core.model.unreadable import cannot_be_read
from leasehold.core.rules.people import Replay
from leasehold.core.rules.placing import Standing
from leasehold.stores.sqlite.leasing import ready
from leasehold.stores.sqlite.leasing.ends import entry
from leasehold.stores.sqlite.leasing.state import Histories
from leasehold.stores.sqlite.reading.read import read_job
from leasehold.stores.sqlite.rules.queues import QueueBook
from leasehold.stores.sqlite.schema.job_row import problem_with
from leasehold.stores.sqlite.submitting import linking
from leasehold.stores.sqlite.submitting.dependents import DependentsBook
from leasehold.stores.sqlite.submitting.inheritance import Bases
from leasehold.stores.tables.job_states import JobState
from leasehold.stores.tables.order_desk import TableDesk


class OrderDesk(TableDesk, Histories):
    """See `leasehold.core.rules.people.OrderDesk`."""

    queue_book = QueueBook
    dependents = DependentsBook
    bases = Bases

    def _read(self, job_ids: Sequence[str]) -> list[Job]:
        found = (read_job(self._step.db, job_id) for job_id in job_ids)
        return [job for job in found if job is not None]

    def replay(self, job: JobState, replay: Replay, waits_for: Sequence[int]) -> None:
        problem = problem_with(self._step.db, job.seq)
        if problem is not None:
            raise cannot_be_read(job.id, problem)
        super().replay(job, replay, waits_for)

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
