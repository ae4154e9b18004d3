"""Any cell of any table may hold garbage: nobody but its own job feels it, and `check` names it.

One store with one of everything is made once, and copied for every case. Each column of each table
is given kinds of garbage in turn; then everything is read, a worker drains the store, people give
orders, a clean-up runs. Whatever any of that raises is an error of ours, and reading raises none.
Columns of tables that no job stands in are hit a few at a time, each in another table.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import apsw
import pytest

from leasehold.core.model.archive import ArchiveSpan
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.retention import RetentionPolicy, Scope
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import TERMINAL, Status
from leasehold.core.rules.filter_orders import CancelAll
from leasehold.env import ManualClock
from leasehold.errors import LeaseholdError
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.schema.cells import CELLS
from support.effort import THOROUGH
from support.everything import (
    ENDED,
    LIVE,
    NEEDS,
    PRUNED,
    QUEUES,
    make_everything,
    open_store,
)

GARBAGE: Final = {
    "bad text": "CAST(x'ff00fe' AS TEXT)",
    "text": "'garbage'",
    "empty": "''",
    "blob": "x'00ff17'",
    "negative": "-9223372036854775807",
    "huge": "9223372036854775807",
    "newer": "99",
    "real": "3.5",
    "infinite": "9e999",
    "null": "NULL",
    "document": '\'{"type": "fibonacci"}\'',
    "broken document": "'{'",
}
DAMAGES: Final = {
    "INTEGER": ("text", "bad text", "blob", "negative", "huge", "real", "infinite", "null"),
    "REAL": ("text", "bad text", "blob", "negative", "infinite"),
    "TEXT": ("bad text", "blob", "null"),
    "BLOB": ("text", "bad text", "null"),
}
"""What is garbage in a column of this type, whatever it is for."""
DOCUMENTS: Final = {
    "job.retry": ("document", "broken document"),
    "job.metadata": ("broken document",),
    "progress.document": ("broken document",),
    "schedule.draft": ("document", "broken document"),
    "queue.config": ("broken document",),
    "queue.state": ("text",),
    "setting.value": ("broken document", "text"),
    "pin.document": ("broken document", "document"),
    "token.document": ("broken document", "document"),
    "operation.document": ("broken document", "document"),
    "operation_part.document": ("broken document", "document"),
    "worker.queues": ("broken document",),
    "audit.detail": ("broken document",),
    "audit_archive.detail": ("broken document",),
    "span.measures": ("blob",),
    "failure.jobs": ("broken document", "document"),
    "archive.metadata": ("broken document",),
    "cleanup.mode": ("text",),
    "reply.data": ("blob",),
}
CODES: Final = frozenset(
    {
        "job.born", "waiting.status", "finished.status", "attempt.outcome", "attempt.after",
        "event.event", "event.before", "event.after", "dependent.policy", "archive.status",
        "pruned_key.status", "measured.measure", "change.kind", "cleanup.phase",
    }
)  # fmt: skip
"""Columns that a newer version may give codes that this one does not know."""
KINDS_AT_ONCE: Final = 2 if THOROUGH else 1
"""Of each column so many kinds are tried: which ones is fixed, and differs between neighbours."""
SIGNED: Final = frozenset(
    {
        "ready.turn", "place.turn", "rescoring.turn", "ready.lane", "place.lane", "rescoring.lane",
        "rescoring.tier", "worker.life",
    }
)  # fmt: skip
"""Numbers that may be negative or as great as a number can be."""


APART: Final = frozenset(
    {
        "store_state", "meta", "lane", "job", "ready", "waiting", "running", "finished",
        "key_lane", "queue", "setting",
    }
)  # fmt: skip
"""What is damaged in these changes what becomes of jobs: nothing else is damaged beside it."""
TOGETHER: Final = 1 if THOROUGH else 3
"""So many columns of other tables are damaged in one store."""


class Case(NamedTuple):
    """One column, and the kinds of garbage that it is given."""

    table: str
    column: str
    kinds: tuple[str, ...]
    is_key: bool

    @property
    def name(self) -> str:
        return f"{self.table}.{self.column}"


class Image:
    """The store that has one of everything, in a folder to be copied."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = ManualClock()
        make_everything(folder / "jobs.db", self.clock)

    def cases(self) -> Iterator[Case]:
        db = apsw.Connection(str(self.folder / "jobs.db"))
        tables: Any = db.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        ).fetchall()
        for (table,) in tables:
            rows: Any = db.execute(f"SELECT count(*) FROM {table}").fetchone()
            assert rows[0], f"the image has no row in {table}"
            columns: Any = db.execute(f"PRAGMA table_info({table})").fetchall()
            for _, column, kind, _, _, key in columns:
                name = f"{table}.{column}"
                assert column in CELLS[table], f"nobody has said what {name} must hold"
                kinds = (*DAMAGES[kind], *DOCUMENTS.get(name, ()))
                if name in CODES:
                    kinds = (*kinds, "newer")
                if name in SIGNED:
                    kinds = tuple(each for each in kinds if each not in ("negative", "huge"))
                yield Case(table, column, kinds, bool(key))
        db.close()


