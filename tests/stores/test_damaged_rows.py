"""A row that cannot be read is set aside; all others go on, and `check` names it.

Rows are damaged by a connection of SQLite's own while the store is closed, as a newer version, a
bug or a bad disk would leave them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leasehold.core.model.job import Draft, Job
from leasehold.core.model.joblog import LogLine
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete, Fail, JobError
from leasehold.core.model.queue_config import QueueConfig
from leasehold.core.model.retry import Constant
from leasehold.core.model.schedule import ScheduleDraft
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import TERMINAL, Status
from leasehold.core.model.timing import Every
from leasehold.core.model.tokens import TokenDraft
from leasehold.env import SYSTEM, Env, ManualClock
from leasehold.errors import LeaseholdError, QueueClosedError
from leasehold.stores.sqlite import SQLiteStore
from support.effort import drawn

BAD_TEXT: Final = "CAST(x'ff00fe' AS TEXT)"
NEWER_RETRY: Final = '{"type": "fibonacci", "seconds": 1}'


class Damaged:
    """A store in a file that is closed, damaged and opened again."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "jobs.db"
        self.clock = ManualClock()
        self.store = self.open()

    def open(self) -> SQLiteStore:
        return SQLiteStore(self.path, env=Env(clock=self.clock), durability="normal")

    def damage(self, statement: str, *values: Any) -> SQLiteStore:
        self.store.close()
        db = apsw.Connection(str(self.path))
        db.execute(statement, values)
        assert db.changes() > 0
        db.close()
        self.store = self.open()
        return self.store

    def run(self, limit: int = 50) -> list[str]:
        """Lease and complete until nothing is available; which jobs that were."""
        done: list[str] = []
        while True:
            exchange = self.store.exchange(
                request=LeaseRequest(worker="w", limit=limit, queues=("default", "keyed", "rules"))
            )
            if not exchange.leases:
                return done
            done += [lease.job_id for lease in exchange.leases]
            self.store.exchange(
                [Settlement(lease.job_id, lease.version, Complete()) for lease in exchange.leases]
            )

    def job(self, job_id: str) -> Job:
        job = self.store.get(job_id)
        assert job is not None
        return job


@pytest.fixture
def damaged(tmp_path: Path) -> Iterator[Damaged]:
    made = Damaged(tmp_path)
    yield made
    made.store.close()


DAMAGES: Final = {
    "a newer retry policy": (f"retry = '{NEWER_RETRY}'", "unknown retry policy 'fibonacci'"),
    "a retry policy that is no JSON": ("retry = '{'", "bad retry policy"),
    "metadata that is no JSON": ("metadata = 'so'", "bad metadata"),
    "a lease without end": ("lease_seconds = 9e999", "lease_seconds is inf"),
    "a timeout that is no number": ("timeout_seconds = 'soon'", "timeout_seconds"),
    "a deadline after all time": ("deadline = 9223372036854775807", "deadline"),
    "a codec that is no text": (f"codec = {BAD_TEXT}", "codec is not UTF-8"),
    "a parent that is no text": (f"parent_id = {BAD_TEXT}", "parent_id"),
    "a payload that is text": ("payload = 'text'", "payload"),
    "a priority that is text": ("priority = 'high'", "priority"),
    "a priority beyond all": ("priority = 1000", "priority"),
    "a lane that is not there": ("lane = 999", "queue"),
    "a key that is no text": (f"limit_key = {BAD_TEXT}", "limit_key"),
    "a start_by that is text": ("start_by = 'late'", "start_by"),
    "an allowance that is text": ("allowance = 'many'", "allowance"),
}


