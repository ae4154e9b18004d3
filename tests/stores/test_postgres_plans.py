"""Statements that look up a few jobs read little, whatever the planner believed of the tables.

Every verb is carried out on a store with 100,000 jobs, after a worker's first look, and the server
says of each statement which rows it has visited.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.env import Env, ManualClock
from leasehold.errors import LeaseholdError
from support.every_verb import every_verb
from support.filled import JOBS, RUNNING, fill
from support.servers import Schemas, needs_psycopg

needs_psycopg()

import psycopg  # noqa: E402

from leasehold.stores.postgres import PostgresStore  # noqa: E402
from leasehold.stores.postgres.keeping.beliefs import Beliefs  # noqa: E402
from leasehold.stores.postgres.reading.read import conditions  # noqa: E402
from leasehold.stores.postgres.server import connection  # noqa: E402

ROWS_MAX = 6 * RUNNING
"""Leases are few, and may be read as a whole, some times over; nothing else may."""
LOOKS_UP = re.compile(r"\b(?:id|seq|needs|ctid) = (?:ANY\()?\$|unnest\(\$|\(VALUES \(\$", re.ASCII)
READ_ALL = {
    # How deep a graph is nobody knows beforehand: each table is read once at most.
    "graph",
    # Reads the whole store: that is its purpose.
    "check",
}
READ_PAGES = {"search", "changes"}
"""May then read a table for each row of the page."""
LANES = 100
SPREAD_OVER_LANES = (
    (
        "INSERT INTO lane (queue, task, made_at) SELECT 'others', 'work-' || n, 0 "
        "FROM generate_series(1, 500) AS n"
    ),
    (
        "UPDATE job SET lane = lane.id FROM lane WHERE lane.task = 'work-' || 1 + job.seq % 500 "
        "AND job.seq > 1000000"
    ),
)
EXPLAINED = (
    "LOAD 'auto_explain'",
    "SET auto_explain.log_min_duration = 0",
    "SET auto_explain.log_analyze = on",
    "SET auto_explain.log_timing = off",
    "SET auto_explain.log_format = json",
    "SET auto_explain.log_level = notice",
)


class Plans:
    """What the server says of the statements that it carries out."""

    def __init__(self) -> None:
        self._told: list[dict[str, Any]] = []

    def hear(self, message: Any) -> None:
        _, is_plan, plan = (message.message_primary or "").partition("plan:")
        if is_plan:
            self._told.append(json.loads(plan))

    def take(self) -> Iterator[tuple[str, dict[str, int]]]:
        """The statements since the last call, each with the rows that it has visited, by table."""
        told, self._told = self._told, []
        for each in told:
            yield " ".join(each["Query Text"].split()), _visited(each["Plan"])


def _visited(node: dict[str, Any]) -> dict[str, int]:
    found: dict[str, int] = {}
    if "Relation Name" in node:
        removed = node.get("Rows Removed by Filter", 0)
        found[node["Relation Name"]] = (node["Actual Rows"] + removed) * node["Actual Loops"]
    for child in node.get("Plans", ()):
        for table, rows in _visited(child).items():
            found[table] = found.get(table, 0) + rows
    return found


@pytest.fixture
def url(schemas: Schemas, request: pytest.FixtureRequest) -> Iterator[str]:
    """A store of its own: nobody is to use again what the planner was made to believe."""
    query = "&" if "?" in schemas.url else "?"
    schema = f"plans_{os.getpid()}_{request.node.callspec.id.replace('-', '_')}"
    yield f"{schemas.url}{query}schema={schema}"
    with psycopg.connect(schemas.url, autocommit=True) as db:
        db.execute(f"DROP SCHEMA {schema} CASCADE".encode())


@pytest.mark.parametrize("mode", ["generic", "custom"])
@pytest.mark.parametrize("history", ["never_analyzed", "vacuumed_empty"])
def test_statements_that_look_jobs_up_read_little(
    url: str, monkeypatch: pytest.MonkeyPatch, history: str, mode: str
) -> None:
    clock, plans = ManualClock(), Plans()
    fill_and_explain(url, monkeypatch, plans, history)
    configure = connection.configure

    def as_told(raw: connection.RawConnection, *args: Any, **more: Any) -> None:
        configure(raw, *args, **more)
        raw.execute(f"SET plan_cache_mode = force_{mode}_plan".encode())

    monkeypatch.setattr(connection, "configure", as_told)
    # Looks leave to the server which kind of plan is better: here it is told.
    searches = connection.FOR_SEARCHES.replace("'auto'", f"'force_{mode}_plan'")
    monkeypatch.setattr(connection, "FOR_SEARCHES", searches)
    read_much: dict[str, str] = {}
    looked_up = 0
    with closing(PostgresStore(url, env=Env(clock=clock))) as store:
        # As a worker does every second.
        store.dead_workers()
        assert store._beliefs.correct() == []
        list(plans.take())
        for verb in carry_out(store, clock):
            for statement, visited in plans.take():
                if not LOOKS_UP.search(statement) or verb in READ_ALL:
                    continue
                looked_up += 1
                if sum(visited.values()) > ROWS_MAX:
                    read_much[statement] = f"{verb}: {visited} by {statement}"
    assert looked_up > 100
    assert not read_much, "\n".join(read_much.values())


@pytest.mark.parametrize("history", ["vacuumed_empty"])
def test_before_anybody_has_looked_no_statement_of_a_write_compares_all_jobs_with_each_other(
    url: str, monkeypatch: pytest.MonkeyPatch, history: str
) -> None:
    clock, plans = ManualClock(), Plans()
    fill_and_explain(url, monkeypatch, plans, history)
    monkeypatch.setattr(Beliefs, "correct", lambda _: [])
    read_much: dict[str, str] = {}
    with closing(PostgresStore(url, env=Env(clock=clock))) as store:
        for verb in carry_out(store, clock):
            for statement, visited in plans.take():
                if verb not in READ_PAGES and sum(visited.values()) > 10 * JOBS:
                    read_much[statement] = f"{verb}: {visited} by {statement}"
    assert not read_much, "\n".join(read_much.values())


@pytest.mark.parametrize("history", ["vacuumed_empty"])
def test_a_check_of_a_store_that_is_believed_to_be_empty_reads_it_some_times_over(
    url: str, monkeypatch: pytest.MonkeyPatch, history: str
) -> None:
    plans = Plans()
    fill_and_explain(url, monkeypatch, plans, history)
    with closing(PostgresStore(url, env=Env(clock=ManualClock()))) as store:
        list(plans.take())
        store.check()
    read = {statement: visited for statement, visited in plans.take() if visited}
    assert len(read) > 10
    for statement, visited in read.items():
        assert sum(visited.values()) <= 10 * JOBS, f"{visited} by {statement}"


@pytest.mark.parametrize("history", ["never_analyzed", "vacuumed_empty"])
def test_a_search_by_task_passes_jobs_over_and_looks_up_the_lane_of_none(
    url: str, monkeypatch: pytest.MonkeyPatch, history: str
) -> None:
    plans = Plans()
    fill_and_explain(url, monkeypatch, plans, history)
    server, _, schema = url.rpartition("schema=")
    with closing(PostgresStore(url, env=Env(clock=ManualClock()))) as store:
        store.submit([Draft(id="rare", task="rare", queue="rare")])
        with psycopg.connect(server.rstrip("?&"), autocommit=True) as db:
            db.execute(f"SET search_path = {schema}".encode())
            for statement in SPREAD_OVER_LANES:
                db.execute(statement.encode())
        store.dead_workers()
        store._beliefs.correct()
        for where in (JobFilter(tasks=("rare",)), JobFilter(queues=("rare",))):
            list(plans.take())
            # It is the oldest job.
            assert [job.id for job in store.search(where, limit=1).jobs] == ["rare"]
            read = [visited for _, visited in plans.take() if visited.get("job")]
            assert max(visited["job"] for visited in read) >= JOBS, "all are passed over"
            # Newer servers may read all lanes once, since they are few beside the jobs.
            assert max(visited.get("lane", 0) for visited in read) < JOBS / 10


@pytest.mark.parametrize("history", ["vacuumed_empty"])
def test_what_was_measured_is_read_once_however_many_lanes_there_are(
    url: str, monkeypatch: pytest.MonkeyPatch, history: str
) -> None:
    plans = Plans()
    fill_and_explain(url, monkeypatch, plans, history)
    with closing(PostgresStore(url, env=Env(clock=ManualClock()))) as store:
        store.submit([Draft(id=f"job-{n}", task=f"t{n}", queue="many") for n in range(LANES)])
        store.exchange(request=LeaseRequest(worker="w", queues=("many",), limit=LANES))
        list(plans.take())
        assert store.metrics("many").leased == LANES
        [read] = [read for _, visited in plans.take() if (read := visited.get("measured"))]
    # The wait of each, and the worker's count of leases.
    assert LANES <= read <= 3 * LANES


def fill_and_explain(url: str, monkeypatch: pytest.MonkeyPatch, plans: Plans, history: str) -> None:
    """Make a store of many jobs with this history, whose connections say what they read."""
    PostgresStore(url, env=Env(clock=ManualClock())).close()
    server, _, schema = url.rpartition("schema=")
    with psycopg.connect(server.rstrip("?&"), autocommit=True) as db:
        try:
            db.execute(b"LOAD 'auto_explain'")
        except psycopg.Error as error:
            pytest.skip(f"this server cannot say how it reads: {error}")
        db.execute(f"SET search_path = {schema}".encode())
        fill(db, was_vacuumed_empty=history == "vacuumed_empty")
    configure = connection.configure

    def explained(raw: connection.RawConnection, *args: Any, **more: Any) -> None:
        configure(raw, *args, **more)
        raw.add_notice_handler(plans.hear)
        for statement in EXPLAINED:
            raw.execute(statement.encode())

    monkeypatch.setattr(connection, "configure", explained)


def carry_out(store: PostgresStore, clock: ManualClock) -> Iterator[str]:
    """Every verb, but for the check of the whole store."""
    script = every_verb(clock)
    verb, call = next(script)
    while True:
        try:
            answer = None if verb == "check" else call(store)
        except LeaseholdError as error:
            pytest.fail(f"{verb}: {error}")
        yield verb
        try:
            verb, call = script.send(answer)
        except StopIteration:
            return


def test_several_statuses_are_asked_of_each_job_and_looked_for_in_no_list() -> None:
    # Lists that are joined by OR are gone through, from their beginning, for every job.
    [(clause, _)] = conditions(JobFilter(statuses=tuple(each for each in Status)))
    assert "SELECT" not in clause


def test_pending_jobs_of_a_parent_are_not_looked_for_among_all_pending_ones() -> None:
    # That list has no index by the number of a job: all of it would be read.
    clauses = dict(conditions(JobFilter(parent_id="one", statuses=(Status.PENDING,))))
    lists = {clause: values for clause, values in clauses.items() if "FROM ready" in clause}
    assert lists == {"job.seq IN (SELECT seq FROM ready WHERE parent_id = {})": ("one",)}
