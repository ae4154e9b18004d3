"""What holders tell: how attempts end (`core.rules.ends`), and before that, `core.rules.holding`.

With the end of an attempt goes what follows for its rows: records beyond their bound, and jobs that
become pending again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Final

from leasehold.core.model.joblog import LogLine
from leasehold.core.model.lease import RunningLease
from leasehold.core.model.limits import LOG_LINES_MAX
from leasehold.core.rules.ends import GatheredEnds
from leasehold.core.rules.holding import LeaseName
from leasehold.core.rules.placing import PendingEntry
from leasehold.env import to_micros
from leasehold.errors import LeaseLostError
from leasehold.stores.tables.job_states import TableHistories
from leasehold.stores.tables.step import TableStep

SURPLUS_ATTEMPT: Final = """
    SELECT version FROM attempt WHERE seq = $1 ORDER BY version DESC LIMIT 1 OFFSET $2
"""
# An attempt record stands for two history events, which stay when the record itself is dropped. The
# message of the first is then the expiry of the lease.
KEEP_ITS_EVENTS: Final = """
    INSERT INTO event
    SELECT seq, leased_event, started_at, 3, 2, 3, number, worker, version,
           CAST(started_at + lease_micros AS TEXT)
        FROM attempt WHERE seq = $1 AND version <= $2
    UNION ALL
    SELECT seq, ended_event, ended_at, outcome, 3, after, attempts, worker, version, message
        FROM attempt WHERE seq = $1 AND version <= $2
"""
DROP_ATTEMPTS: Final = "DELETE FROM attempt WHERE seq = $1 AND version <= $2"
WHERE_IT_ENTERS: Final = """
    SELECT lane, priority,
           coalesce((SELECT base FROM raised WHERE raised.seq = job.seq), priority),
           created_at, deadline, parent_id
    FROM job WHERE seq = $1
"""

_TEXTS_OF_ATTEMPT: Final = slice(11, 15)
"""The columns of `attempt` that hold messages."""
_LAST: Final = slice(-1, None)
"""The column of `finished` and `waiting` that holds one."""


class TableEnds(GatheredEnds):
    """Ends of attempts of one write."""

    __slots__ = ("_step",)
    histories: ClassVar[type[TableHistories]]
    insert_attempts: ClassVar[str]
    """For `many`, like the next two."""
    count_failures: ClassVar[str]
    insert_waiting: ClassVar[str]

    def __init__(self, step: Any) -> None:
        super().__init__(step.now, step.settings.attempt_records_max, step.measured)
        self._step: TableStep = step

    def write(self) -> None:
        """Write all gathered ends."""
        step = self._step
        step.attempts_failed(self.errors)
        step.many(self.insert_attempts, step.storable_rows(self.attempts, _TEXTS_OF_ATTEMPT))
        if self.failed:
            step.many(self.count_failures, self.failed)
        for seq in self.surplus:
            trim_attempts(step, seq)
        step.many(self.histories.insert_finished, step.storable_rows(self.finished, _LAST))
        step.jobs_ended(self.ended)
        if self.waiting or self.again:
            step.many(self.insert_waiting, step.storable_rows(self.waiting, _LAST))
            step.due_at(due for _, _, due, *_ in self.waiting)
            self.histories.ready(step).enter([entry(step, *each) for each in self.again])
            step.hints.ready = True
        self.count(step)


def trim_attempts(step: TableStep, seq: int) -> None:
    """Drop a job's oldest attempt records beyond their bound, and keep their events."""
    surplus: Any = step.execute(
        SURPLUS_ATTEMPT, (seq, step.settings.attempt_records_max)
    ).fetchone()
    if surplus is not None:
        step.execute(KEEP_ITS_EVENTS, (seq, surplus[0]))
        step.execute(DROP_ATTEMPTS, (seq, surplus[0]))


def entry(step: TableStep, seq: int, version: int, attempts: int, events: int) -> PendingEntry:
    """The entry of a job that was running or had ended and becomes pending again."""
    row: Any = step.execute(WHERE_IT_ENTERS, (seq,)).fetchone()
    lane, priority, base, *rest = row
    return PendingEntry(seq, lane, priority, base, version, attempts, events, step.now, *rest)


BEAT: Final = "UPDATE worker SET heartbeat_at = $1 WHERE id = $2"
LAST_LINE: Final = "SELECT coalesce(max(n), 0) FROM log WHERE seq = $1"
DROP_LINES: Final = "DELETE FROM log WHERE seq = $1 AND n <= $2"

RunningJob = tuple[int, int, int]
"""Number, lane and lease version of a job that runs."""


class TableHolderBook(ABC):
    """See `leasehold.core.rules.holding.HolderBook`."""

    histories: ClassVar[type[TableHistories]]
    extend_leases: ClassVar[str]
    """For `many`: number, version, until when, and now. Guard: still this version."""
    write_progress: ClassVar[str]
    write_lines: ClassVar[str]
    """For `many`: the rows of `log`."""

    def __init__(self, step: Any) -> None:
        self._step: TableStep = step
        self.now = self._step.now
        self.extension_seconds_max = self._step.settings.extension_seconds_max

    @abstractmethod
    def held(
        self, leases: Collection[LeaseName]
    ) -> Mapping[LeaseName, tuple[RunningJob, RunningLease]]:
        """The given leases that are still held."""

    def refuse(self, job_id: str, version: int) -> LeaseLostError:
        return self.histories.refuse(self._step, job_id, version)

    def extend(self, extended: Sequence[tuple[RunningJob, int]]) -> None:
        rows = [(seq, version, until, self.now) for (seq, _, version), until in extended]
        self._step.many(self.extend_leases, rows)
        for (_, lane, _), _ in extended:
            self._step.count(lane, "total_renewed")

    def note_alive(self, worker: str) -> None:
        self._step.execute(BEAT, (self.now, worker))

    def keep_progress(self, job: RunningJob, progress: bytes) -> None:
        self._step.execute(self.write_progress, (job[0], progress.decode()))

    def add_lines(self, job: RunningJob, lines: Sequence[LogLine], dropped: int) -> None:
        step, seq = self._step, job[0]
        # Dropped lines use up numbers, so the remaining numbers show how many there were.
        n = step.execute(LAST_LINE, (seq,)).fetchone()[0] + dropped
        numbered = list(enumerate(lines, start=n + 1))[-LOG_LINES_MAX:]
        step.many(
            self.write_lines,
            [
                (seq, number, to_micros(line.at), step.storable(line.text))
                for number, line in numbered
            ],
        )
        step.execute(DROP_LINES, (seq, n + len(lines) - LOG_LINES_MAX))