@pytest.mark.parametrize("kind", DAMAGES)
@pytest.mark.parametrize("where", ["pending", "delayed", "running"])
def test_a_job_that_cannot_be_read_is_set_aside_and_the_others_go_on(
    damaged: Damaged, kind: str, where: str
) -> None:
    store = damaged.store
    delay = 60.0 if where == "delayed" else None
    store.submit([Draft(id="bad", task="t", payload=b"precious", delay_seconds=delay)])
    if where == "running":
        store.exchange(request=LeaseRequest(worker="lost", lease_seconds=30))
    store.submit([Draft(id=f"good-{n}", task="t") for n in range(3)])
    change, problem = DAMAGES[kind]
    store = damaged.damage(f"UPDATE job SET {change} WHERE id = 'bad'")
    assert any("bad" in line for line in store.check())
    damaged.clock.advance(100)
    store.recover()
    done = damaged.run()
    assert [job_id for job_id in done if job_id != "bad"] == ["good-0", "good-1", "good-2"]
    bad = damaged.job("bad")
    assert bad.status is Status.DEAD, "it was run although it cannot be read"
    assert "its row cannot be read" in (bad.reason or "")
    assert problem in (bad.reason or "")
    assert "upgrade, then replay it" in (bad.reason or "")
    if "payload" not in kind:
        assert bad.payload_data == b"precious"
    assert any(line.startswith("job bad cannot be read") for line in store.check()) or (
        kind == "a lane that is not there"
    )
    # People see it, with an error where something cannot be read.
    assert "bad" in [job.id for job in store.search(JobFilter(statuses=(Status.DEAD,))).jobs]
    assert store.history("bad")[-1].after is Status.DEAD
    store.attempts("bad")
    store.stats()
    store.metrics()


def test_an_upgraded_version_replays_what_was_set_aside(damaged: Damaged) -> None:
    damaged.store.submit([Draft(id="newer", task="t", payload=b"precious")])
    damaged.damage("UPDATE job SET retry = ? WHERE id = 'newer'", NEWER_RETRY)
    assert damaged.run() == []
    # To replay it too early sets it aside again, and no more.
    damaged.store.replay(["newer"], reset_attempts=True, actor="me")
    assert damaged.run() == []
    # What an upgrade does is that the row can be read.
    damaged.damage("UPDATE job SET retry = NULL WHERE id = 'newer'")
    assert damaged.store.check() == []
    damaged.store.replay(["newer"], reset_attempts=True, actor="me")
    assert damaged.run() == ["newer"]
    assert damaged.job("newer").payload_data == b"precious"
    assert damaged.store.check() == []


def test_dependents_hear_of_a_job_that_was_set_aside(damaged: Damaged) -> None:
    damaged.store.submit(
        [Draft(id="bad", task="t"), Draft(id="after", task="t", depends_on=("bad",))]
    )
    damaged.damage("UPDATE job SET metadata = 'so' WHERE id = 'bad'")
    assert damaged.run() == []
    assert damaged.job("after").status is Status.CANCELLED


def test_a_failed_attempt_whose_retry_policy_cannot_be_read_is_a_dead_letter(
    damaged: Damaged,
) -> None:
    damaged.store.submit([Draft(id="bad", task="t", retry=Constant(1)), Draft(id="good", task="t")])
    leases = damaged.store.exchange(request=LeaseRequest(worker="w", limit=2)).leases
    damaged.damage("UPDATE job SET retry = ? WHERE id = 'bad'", NEWER_RETRY)
    failed = Fail(JobError("E", "card declined"))
    answers = damaged.store.exchange(
        [Settlement(lease.job_id, lease.version, failed) for lease in leases]
    ).settled
    assert not any(isinstance(answer, LeaseholdError) for answer in answers)
    bad = damaged.job("bad")
    assert (bad.status, damaged.job("good").status) == (Status.DEAD, Status.FAILED)
    assert "fibonacci" in (bad.reason or "")


def test_a_probe_that_cannot_be_read_does_not_use_up_the_turn_of_its_breaker(
    damaged: Damaged,
) -> None:
    from leasehold.core.model.breaker import Breaker

    damaged.store.submit([Draft(id=f"job-{n}", task="t") for n in range(3)])
    [first] = damaged.store.exchange(request=LeaseRequest(worker="w")).leases
    failed = Fail(JobError("E", "no"), breaker=Breaker(failures=1, pause_seconds=60))
    damaged.store.exchange([Settlement(first.job_id, first.version, failed)])
    damaged.damage("UPDATE job SET metadata = 'so' WHERE id = 'job-1'")
    damaged.clock.advance(61)
    leases = damaged.store.exchange(request=LeaseRequest(worker="w", limit=5)).leases
    assert [lease.job_id for lease in leases] in (["job-0"], ["job-2"])
    assert damaged.job("job-1").status is Status.DEAD


