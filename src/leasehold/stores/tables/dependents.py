"""The dependents of a job: applying its end to them (`core.rules.resolving`), and checking them
before it is deleted.

The code that ends jobs calls `step.jobs_ended`, and dependents are handled in the same write.
Guard: the row in `blocker` is deleted, so each end counts once.

One write handles a bounded number; a job that still blocks others then has a row in `resolving`,
written with its end, and the next write, by any process, continues from there.

`core.rules.ended_dependents` asks whether any job still needs an ended one; the table
`ended_dependents` records how far its dependents were checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from leasehold.core.model.codes import EVENT_CODE, POLICY_OF, STATUS_CODE, STATUS_OF
from leasehold.core.model.graph import Graph, graph_of_rows
from leasehold.core.model.status import Event, Status
from leasehold.core.rules import ended_dependents, resolving
from leasehold.core.rules.placing import PendingEntry
from leasehold.core.rules.resolving import Dependent, Ended
from leasehold.stores.tables.inheritance import TableBases, fall_back
from leasehold.stores.tables.job_states import Ending, JobState, TableHistories
from leasehold.stores.tables.statements import Dialect, SqlConnection
from leasehold.stores.tables.step import TableStep

if TYPE_CHECKING:
    from leasehold.stores.tables.database import TableDatabase

RESOLVED: Final = "DELETE FROM resolving WHERE seq = $1"
BLOCKED_BY: Final = """
    SELECT blocker.seq, job.id, job.lane, job.priority, job.parent_id, dependent.policy,
           dependent.due, waiting.version, waiting.attempts, waiting.events, job.created_at,
           job.deadline,
           coalesce((SELECT base FROM raised WHERE raised.seq = blocker.seq), job.priority),
           EXISTS (SELECT 1 FROM blocker AS other
                   WHERE other.seq = blocker.seq AND other.needs <> $1)
    FROM blocker CROSS JOIN waiting CROSS JOIN dependent CROSS JOIN job
    WHERE blocker.needs = $1 AND waiting.seq = blocker.seq AND dependent.seq = blocker.seq
        AND job.seq = blocker.seq
    LIMIT $2