def sampled(case: Case, number: int) -> tuple[str, ...]:
    """Some of the kinds, others from column to column; documents and codes always."""
    special = (*DOCUMENTS.get(case.name, ()), *(("newer",) if case.name in CODES else ()))
    rest = [kind for kind in case.kinds if kind not in special]
    turn = number % len(rest)
    return (*(rest[turn:] + rest[:turn])[: KINDS_AT_ONCE - bool(special)], *special[:1])


_NOW: Final = Scope(force=True)
_KEEP_ALL: Final = RetentionPolicy(completed_seconds=None, cancelled_seconds=None)
_KEEP_NOTHING: Final = RetentionPolicy(
    completed_seconds=0, cancelled_seconds=0, dead_seconds=3600, archive_seconds=3600,
    history_events_max=1, audit_seconds=3600, audit_archive_seconds=0,
)  # fmt: skip
TURNS: Final = 4 if THOROUGH else 2


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with TemporaryDirectory() as made:
        yield Path(made)


@pytest.fixture(scope="module")
def image(folder: Path) -> Image:
    (folder / "image").mkdir()
    return Image(folder / "image")


def all_cases() -> list[Case]:
    with TemporaryDirectory() as made:
        cases = list(Image(Path(made)).cases())
    return [case._replace(kinds=sampled(case, number)) for number, case in enumerate(cases)]