def test_a_schedule_that_cannot_be_read_does_not_stop_the_others(damaged: Damaged) -> None:
    for name in ("bad", "good"):
        job = Draft(id="x", task="t")
        draft = ScheduleDraft(name=name, timing=Every(60), job=job)
        damaged.store.set_schedule(draft, actor="me")
    store = damaged.damage(f"UPDATE schedule SET draft = {BAD_TEXT} WHERE name = 'bad'")
    damaged.clock.advance(120)
    assert len(damaged.run()) == 1
    listed = {schedule.name: schedule for schedule in store.schedules()}
    assert "not UTF-8" in (listed["bad"].error or "")
    assert listed["good"].error is None
    assert any("schedule 'bad'" in line for line in store.check())
    store.remove_schedule("bad", actor="me")
    assert store.check() == []


@pytest.mark.parametrize("change", ["state = 'frozen'", "config = '{'", f"config = {BAD_TEXT}"])
def test_a_queue_whose_rules_cannot_be_read_rests_and_the_others_go_on(
    damaged: Damaged, change: str
) -> None:
    damaged.store.create_queue("rules", QueueConfig(max_concurrency=1), actor="me")
    damaged.store.submit([Draft(id="ruled", task="t", queue="rules"), Draft(id="free", task="t")])
    store = damaged.damage(f"UPDATE queue SET {change} WHERE name = 'rules'")
    damaged.damage("UPDATE store_state SET queue_generation = queue_generation + 1")
    store = damaged.store
    assert damaged.run() == ["free"]
    with pytest.raises(QueueClosedError, match="newer version"):
        store.submit([Draft(id="another", task="t", queue="rules")])
    assert any("'rules' cannot be read" in line for line in store.check())
    assert [info.name for info in store.list_queues()] == ["default", "rules"]
    store.update_queue("rules", {"max_concurrency": 2}, actor="me")
    store.set_queue_state("rules", store.list_queues()[1].state.__class__.ACTIVE, actor="me")
    assert store.check() == []
    assert damaged.run() == ["ruled"]


def test_an_unknown_rule_of_a_newer_version_is_left_alone(damaged: Damaged) -> None:
    damaged.store.create_queue("rules", QueueConfig(max_concurrency=1), actor="me")
    damaged.store.submit([Draft(id="ruled", task="t", queue="rules")])
    damaged.damage("""UPDATE queue SET config = '{"max_concurrency": 1, "newer": true}'""")
    assert damaged.run() == ["ruled"]


@pytest.mark.parametrize("document", [BAD_TEXT, "'{'", "x'00'", "'{\"name\": 1}'"])
def test_a_token_that_cannot_be_read_counts_as_revoked(damaged: Damaged, document: str) -> None:
    draft = TokenDraft(name="ci", roles=("admin",))
    damaged.store.create_token(draft, "digest", actor="me")
    store = damaged.damage(f"UPDATE token SET document = {document}")
    assert store.find_token("digest") is None
    assert store.tokens() == []
    said = "the token 'ci' cannot be read, and counts as revoked"
    assert any(line.startswith(said) for line in store.check())


@pytest.mark.parametrize("value", ["'{'", BAD_TEXT, "'\"many\"'"])
def test_a_setting_that_cannot_be_read_counts_as_not_set(damaged: Damaged, value: str) -> None:
    damaged.store.set_setting("max_retries", 7, actor="me")
    store = damaged.damage(f"UPDATE setting SET value = {value}")
    assert dict(store.settings().values) == {}
    store.submit([Draft(id="job", task="t")])
    assert damaged.job("job").max_retries == 3
    assert any("'max_retries' cannot be read" in line for line in store.check())