"""
UNBLOCK: Final = "DELETE FROM blocker WHERE needs = $1 AND {}"

_UNBLOCKED: Final = EVENT_CODE[Event.UNBLOCKED]
_BLOCKED: Final = STATUS_CODE[Status.BLOCKED]


class Blocked(NamedTuple):
    """A row of BLOCKED_BY."""

    seq: int
    id: str
    lane: int
    priority: int
    parent_id: str | None
    policy: int
    due: int
    version: int
    attempts: int
    events: int
    created_at: int
    deadline: int | None
    base: int
    waits_for_others: bool


class TableLinks:
    """See `leasehold.core.rules.resolving.Links`; an ended job is identified by number."""

    histories: ClassVar[type[TableHistories]]
    bases: ClassVar[type[TableBases]]
    remember_ended: ClassVar[str]
    """Adds the jobs of a list that have ended and block others to `resolving`."""
    find_ended: ClassVar[str]
    """Selects the next job in `resolving`: number, id, status, reason, and whether to erase it."""
    schedule: ClassVar[str]
    """For `many`: number, due, since, version, attempts, events of a job that becomes scheduled."""
    ended_by: ClassVar[str]
    """For `many`: the number of a dependent, and the number of the job whose end has ended it."""

    def __init__(self, step: Any) -> None:
        self._step: TableStep = step
        self.now = self._step.now
        self._histories = self.histories(step)
        self._ending: list[tuple[Ending, int]] = []
        """Dependents to end, with the ended job; gathered until needed."""

    def next_ended(self) -> Ended[Any] | None:
        step = self._step
        # Some may have just ended, with others waiting for them.
        self._end_all()
        if not self.some_to_tell(step):
            return None
        row: Any = step.execute(self.find_ended).fetchone()
        if row is None:
            step.some_unresolved = False
            return None
        seq, job_id, code, reason, purged = row
        return Ended(seq, _text(job_id), STATUS_OF[code], reason and _text(reason), bool(purged))

    def take_dependents(self, ended: Ended[Any], limit: int) -> Sequence[Dependent[Any]]:
        rows = self._step.execute(BLOCKED_BY, (ended.job, limit)).fetchall()
        found = [Blocked(*row) for row in rows]
        dialect = self.histories.dialect
        seqs = dialect.listed([each.seq for each in found])
        self._step.execute(UNBLOCK.format(dialect.among("seq", "$2")), (ended.job, seqs))
        return [
            Dependent(each, POLICY_OF[each.policy], each.due, bool(each.waits_for_others))
            for each in found
        ]

    def end(self, dependent: Blocked, after: Status, ended: Ended[Any], message: str) -> None:
        stood = (dependent.version, dependent.attempts, dependent.events, dependent.due, None)
        job = JobState(
            dependent.seq, dependent.id, dependent.lane, Status.BLOCKED, *stood, dependent.priority
        )
        self._ending.append((Ending(job, after, message), ended.job))

    def _end_all(self) -> None:
        if self._ending:
            self._step.many(self.ended_by, [(each.job.seq, by) for each, by in self._ending])
            self._histories.end([each for each, _ in self._ending])
            self._ending = []

    def free(self, pending: Sequence[Blocked], scheduled: Sequence[Blocked], message: str) -> None:
        self._end_all()
        step, now = self._step, self.now
        self._histories.stop_waiting([each.seq for each in (*pending, *scheduled)])
        self.histories.ready(step).enter(
            [
                PendingEntry(
                    each.seq, each.lane, each.priority, each.base, each.version, each.attempts,
                    each.events + 1, now, each.created_at, each.deadline, each.parent_id,
                )
                for each in pending
            ]
        )  # fmt: skip
        step.many(
            self.schedule,
            [
                (each.seq, each.due, now, each.version, each.attempts, each.events + 1)
                for each in scheduled
            ],
        )
        step.due_at(each.due for each in scheduled)
        for after, jobs in ((Status.PENDING, pending), (Status.SCHEDULED, scheduled)):
            step.many(
                step.insert_events,
                [
                    (
                        each.seq, each.events + 1, now, _UNBLOCKED, _BLOCKED, STATUS_CODE[after],
                        each.attempts, None, each.version, message,
                    )
                    for each in jobs
                ],
            )  # fmt: skip
            for each in jobs:
                step.move(each.lane, Status.BLOCKED, after)
        step.hints.ready = True

    def all_told(self, ended: Ended[Any]) -> None:
        self._end_all()
        self._step.execute(RESOLVED, (ended.job,))
        fall_back(self._step, ended.job)
        if ended.is_purged:
            self._histories.erase_all([ended.job])

    # -- after an operation --------------------------------------------------------------------

    @classmethod
    def resolve(cls, step: TableStep) -> None:
        """Handle dependents of jobs that have ended in this write or an earlier one.

        Called after every operation; without dependents, it only checks a few flags.
        """
        if step.ended or step.some_unresolved:
            links = cls(step)
            step.dependents_left = resolving.resolve(links, step.dependents_left)
            if links.next_ended() is not None:
                # Workers are woken, since their next exchange continues this.
                step.hints.unresolved = step.hints.ready = True
        if step.lowered or step.inheriting or step.some_inheriting:
            cls.bases(step).go_on()

    @classmethod
    def some_to_tell(cls, step: TableStep) -> bool:
        """Whether there are ended jobs whose dependents still have to be handled."""
        if step.somebody_waits and step.ended:
            ended = cls.histories.dialect.listed(step.ended)
            if step.changed(cls.remember_ended, (ended,)):
                step.some_unresolved = True
        step.ended.clear()
        return step.some_unresolved


def _text(value: str | bytes) -> str:
    """Text, whatever the row holds: if this failed, so would every later write."""
    return value if isinstance(value, str) else value.decode(errors="replace")


# A value, which is looked up for each dependent; from EXISTS, PostgreSQL's planner may make a join
# that compares all of them with all jobs. An OFFSET prevents that, too.
HAS_ENDED: Final = (
    "coalesce((SELECT true FROM finished AS ended WHERE ended.seq = link.seq), false)"
)
LOOKED: Final = """
    INSERT INTO ended_dependents VALUES ($1, $2)
    ON CONFLICT (seq) DO UPDATE SET up_to = excluded.up_to
"""
LOOK_AGAIN: Final = """
    DELETE FROM ended_dependents WHERE seq IN (SELECT needs FROM dependency WHERE seq = $1)
