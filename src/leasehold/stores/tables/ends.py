"""What holders tell: how attempts end (`core.rules.ends`), and messages before that. All is fenced.

The messages are renewals, progress and log lines. With the end of an attempt goes what follows for
its rows: records beyond their bound, and jobs that become pending again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeVar

from leasehold.core.model.joblog import LogLine, bounded, check_progress
from leasehold.core.model.lease import (
    Renewal,
    Renewed,
    RunningLease,
    decide_renewal,
)
from leasehold.core.model.limits import LOG_LINES_MAX
from leasehold.core.model.status import Event
from leasehold.core.rules import fence
from leasehold.core.rules.ends import GatheredEnds
from leasehold.core.rules.fence import Histories
from leasehold.core.rules.placing import PendingEntry
from leasehold.env import to_micros
from leasehold.errors import LeaseExpiredError, LeaseLostError
from leasehold.stores.tables.database import TableDatabase
from leasehold.stores.tables.job_states import TableHistories
from leasehold.stores.tables.step import TableStep

T = TypeVar("T")

SURPLUS_ATTEMPT: Final = """
    SELECT version FROM attempt WHERE seq = $1 ORDER BY version DESC LIMIT 1 OFFSET $2
"""
# An attempt record stands for two history events; they stay when the record itself has to go. The
# first one's message is then when the lease was to end.
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
"""Where a row of `attempt` has messages."""
_LAST: Final = slice(-1, None)
"""Where those of `finished` and `waiting` have theirs."""


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
        """Write it all."""
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
    """Drop a job's oldest records of attempts beyond their bound, and keep their events."""
    surplus: Any = step.execute(
        SURPLUS_ATTEMPT, (seq, step.settings.attempt_records_max)
    ).fetchone()
    if surplus is not None:
        step.execute(KEEP_ITS_EVENTS, (seq, surplus[0]))
        step.execute(DROP_ATTEMPTS, (seq, surplus[0]))


def entry(step: TableStep, seq: int, version: int, attempts: int, events: int) -> PendingEntry:
    """A job that is to be pending again, which was running or had ended."""
    row: Any = step.execute(WHERE_IT_ENTERS, (seq,)).fetchone()
    lane, priority, base, *rest = row
    return PendingEntry(seq, lane, priority, base, version, attempts, events, step.now, *rest)


BEAT: Final = "UPDATE worker SET heartbeat_at = $1 WHERE id = $2"
LAST_LINE: Final = "SELECT coalesce(max(n), 0) FROM log WHERE seq = $1"
DROP_LINES: Final = "DELETE FROM log WHERE seq = $1 AND n <= $2"

LeaseName = tuple[str, int]
"""The id of a job, and the version of its lease."""
HeldLease = tuple[int, int, RunningLease]
"""Number and lane of a running job, and its lease."""


class TableMessages(ABC):
    """The messages of holders, each in a write."""

    histories: ClassVar[type[TableHistories]]
    extend: ClassVar[str]
    """For `many`: number, version, until when, and now. Guard: still this version."""
    keep_progress: ClassVar[str]
    add_lines: ClassVar[str]
    """For `many`: the rows of `log`."""

    @classmethod
    @abstractmethod
    def held(cls, step: Any, leases: Collection[LeaseName]) -> Mapping[LeaseName, HeldLease]:
        """Those of these leases that run."""

    @classmethod
    def renew(
        cls, step: TableStep, worker: str, renewals: Sequence[Renewal]
    ) -> list[Renewed | LeaseLostError]:
        """Renew leases that are held and not expired, and the worker's own sign of life."""
        held = cls.held(step, [(renewal.job_id, renewal.version) for renewal in renewals])
        answers: list[Renewed | LeaseLostError] = []
        extended: list[tuple[int, int, int, int]] = []
        for renewal in renewals:
            found = held.get((renewal.job_id, renewal.version))
            if found is None:
                answers.append(cls.histories.refuse(step, renewal.job_id, renewal.version))
                continue
            seq, lane, lease = found
            decided = decide_renewal(
                renewal,
                lease,
                now=step.now,
                extension_seconds_max=step.settings.extension_seconds_max,
            )
            if isinstance(decided, LeaseExpiredError):
                answers.append(decided)
                continue
            until, answer = decided
            extended.append((seq, renewal.version, until, step.now))
            step.count(lane, "total_renewed")
            answers.append(answer)
        step.many(cls.extend, extended)
        # After the leases, as in an exchange that notes who leases.
        step.execute(BEAT, (step.now, worker))
        return answers

    @classmethod
    def report_progress(
        cls, step: TableStep, job_id: str, version: int, progress: bytes
    ) -> LeaseLostError | None:
        """Keep the latest progress; answers a stale holder with its error."""
        held = cls.held(step, [(job_id, version)]).get((job_id, version))
        if held is None:
            return cls.histories.refuse(step, job_id, version)
        step.execute(cls.keep_progress, (held[0], progress.decode()))
        return None

    @classmethod
    def append_log(
        cls, step: TableStep, job_id: str, version: int, lines: Sequence[LogLine], dropped: int
    ) -> LeaseLostError | None:
        """Keep the latest lines; answers a stale holder with its error."""
        held = cls.held(step, [(job_id, version)]).get((job_id, version))
        if held is None:
            return cls.histories.refuse(step, job_id, version)
        seq = held[0]
        # The number of a dropped line is used up: the rest tells how many there were.
        n = step.execute(LAST_LINE, (seq,)).fetchone()[0] + dropped
        numbered = list(enumerate(lines, start=n + 1))[-LOG_LINES_MAX:]
        step.many(
            cls.add_lines,
            [
                (seq, number, to_micros(line.at), step.storable(bounded(line.text)))
                for number, line in numbered
            ],
        )
        step.execute(DROP_LINES, (seq, n + len(lines) - LOG_LINES_MAX))
        return None


class HoldingVerbs:
    """Messages of holders of leases."""

    _database: TableDatabase
    _messages: type[TableMessages]
    _histories: Callable[[Any], Histories[Any]]

    def _write_as_holder(self, operation: Callable[[Any], T]) -> T:
        """A holder writes only to the rows of its own leases."""
        return self._database.write(operation)

    def renew(self, worker: str, renewals: Sequence[Renewal]) -> list[Renewed | LeaseLostError]:
        return self._write_as_holder(lambda step: self._messages.renew(step, worker, renewals))

    def report_progress(self, job_id: str, version: int, progress: bytes) -> None:
        check_progress(job_id, progress)
        lost = self._write_as_holder(
            lambda step: self._messages.report_progress(step, job_id, version, progress)
        )
        if lost is not None:
            raise lost

    def append_log(
        self, job_id: str, version: int, lines: Sequence[LogLine], *, dropped: int = 0
    ) -> None:
        lost = self._write_as_holder(
            lambda step: self._messages.append_log(step, job_id, version, lines, dropped)
        )
        if lost is not None:
            raise lost

    def tell(
        self, job_id: str, event: Event, *, worker: str | None, version: int, message: str
    ) -> None:
        self._database.write(
            lambda step: fence.tell(self._histories(step), job_id, event, worker, version, message)
        )