def test_what_people_look_at_is_shown_however_damaged(damaged: Damaged) -> None:
    damaged.store.submit([Draft(id="job", task="t")])
    [lease] = damaged.store.exchange(request=LeaseRequest(worker="w")).leases
    damaged.store.append_log("job", lease.version, [LogLine(SYSTEM.now(), "a line")])
    damaged.store.exchange([Settlement("job", lease.version, Complete())])
    damaged.damage(f"UPDATE attempt SET worker = {BAD_TEXT}, note = x'ff', message = {BAD_TEXT}")
    damaged.damage(f"UPDATE log SET line = {BAD_TEXT}")
    damaged.store.create_queue("q", QueueConfig(), actor="me")
    store = damaged.damage(f"UPDATE audit SET detail = '[', actor = {BAD_TEXT}")
    assert len(store.attempts("job")) == 1
    assert [event.event for event in store.history("job")] == ["created", "leased", "completed"]
    assert len(store.log("job").lines) == 1
    assert len(store.audit_page().records) == 1


# -- any damage, anywhere ----------------------------------------------------------------------

TABLES: Final = {
    "job": ("id", "lane", "priority", "born", "created_at", "max_retries", "allowance",
            "timeout_seconds", "lease_seconds", "deadline", "start_by", "result_ttl_seconds",
            "retry", "metadata", "idempotency_key", "parent_id", "codec", "payload", "limit_key"),
    "ready": ("tier", "turn", "version", "attempts", "events", "available_at", "parent_id"),
    "waiting": ("status", "due", "since", "version", "attempts", "events", "reason"),
    "running": ("version", "worker", "acquired_at", "expires_at", "heartbeat_at", "attempts",
                "events", "leased_event", "available_at", "cancel_reason"),
    "finished": ("status", "finished_at", "started_at", "version", "attempts", "result",
                 "result_codec", "reason"),
    "attempt": ("number", "worker", "started_at", "outcome", "after", "message", "error_type",
                "error_message", "note"),
    "event": ("at", "event", "before", "after", "worker", "message"),
    "dependent": ("policy", "due", "ended_by"),
    "dependency": ("id",),
    "schedule": ("draft", "next_at", "due_at", "paused", "last_at", "last_job_id", "fired",
                 "error"),
    "queue": ("state", "config"),
    "setting": ("value",),
    "token": ("document",),
    "worker": ("host", "queues", "slots", "heartbeat_at"),
    "place": ("crosses_at",),
}  # fmt: skip
GARBAGE: Final = (
    BAD_TEXT, "'so'", "''", "'{'", "x'00ff'", "-1", "99", "1e308", "9e999", "3.5",
    "9223372036854775807", "NULL", "'[1, 2]'", "'{\"type\": \"fibonacci\"}'",
)  # fmt: skip


def everything(damaged: Damaged) -> None:
    """Jobs of every kind, in every status."""
    store = damaged.store
    store.create_queue("keyed", QueueConfig(key_concurrency=1), actor="me")
    store.set_setting("max_retries", 2, actor="me")
    store.create_token(TokenDraft(name="ci", roles=("admin",)), "digest", actor="me")
    store.submit([Draft(id="done", task="t"), Draft(id="failing", task="t", retry=Constant(5))])
    first, second = store.exchange(request=LeaseRequest(worker="w", limit=2)).leases
    store.exchange(
        [
            Settlement(first.job_id, first.version, Complete(b"1", b'{"a": 1}')),
            Settlement(second.job_id, second.version, Fail(JobError("E", "no"))),
        ]
    )
    store.submit([Draft(id="held", task="t", metadata={"a": 1}), Draft(id="held-too", task="t")])
    store.exchange(request=LeaseRequest(worker="lost", limit=2, lease_seconds=30))
    store.submit(
        [
            Draft(id="plain", task="t"),
            Draft(id="tagged", task="t", metadata={"a": 1}, parent_id="group"),
            Draft(id="urgent", task="t", deadline=damaged.clock.now().replace(year=2999)),
            Draft(id="later", task="t", delay_seconds=20),
            Draft(id="key-1", task="t", queue="keyed", limit_key="k"),
            Draft(id="key-2", task="t", queue="keyed", limit_key="k"),
            Draft(id="waits", task="t", depends_on=("plain",), on_dependency_failure="ignore"),
            Draft(id="waits-too", task="t", depends_on=("plain", "tagged")),
            Draft(id="perishable", task="t", start_within_seconds=10**6),
        ]
    )
    schedule = ScheduleDraft(name="tick", timing=Every(60), job=Draft(id="x", task="t"))
    store.set_schedule(schedule, actor="me")