"""
NUMBERS: Final = "SELECT seq FROM job WHERE {}"


class TableDependents:
    """See `leasehold.core.rules.ended_dependents.DependentsBook`."""

    __slots__ = ("_db",)
    dialect: ClassVar[Dialect]
    up_to: ClassVar[str]
    """The number up to which the dependents of `{0}` were checked; 0 at the start."""
    count_further: ClassVar[str]
    """Counts the unchecked dependents of several jobs."""

    def __init__(self, db: SqlConnection) -> None:
        self._db = db

    def next(self, seq: int, limit: int) -> list[tuple[int, bool]]:
        statement = f"""
            SELECT link.seq, {HAS_ENDED} FROM dependency AS link
            WHERE link.needs = $1 AND link.seq > {self.up_to.format("$1")}
            ORDER BY link.seq LIMIT $2
        """
        return self._db.execute(statement, (seq, limit)).fetchall()

    def looked_up_to(self, seq: int, dependent: int) -> None:
        self._db.execute(LOOKED, (seq, dependent))

    def how_many(self, seqs: Sequence[int], limit: int) -> int:
        values = (self.dialect.listed(seqs), limit)
        return int(self._db.execute(self.count_further, values).fetchone()[0])

    def needed_by(self, seq: int) -> str | None:
        """The id of an unfinished job that depends on this job, if there is one."""
        statement = f"""
            SELECT job.id FROM dependency AS link JOIN job ON job.seq = link.seq
            WHERE link.needs = $1 AND link.seq > {self.up_to.format("$1")} AND NOT {HAS_ENDED}
            LIMIT 1
        """
        row: Any = self._db.execute(statement, (seq,)).fetchone()
        return None if row is None else row[0]

    @classmethod
    def still_needed(cls) -> str:
        """True for a job in `finished` that an unfinished one depends on, which must not be
        deleted.
        """
        return f"""
            EXISTS (SELECT 1 FROM dependency AS link WHERE link.needs = finished.seq
                    AND link.seq > {cls.up_to.format("finished.seq")} AND NOT {HAS_ENDED}
                    LIMIT 1 OFFSET 0)
        """

    @classmethod
    def look_through(cls, database: TableDatabase, job_ids: Sequence[str]) -> None:
        """Check very many dependents of jobs to be deleted, before the write that deletes them.

        One write must not pay for them all.
        """
        numbers = NUMBERS.format(cls.dialect.among("id", "$1"))
        with database.read() as db:
            jobs = db.execute(numbers, (cls.dialect.listed(job_ids),)).fetchall()
            crowded = [seq for (seq,) in jobs if ended_dependents.is_crowded(cls(db), seq)]
        for seq in crowded:
            look = partial(cls._look_at_some, seq=seq)
            ended_dependents.look_through(partial(database.write, look))

    @classmethod
    def _look_at_some(cls, step: TableStep, seq: int) -> int:
        return ended_dependents.look_at_some(cls(step), seq)


def replayed(step: TableStep, seq: int) -> None:
    """An ended job is unfinished again, so its dependencies may be needed."""
    step.execute(LOOK_AGAIN, (seq,))


# CROSS JOIN: SQLite joins the tables in this order, and does not search all jobs for the few.
_NODES: Final = """
    SELECT job.seq, job.id, lane.queue, lane.task, dependent.policy, ended_by.id,
           coalesce(finished.status, waiting.status,
                    CASE WHEN running.seq IS NULL THEN 2 ELSE 3 END),
           coalesce(finished.reason, waiting.reason)
    FROM linked CROSS JOIN job CROSS JOIN lane
    LEFT JOIN running ON running.seq = job.seq
    LEFT JOIN finished ON finished.seq = job.seq
    LEFT JOIN waiting ON waiting.seq = job.seq
    LEFT JOIN dependent ON dependent.seq = job.seq
    LEFT JOIN job AS ended_by ON ended_by.seq = dependent.ended_by
    WHERE job.seq = linked.seq AND lane.id = job.lane
    ORDER BY job.seq
"""
_LINKS: Final = """
    SELECT dependency.seq, job.id FROM linked CROSS JOIN dependency CROSS JOIN job
    WHERE dependency.seq = linked.seq AND job.seq = needs
    ORDER BY dependency.seq, n
"""

_WAITS_FOR_NOBODY: Final = """
    SELECT id FROM waiting JOIN job USING (seq)
    WHERE status = 1 AND seq NOT IN (SELECT seq FROM blocker) LIMIT 10
"""
_WAITS_FOR_EVER: Final = """
    SELECT DISTINCT id FROM blocker JOIN job USING (seq) JOIN finished ON finished.seq = needs
    WHERE needs NOT IN (SELECT seq FROM resolving)
    UNION SELECT id FROM blocker JOIN job USING (seq) WHERE needs NOT IN (SELECT seq FROM job)
    LIMIT 10
"""
_BLOCKED_NO_MORE: Final = """
    SELECT DISTINCT seq FROM blocker
    WHERE seq NOT IN (SELECT seq FROM waiting WHERE status = 1) LIMIT 10
"""
_NEVER_TOLD: Final = (
    "SELECT seq FROM resolving WHERE seq NOT IN (SELECT seq FROM finished) LIMIT 10"
)


def graph_of(db: SqlConnection, linked: str, job_ids: Any) -> Graph:
    """Jobs and all jobs linked with them; `linked` finds their numbers from a list of ids."""
    rows = db.execute(linked + _NODES, (job_ids,)).fetchall()
    links = db.execute(linked + _LINKS, (job_ids,)).fetchall()
    return graph_of_rows(rows, links)


def problems(db: SqlConnection) -> Iterator[str]:
    """Every fault that would leave a job blocked for ever, or run it too early."""
    for (job_id,) in db.execute(_WAITS_FOR_NOBODY):
        yield f"job {job_id} is blocked, but waits for no job"
    for (job_id,) in db.execute(_WAITS_FOR_EVER):
        yield f"job {job_id} waits for a job that has ended or is gone, and will not be told"
    for (seq,) in db.execute(_BLOCKED_NO_MORE):
        yield f"number {seq} waits for another job, but is not blocked"
    for (seq,) in db.execute(_NEVER_TOLD):
        yield f"number {seq} has not ended, but its dependents are to be told so"