def groups() -> Iterator[Any]:
    """Every column once, some of them together with columns of other tables."""
    cases = all_cases()
    alone = [case for case in cases if TOGETHER == 1 or case.table in APART]
    rest = [case for case in cases if case not in alone]
    # The columns of a table stand together: so far apart, no two of one group are of one table.
    groups = -(-len(rest) // TOGETHER)
    for group in [*((case,) for case in alone), *(rest[n::groups] for n in range(groups))]:
        assert len({case.table for case in group}) == len(group)
        yield pytest.param(group, id=" ".join(case.name for case in group))


@pytest.mark.parametrize("group", [*groups()])
def test_damage(image: Image, folder: Path, group: Sequence[Case]) -> None:
    for turn in range(max(len(case.kinds) for case in group)):
        hit = Hit(
            image,
            folder / "copy",
            [Cell(case, case.kinds[turn]) for case in group if turn < len(case.kinds)],
        )
        try:
            hit.try_all()
        finally:
            hit.close()


def test_what_every_write_meets_is_begun_anew_before_all_else(image: Image, folder: Path) -> None:
    """Each write goes on with it: none would ever get to anything else that is damaged."""
    cases = {case.name: case for case in image.cases()}
    first, other = cases["inheriting.compared_to"], cases["measured.bucket"]
    hit = Hit(image, folder / "copy", [Cell(first, "bad text"), Cell(other, "infinite")])
    try:
        hit.try_all()
    finally:
        hit.close()


class Cell(NamedTuple):
    """What is damaged, and how."""

    case: Case
    kind: str

    def __str__(self) -> str:
        return f"{self.case.name} = {GARBAGE[self.kind]}"


class Hit:
    """A copy of the image with garbage in a column of some row, or of a row of some tables."""

    def __init__(self, image: Image, folder: Path, cells: Sequence[Cell]) -> None:
        self.folder = folder
        shutil.copytree(image.folder, folder)
        self.path = folder / "jobs.db"
        self.clock = ManualClock(image.clock.now())
        damaged = {cell: self._damage(cell) for cell in cells}
        self.victims = {cell: victims for cell, victims in damaged.items() if victims is not None}
        """The jobs that are hit, by cell; without those whose garbage SQLite refuses."""
        self.said = ", ".join(map(str, self.victims))
        self.tables = {cell.case.table for cell in self.victims}
        self._store: SQLiteStore | None = None

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
        shutil.rmtree(self.folder)

    def _damage(self, cell: Cell) -> set[str] | None:
        """The jobs that are hit; None if SQLite refuses the value."""
        table, column, value = cell.case.table, cell.case.column, GARBAGE[cell.kind]
        db = apsw.Connection(str(self.path))
        try:
            db.execute("PRAGMA ignore_check_constraints = ON").fetchall()
            columns: Any = db.execute(f"PRAGMA table_info({table})").fetchall()
            owner = "NULL"
            if any(name == "seq" for _, name, *_ in columns):
                owner = f"(SELECT CAST(id AS BLOB) FROM job AS its WHERE its.seq = {table}.seq)"
            keys = [name for _, name, *_, key in columns if key]
            row: Any = db.execute(
                f"SELECT {owner}, {', '.join(keys)} FROM {table} "
                f"ORDER BY {column} IS NULL, {', '.join(keys)} DESC LIMIT 1"
            ).fetchone()
            where = " AND ".join(f"{key} = ?" for key in keys)
            try:
                db.execute(f"UPDATE {table} SET {column} = {value} WHERE {where}", row[1:])
            except (apsw.ConstraintError, apsw.MismatchError):
                return None
            if table in ("queue", "setting"):
                db.execute(
                    "UPDATE store_state SET queue_generation = queue_generation + 1, "
                    "settings_generation = settings_generation + 1"
                )
            return set() if row[0] is None else {row[0].decode()}
        finally:
            db.close()

    # -- what must hold ------------------------------------------------------------------------

    def try_all(self) -> None:
        if not self.victims:
            return
        self._store = self._must("open", lambda: open_store(self.path, self.clock))
        store = self._store
        told = self._must("check", store.check)
        for case, kind in self.victims:
            if not case.is_key and kind != "null" and case.table != "meta":
                # Facts about the file are written anew by whoever opens it.
                assert any(case.name in line for line in told), f"{self.said}: {told}"
        if "store_state" in self.tables:
            # Who only looks cannot put it right, and is told so.
            self._may_refuse("search", lambda: store.search(JobFilter()))
        else:
            self._read_all(store)
        self._drain(store, range(TURNS // 2))
        # What no write meets is looked for by the daily clean-up.
        self._clean_up(store, _KEEP_ALL)
        self._drain(store, range(TURNS // 2, TURNS))
        self._judge(store)
        self._give_orders(store)
        self.clock.advance(timedelta(days=2).total_seconds())
        self._clean_up(store, _KEEP_NOTHING)
        if THOROUGH:
            self._read_all(store)
        else:
            self._read_what_stays(store)
        self._must("check", store.check)

    def _must(self, what: str, verb: Callable[[], Any]) -> Any:
        try:
            return verb()
        except Exception as error:
            raise AssertionError(f"{self.said}: {what} raised {error!r}") from error

    def _may_refuse(self, what: str, verb: Callable[[], Any]) -> None:
        try:
            verb()
        except LeaseholdError:
            pass
        except Exception as error:
            raise AssertionError(f"{self.said}: {what} raised {error!r}") from error

    def _read_all(self, store: SQLiteStore) -> None:
        must = self._must
        page = must("search", lambda: store.search(JobFilter()))
        must("search text", lambda: store.search(JobFilter(text="no")))
        must("search error", lambda: store.search(JobFilter(error_text="no")))
        must("search tag", lambda: store.search(JobFilter(metadata={"a": 1}, parent_id="group")))
        for status in Status:
            must(f"list {status}", lambda: store.search(JobFilter(statuses=(status,))))  # noqa: B023
        ids = [job.id for job in page.jobs]
        for job_id in {*ids[:2], *ids[-2:], *set().union(*self.victims.values())}:
            for read in (
                store.get, store.history, store.attempts, store.log, store.position,
                store.history_page, store.log_page,
            ):  # fmt: skip
                must(f"{read.__name__} of {job_id}", lambda: read(job_id))  # noqa: B023
        must("graph", lambda: store.graph(ids))
        must("find_ids", lambda: store.find_ids(""))
        must("peek", lambda: store.peek("default", limit=100))
        must("changes", lambda: store.changes("0"))
        must("archived", lambda: store.archived(PRUNED))
        must("search_archive", lambda: store.search_archive(JobFilter()))
        must("tagged", lambda: store.search_archive(JobFilter(metadata={"a": 1}, error_text="x")))
        day = self.clock.now().date()
        must(
            "archive of a day",
            lambda: store.search_archive(JobFilter(), span=ArchiveSpan(first_day=day)),
        )
        must("slowest", lambda: store.search_archive(JobFilter(tasks=("t",)), slowest_first=True))
        must("count", lambda: store.count(JobFilter(limit_key="k")))
        must("stuck", lambda: store.stuck(0))
        for queue in (None, "keyed"):
            must("stats", lambda: store.stats(queue))  # noqa: B023
            must("metrics", lambda: store.metrics(queue))  # noqa: B023
            must("series", lambda: store.series(queue))  # noqa: B023
            must("daily", lambda: store.daily(queue))  # noqa: B023
        must("queue_info", lambda: store.queue_info("keyed"))
        must("key_info", lambda: store.key_info("keyed", "k"))
        must("find_token", lambda: store.find_token("digest"))
        must("is_session_over", lambda: store.is_session_over("ann", "session"))
        must("operation", lambda: store.operation("operation"))
        must("plan", lambda: store.plan_operation(CancelAll(), JobFilter(tasks=("t",))))
        self._may_refuse("signing_key", store.signing_key)
        self._may_refuse("get_schedule", lambda: store.get_schedule("tick"))
        for look in (
            store.now, store.describe, store.queues, store.list_queues, store.schedules,
            store.settings, store.tokens, store.workers, store.cleanups, store.audit_page,
            store.operations,
        ):  # fmt: skip
            must(look.__name__, look)

    def _read_what_stays(self, store: SQLiteStore) -> None:
        """What a clean-up writes or leaves."""
        for look in (store.stats, store.metrics, store.series, store.daily, store.cleanups,
                     store.audit_page, store.queues, store.schedules):  # fmt: skip
            self._must(look.__name__, look)
        self._must("search", lambda: store.search(JobFilter()))
        self._must("search_archive", lambda: store.search_archive(JobFilter()))

    def _drain(self, store: SQLiteStore, turns: range) -> None:
        for turn in turns:
            self.clock.advance(61)
            for verb in (store.recover, store.promote, store.fire_schedules):
                self._must(verb.__name__, verb)
            drafts = [Draft(id=f"new-{turn}", task="t"), Draft(id=f"keyed-{turn}", task="t",
                      queue="keyed", limit_key="k"), Draft(id=f"after-{turn}", task="t",
                      depends_on=(f"new-{turn}",))]  # fmt: skip
            self._may_refuse("submit", lambda: store.submit(drafts, partial=True))  # noqa: B023
            self._run(store)

    def _run(self, store: SQLiteStore) -> None:
        request = LeaseRequest(worker="w", limit=10, queues=QUEUES)
        while leases := self._must("lease", lambda: store.exchange(request=request)).leases:
            settlements = [Settlement(each.job_id, each.version, Complete()) for each in leases]
            self._must("settle", lambda: store.exchange(settlements))  # noqa: B023

    def _judge(self, store: SQLiteStore) -> None:
        jobs = {job.id: job for job in store.search(JobFilter(), limit=500).jobs}
        names = {cell.case.name for cell in self.victims}
        if names & {"lane.id", "lane.queue", "lane.task"}:
            return  # Its jobs cannot be told from others' any more; a backup has to be restored.
        spared = set().union(*self.victims.values())
        if "queue" in self.tables or "key_lane.id" in names:
            # The jobs of a queue whose rules cannot be read wait until somebody sets them again.
            spared |= {job_id for job_id, job in jobs.items() if job.queue in ("keyed", "other")}
        spared |= {job_id for job_id, needed in NEEDS.items() if needed & spared}
        new = {f"{name}-{turn}" for name in ("new", "after") for turn in range(TURNS)}
        for job_id in (LIVE | new) - spared:
            status = jobs[job_id].status if job_id in jobs else None
            assert status is Status.COMPLETED, f"{self.said}: {job_id} is {status}"
        for job_id in ENDED - spared:
            assert jobs[job_id].status in TERMINAL, f"{self.said}: {job_id}"
        for cell, victims in self.victims.items():
            for job_id in victims & (LIVE | ENDED) & jobs.keys() if not cell.case.is_key else ():
                status = jobs[job_id].status
                assert status in TERMINAL, f"{self.said}: {job_id} is still {status}"

    def _give_orders(self, store: SQLiteStore) -> None:
        ids = [job.id for job in store.search(JobFilter(), limit=500).jobs]
        may = self._may_refuse
        may("replay", lambda: store.replay(ids, reset_attempts=True, actor="me"))
        may("reprioritize", lambda: store.reprioritize("dead", 7, actor="me"))
        self._run(store)
        may("cancel", lambda: store.cancel(ids, reason="so", actor="me"))
        may("same key", lambda: store.submit([Draft(id="again", task="t", idempotency_key="done")]))
        may("its key", lambda: store.submit([Draft(id="more", task="t", idempotency_key=PRUNED)]))
        may("pause", lambda: store.pause_schedule("tick", paused=True, actor="me"))
        may("discard", lambda: store.discard(["stopped"], actor="me"))

    def _clean_up(self, store: SQLiteStore, policy: RetentionPolicy) -> None:
        report = self._must("prune", lambda: store.prune(policy, scope=_NOW, actor="me"))
        while report.more:
            run = report.run
            report = self._must(
                "go on with it",
                lambda: store.prune(policy, run=run, scope=_NOW, actor="me"),  # noqa: B023
            )