EXPECTED: Final = frozenset(
    {"done", "failing", "held", "held-too", "plain", "tagged", "urgent", "later", "key-1", "key-2",
     "waits", "waits-too", "perishable"}
)  # fmt: skip


@settings(max_examples=drawn(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_whatever_is_damaged_all_other_jobs_are_run_to_their_end(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    damaged = Damaged(tmp_path_factory.mktemp("damaged"))
    try:
        everything(damaged)
        table = data.draw(st.sampled_from(sorted(TABLES)))
        column = data.draw(st.sampled_from(TABLES[table]))
        value = data.draw(st.sampled_from(GARBAGE))
        place = data.draw(st.integers(0, 12))
        hit = damage_one(damaged, table, column, value, place)
        if hit is None or (column == "limit_key" and value not in (BAD_TEXT, "x'00ff'")):
            return  # Another key is no damage that anybody could see.
        run_as_a_worker_would(damaged)
        judge(damaged, hit, f"{table}.{column} = {value} of {hit}")
    finally:
        damaged.store.close()


def damage_one(damaged: Damaged, table: str, column: str, value: str, place: int) -> str | None:
    """Write garbage to one column of one row; whose row it was, None if SQLite refused it."""
    damaged.store.close()
    db = apsw.Connection(str(damaged.path))
    try:
        by_job = table in ("ready", "waiting", "running", "finished", "attempt", "event",
                           "dependent", "dependency", "place")  # fmt: skip
        if by_job:
            keys: Any = db.execute(f"SELECT DISTINCT seq FROM {table} ORDER BY seq").fetchall()
            where = "seq = ?"
        elif table == "job":
            keys = db.execute("SELECT seq FROM job ORDER BY seq").fetchall()
            where = "seq = ?"
        else:
            name = {"worker": "id"}.get(table, "name")
            keys = db.execute(f"SELECT {name} FROM {table} ORDER BY 1").fetchall()
            where = f"{name} = ?"
        if not keys:
            return None
        [key] = keys[place % len(keys)]
        owner = str(key)
        if by_job or table == "job":
            row: Any = db.execute("SELECT id FROM job WHERE seq = ?", (key,)).fetchone()
            owner = row[0]
        try:
            db.execute(f"UPDATE {table} SET {column} = {value} WHERE {where}", (key,))
        except (apsw.ConstraintError, apsw.MismatchError):
            return None
        db.execute("UPDATE store_state SET queue_generation = queue_generation + 1, "
                   "settings_generation = settings_generation + 1")  # fmt: skip
        return owner
    finally:
        db.close()
        damaged.store = damaged.open()


def run_as_a_worker_would(damaged: Damaged) -> None:
    for _ in range(8):
        damaged.clock.advance(60)
        damaged.store.recover()
        damaged.store.promote()
        damaged.store.fire_schedules()
        damaged.run()


def judge(damaged: Damaged, hit: str, said: str) -> None:
    store = damaged.store
    jobs = {job.id: job for job in store.search(JobFilter()).jobs}
    depend_on_it = {"waits", "waits-too"} if hit in ("plain", "tagged") else set()
    # The jobs of a queue whose rules cannot be read wait until somebody sets them again.
    resting = {"key-1", "key-2"} if hit == "keyed" else set()
    for job_id in EXPECTED - {hit} - depend_on_it - resting:
        assert jobs[job_id].status is Status.COMPLETED, f"{job_id} did not end after {said}"
    for job_id in depend_on_it:
        assert jobs[job_id].status in TERMINAL, f"{job_id} did not end after {said}"
    problems = store.check()
    renamed = hit in EXPECTED and hit not in jobs
    harmless = hit not in EXPECTED or renamed or jobs[hit].status in TERMINAL
    assert problems or harmless, f"neither harmless nor named: {said}"
    for job_id in jobs:
        store.get(job_id)
        store.history(job_id)
        store.attempts(job_id)
    store.list_queues()
    store.schedules()
    store.workers()
    store.metrics()
    store.settings()
    store.tokens()
    store.find_token("digest")
